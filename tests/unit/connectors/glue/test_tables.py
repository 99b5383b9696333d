"""Tables that are opened, and tables that are rejected."""

from __future__ import annotations

import pyarrow as pa
import pytest

import splitlib
from splitlib import SplitConfig
from tests.support.glue_server import refusal, stored
from tests.unit.connectors.glue.conftest import add_table

OTHER = {"CatalogId": "210987654321", "DatabaseName": "their", "Name": "real"}


SKEWED = {
    **stored("file:///nowhere/t", [{"Name": "v", "Type": "bigint"}]),
    "StoredAsSubDirectories": True,
    "SkewedInfo": {"SkewedColumnNames": ["v"]},
}


def load(server, **options):
    return splitlib.load_table("DB.T", "glue", **server.options, **options)


def test_columns_and_keys(server):
    add_table(server, {"day": "date", "n": "decimal(5,2)"})
    with load(server) as table:
        assert table.schema == pa.schema(
            [("v", pa.int64()), ("day", pa.date32()), ("n", pa.decimal128(5, 2))]
        )
        assert table.partition_keys == ("day", "n")
        assert table.metadata.location == "file:///nowhere/t"
        assert table.metadata.read_format.name == "parquet"


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"TableType": "VIRTUAL_VIEW"}, "is a view", ""),
        ({"TableType": "virtual_view"}, "is a view", ""),
        ({"IsMultiDialectView": True}, "is a view", ""),
        ({"ViewDefinition": {"IsProtected": True}}, "is a view", ""),
        ({"Parameters": {"table_type": "ICEBERG"}}, "Iceberg table", "connector='iceberg'"),
        ({"Parameters": {"table_type": "DELTA"}}, "Delta table", "connector='delta'"),
        ({"Parameters": {"table_type": "HUDI"}}, "Hudi table", ""),
        ({"Parameters": {"spark.sql.sources.provider": "delta"}}, "Delta table", ""),
        ({"Parameters": {"spark.sql.sources.provider": "hudi"}}, "Hudi table", ""),
        ({"TableType": "GOVERNED"}, "governed", ""),
        ({"FederatedTable": {"ConnectionName": "snow"}}, "connection 'snow'", "that catalog"),
        ({"RLSProperties": {"DefaultRLSPolicy": "p"}}, "policy of the catalog", ""),
        ({"StorageDescriptor": {"Columns": [], "Location": "s3://b/t"}}, "SerDe unknown", ""),
        ({"StorageDescriptor": SKEWED}, "list-bucketed", ""),
        ({"IsRegisteredWithLakeFormation": True}, "does not tell", "unfiltered=True"),
    ],
    ids=str,
)
def test_tables_that_are_rejected(server, changes, message, hint):
    add_table(server, {}, **changes)
    with pytest.raises(splitlib.UnsupportedTable, match=message) as caught:
        load(server)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("part", ["StoredAsSubDirectories", "SkewedInfo"])
def test_a_table_without_directories_of_skewed_values(server, part):
    described = {name: value for name, value in SKEWED.items() if name != part}
    add_table(server, {}, StorageDescriptor=described)
    load(server).close()


def test_options_of_the_storage(server):
    add_table(server, {})
    with load(server, storage_options={"anon": "true"}) as table:
        assert table.storage_options("s3") == {"anon": "true"}


@pytest.mark.parametrize(
    "change",
    [
        {"CreateTime": 5},
        {"TableType": "MANAGED_TABLE"},
        {"StorageDescriptor": stored("file:///elsewhere", [{"Name": "v", "Type": "bigint"}])},
        {"StorageDescriptor": None},
        {"PartitionKeys": [{"Name": "k", "Type": "int"}]},
        {"PartitionKeys": None},
    ],
    ids=str,
)
def test_a_table_that_was_created_again(server, change):
    add_table(server, {"k": "string"})
    described = server.tables[server.catalog, "db", "t"]
    with load(server) as table:
        described["Parameters"] = {"numFiles": "5"}
        table.check_identity()
        described |= change
        with pytest.raises(splitlib.TableNotFound, match="dropped and created again"):
            table.check_identity()


def test_a_table_that_a_spark_stream_writes(server, tmp_path):
    (tmp_path / "_spark_metadata").mkdir()
    location = stored(f"file://{tmp_path}", [{"Name": "v", "Type": "bigint"}])
    add_table(server, {}, StorageDescriptor=location)
    with pytest.raises(splitlib.UnsupportedTable, match="A Spark stream writes the table"):
        load(server)


def test_a_table_without_a_location(server):
    nowhere = stored("", [{"Name": "v", "Type": "bigint"}])
    add_table(server, {}, StorageDescriptor=nowhere)
    with pytest.raises(splitlib.CorruptMetadata, match="The table has no location"):
        load(server)
    add_table(server, {"k": "string"}, StorageDescriptor=nowhere)
    with load(server) as table:  # partitions have their own locations
        assert table.partition_keys == ("k",)


def test_table_without_storage(server):
    add_table(server, {})
    del server.tables[server.catalog, "db", "t"]["StorageDescriptor"]
    with pytest.raises(splitlib.UnsupportedTable, match="SerDe unknown"):
        load(server)


