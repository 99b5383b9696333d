"""Compare tables that splitlib reads with join keys to semi-joins over ``spark.table``."""

from __future__ import annotations

import copy
import uuid
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hmsclient.genthrift.hive_metastore.ttypes import Partition

from splitlib_hive.client import MetastoreClient, parse_uris
from tests.support.hive_tables import HiveTables
from tests.support.thrift_client import thrift_client

HOW = ("pinned", "paths", "session")


class FilteredTables(HiveTables):
    """Creates metastore tables, and compares splitlib's rows of them with Spark's.

    It also adds partitions that SQL statements cannot add.
    """

    def add_partition(self, table, values, *, rows, location=None, stored_as=None):
        """Add a partition through Thrift, because Spark would change its values and location.

        Args:
            table: Name of the table, with its database.
            values: Partition values as text.
            rows: Values of the data column, or an Arrow table. If None, no file is written.
            location: Directory of the partition; None for the default directory below the table.
            stored_as: Name of a table from which the partition copies its file format; None for its
                own table.
        """
        client = MetastoreClient(parse_uris(self.metastore.uri))
        described = client.get_table(*table.split("."))
        sd = copy.deepcopy(described.sd)
        if stored_as:
            other = client.get_table(*stored_as.split(".")).sd
            sd.inputFormat, sd.serdeInfo = other.inputFormat, other.serdeInfo
        names = [f"{key.name}={v}" for key, v in zip(described.partitionKeys, values, strict=True)]
        sd.location = f"file:{location}" if location else "/".join([sd.location, *names])
        path = Path(sd.location.removeprefix("file:"))
        absent = rows is None
        if not absent:
            path.mkdir(parents=True, exist_ok=True)
            if isinstance(rows, list):
                rows = pa.table({"a": pa.array(rows, pa.int32())}) if rows else None
            if rows is not None:
                pq.write_table(rows, path / f"{uuid.uuid4()}.parquet")
        partition = Partition(values, *table.split("."), sd=sd, parameters={})
        client.close()
        with thrift_client(self.metastore) as thrift:
            thrift.add_partition(partition)
        if absent and not any(path.iterdir()):
            path.rmdir()  # The metastore has created an empty directory.
        self.spark.catalog.refreshTable(table)

    def same(self, table, dimension, on, *, null_safe=False, where=None, ways=HOW, **settings):
        """Assert that each read method gives Spark's schema and rows. Return the number of rows."""
        fact = self.spark.table(table)
        condition = None
        for fact_key, dimension_key in on.items():
            left, right = fact[fact_key], dimension[dimension_key]
            equal = left.eqNullSafe(right) if null_safe else left == right
            condition = equal if condition is None else condition & equal
        expected = fact if condition is None else fact.join(dimension, condition, "left_semi")
        if where:
            expected = expected.where(where)
        rows = Counter(expected.collect())
        for how in ways:
            reader = self.reader(table, how, **settings)
            if on:
                reader = reader.filtered_by(dimension, on, null_safe=null_safe)
            if where:
                reader = reader.where(where)
            loaded = reader.load()
            assert loaded.schema == fact.schema
            assert Counter(loaded.collect()) == rows, how
        return sum(rows.values())
