"""Tables of a metastore whose rows are compared with those of ``spark.table``."""

from __future__ import annotations

import copy
import itertools
import uuid
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hmsclient.genthrift.hive_metastore.ttypes import Partition
from hypothesis import strategies as st

import splitlib
from splitlib_hive.client import MetastoreClient, parse_uris
from tests.support.thrift_client import thrift_client

_names = (f"t{i}" for i in itertools.count())


class Lake:
    """Makes tables, and compares what both sides read from them."""

    def __init__(self, spark, metastore, directory):
        self.spark, self.metastore, self.directory = spark, metastore, directory

    def create(self, definition, *statements):
        name = f"default.{next(_names)}"
        for statement in (f"CREATE TABLE {{t}} {definition}", *statements):
            self.spark.sql(statement.replace("{t}", name))
        return name

    def add_partition(self, table, values, *, rows, location=None, stored_as=None):
        """Through thrift, with values and a location just as given; None leaves no directory.

        ``stored_as`` is another table whose format the partition gets.
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
            path.rmdir()  # the metastore has made it
        self.spark.catalog.refreshTable(table)

    def reader(self, table, how="auto", **settings):
        reader = splitlib.read(self.spark).table(table, connector="hive", uri=self.metastore.uri)
        return reader.config(spark_scan=how, **settings)

    def same(self, table, dimension, on, *, null_safe=False, where=None, **settings):
        """Equal schema and rows, through both ways of reading; returns the number of rows."""
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
        for how in ("pinned", "paths"):
            reader = self.reader(table, how, **settings)
            if on:
                reader = reader.filtered_by(dimension, on, null_safe=null_safe)
            if where:
                reader = reader.where(where)
            loaded = reader.load()
            assert loaded.schema == fact.schema
            assert Counter(loaded.collect()) == rows, how
        return sum(rows.values())


values = st.one_of(st.none(), st.integers(-3, 3))