def test_missing_table_or_database(server):
    with pytest.raises(splitlib.TableNotFound, match="Entity Not Found"):
        load(server)


def test_rows_that_lake_formation_filters(server):
    add_table(server, {}, IsRegisteredWithLakeFormation=True)
    server.faults = [None, refusal("ThrottlingException")]
    with pytest.raises(splitlib.SourceUnavailable, match="ThrottlingException"):
        load(server, config=SplitConfig(retry_attempts=1))
    server.requests.clear()
    whole = {"AuthorizedColumns": ["v"], "IsRegisteredWithLakeFormation": True}
    server.filters["t"] = whole
    with load(server):
        assert server.names() == ["GetTable", "GetUnfilteredTableMetadata"]
        asked = server.requests[-1][1]
        assert asked["CatalogId"] == server.catalog
        assert asked["SupportedPermissionTypes"] == ["COLUMN_PERMISSION", "CELL_FILTER_PERMISSION"]
    for everything in (" true ", "", None):
        server.filters["t"] = whole | {"RowFilter": everything}
        load(server).close()
    cells = [{"ColumnName": "v", "RowFilterExpression": "v > 1"}]
    for restriction in ({"RowFilter": "v > 1"}, {"CellFilters": cells}):
        server.filters["t"] = whole | restriction
        with pytest.raises(splitlib.UnsupportedTable, match="filters rows or cells"):
            load(server)
    more = {**server.tables[server.catalog, "db", "t"]}
    more["StorageDescriptor"] = stored("s3://b", [{"Name": name} for name in ("salary", "v")])
    server.filters["t"] = whole | {"Table": more}
    load(server).close()  # Parquet finds columns by name
    text = {"SerializationLibrary": "org.apache.hadoop.hive.serde2.OpenCSVSerde"}
    described = server.tables[server.catalog, "db", "t"]["StorageDescriptor"]
    described |= {"SerdeInfo": text, "InputFormat": "org.apache.hadoop.mapred.TextInputFormat"}
    with pytest.raises(splitlib.UnsupportedTable, match="hides columns"):
        load(server)
    server.requests.clear()
    with load(server, unfiltered=True):
        assert server.names() == ["GetTable"]


def test_resource_link(server):
    add_table(server, {}, TargetTable=OTHER)
    add_table(server, {"k": "string"})
    described = server.tables[server.catalog, "db", "t"]
    server.add_table("their", "real", catalog=OTHER["CatalogId"], **_without_names(described))
    add_table(server, {}, TargetTable=OTHER)
    with load(server) as table:
        assert table.partition_keys == ("k",)
        list(table.connector.list_partitions(splitlib.spi.Predicate(table.schema)))
    given = server.requests[-1][1]
    assert (given["CatalogId"], given["DatabaseName"], given["TableName"]) == tuple(OTHER.values())


def test_resource_link_of_a_database(server):
    """Glue answers with the names of the database that the link leads to."""
    add_table(server, {"k": "string"})
    found = server.tables[server.catalog, "db", "t"]
    server.add_table("real", "t", catalog=OTHER["CatalogId"], **_without_names(found))
    found |= {"CatalogId": OTHER["CatalogId"], "DatabaseName": "real"}
    with load(server) as table:
        list(table.connector.list_partitions(splitlib.spi.Predicate(table.schema)))
    assert server.requests[-1][1]["CatalogId"] == OTHER["CatalogId"]
    assert server.requests[-1][1]["DatabaseName"] == "real"


def test_resource_links_that_lead_nowhere(server):
    add_table(server, {}, TargetTable={**OTHER, "Region": "us-west-9"})
    with pytest.raises(splitlib.UnsupportedTable, match=r"their\.real in the region us-west-9"):
        load(server)
    add_table(server, {}, TargetTable=OTHER)
    with pytest.raises(splitlib.TableNotFound):
        load(server)
    server.add_table("their", "real", catalog=OTHER["CatalogId"], TargetTable=OTHER)
    with pytest.raises(splitlib.UnsupportedTable, match="another resource link"):
        load(server)


def test_catalog_of_another_account(server):
    server.add_table("db", "t", catalog="5", TableType="VIRTUAL_VIEW")
    with pytest.raises(splitlib.TableNotFound):
        load(server)
    with pytest.raises(splitlib.UnsupportedTable, match="view"):
        load(server, catalog_id="5")


def _without_names(table):
    return {k: v for k, v in table.items() if k not in ("CatalogId", "DatabaseName", "Name")}


def test_columns_of_csv_are_text_whatever_their_declared_types(server):
    """Hive and Spark ignore the declared types, too, because OpenCSVSerde returns only strings."""
    serde = {"SerializationLibrary": "org.apache.hadoop.hive.serde2.OpenCSVSerde"}
    text = {"SerdeInfo": serde, "InputFormat": "org.apache.hadoop.mapred.TextInputFormat"}
    columns = stored("file:///nowhere/t", [{"Name": "v", "Type": "bigint"}])
    add_table(server, {"k": "int"}, StorageDescriptor=columns | text)
    with load(server) as table:
        assert table.schema == pa.schema([("v", pa.string()), ("k", pa.int32())])
