"""Iceberg tables in catalogs of type ``hive``, opened by the ``iceberg`` connector."""

from __future__ import annotations

import uuid

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, NestedField

import splitlib
from tests.support.iceberg_tables import append, data_file, paths_of, select

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

SCHEMA = Schema(NestedField(1, "d", IntegerType(), required=False))
BY_D = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "d"))


@pytest.fixture
def written(tmp_path):
    """Create an Iceberg table that other catalogs can register. Return it and its file paths."""
    catalog = load_catalog("writer", type="in-memory", warehouse=tmp_path.as_uri())
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=BY_D)
    files = [data_file(table, [{"d": d}]) for d in (1, 2)]
    append(table, files)
    yield table, paths_of(files)
    catalog.close()


@pytest.fixture
def hive(metastore, tmp_path):
    """Return an Iceberg catalog in the metastore, a new namespace, and the catalog's properties."""
    properties = {
        "type": "hive",
        "uri": metastore.uri,
        "warehouse": tmp_path.as_uri(),
        # The tests' metastore is Hive 2.3.
        "hive.hive2-compatible": "true",
    }
    catalog = load_catalog("hive", **properties)
    namespace = f"n{uuid.uuid4().hex[:8]}"
    catalog.create_namespace(namespace, {"location": tmp_path.as_uri()})
    yield catalog, namespace, properties
    catalog.close()


def test_a_hive_metastore(hive, written):
    catalog, namespace, properties = hive
    table, paths = written
    # A writer needs lock tables, which this metastore does not have. Registering needs none.
    catalog.register_table(f"{namespace}.t", table.metadata_location)
    with splitlib.load_table(f"{namespace}.t", "iceberg", **properties) as opened:
        keys = splitlib.DynamicFilteringData.from_values({"d": [2]})
        assert select(opened, keys)[0] == paths[1:]
    with pytest.raises(splitlib.TableNotFound):
        splitlib.load_table(f"{namespace}.missing", "iceberg", **properties)
    # The ``hive`` connector rejects the table, and its error names the right connector.
    with pytest.raises(splitlib.UnsupportedTable, match="connector='iceberg'"):
        splitlib.load_table(f"{namespace}.t", "hive", uri=properties["uri"])


def test_a_hive_table_is_no_iceberg_table(hive, spark):
    _, namespace, properties = hive
    spark.sql(f"CREATE TABLE {namespace}.plain (a INT) USING parquet")
    with pytest.raises(splitlib.TableNotFound, match="no such Iceberg table"):
        splitlib.load_table(f"{namespace}.plain", "iceberg", **properties)


def test_a_metastore_that_does_not_answer():
    config = splitlib.SplitConfig(retry_attempts=1)
    with pytest.raises(splitlib.SourceUnavailable):
        splitlib.load_table(
            "a.b", "iceberg", config=config, type="hive", uri="thrift://127.0.0.1:9"
        )
