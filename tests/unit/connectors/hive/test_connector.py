"""Requests and results of the Hive connector, with a metastore in the test process."""

from __future__ import annotations

import json
import re
import time
from contextlib import closing

import pyarrow as pa
import pytest
from hmsclient.genthrift.hive_metastore.ttypes import FieldSchema, MetaException, Partition

import splitlib
from splitlib import DynamicFilteringData
from splitlib.filtering.predicate import Predicate
from splitlib.storage import Storage
from splitlib_hive import HiveConnector
from splitlib_hive.client import MetastoreClient, parse_uris
from splitlib_hive.connection import Connection
from splitlib_hive.security import Security
from tests.unit.connectors.hive.fake_metastore import (
    TEXT,
    FakeMetastore,
    descriptor,
    served,
    table_of,
)

ALL = Predicate(pa.schema([]), [])


@pytest.fixture
def metastore():
    return FakeMetastore()


@pytest.fixture
def server(metastore):
    with served(metastore) as running:
        yield running


def add_table(metastore, location, *keys, names=(), **changes):
    table = table_of(str(location), *keys, **changes)
    metastore.tables["d", "t"] = table
    metastore.partitions["d", "t"] = {
        name: Partition(
            values=[pair.partition("=")[2] for pair in name.split("/")],
            sd=descriptor(f"{location}/{name}"),
            parameters={},
        )
        for name in names
    }
    return table


@pytest.fixture
def by_two(metastore, tmp_path):
    """Create a table with two partition keys, three partitions and a file in each."""
    names = ["y=1/m=a", "y=1/m=b", "y=2/m=a"]
    for name in names:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "f").write_bytes(b"12345")
    add_table(metastore, tmp_path, "y", "m", names=names)
    return names


def opened(server, name="d.t", **options):
    return closing(HiveConnector.open(name, {"uri": server.uri, **options}))


@pytest.mark.parametrize("text", [True, False])
def test_columns_that_must_not_be_null(metastore, server, tmp_path, text):
    """Hive's reader, which reads text, ignores NOT NULL."""
    column = {"name": "v", "type": "integer", "nullable": False, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [column]})
    table = add_table(metastore, tmp_path, parameters={"spark.sql.sources.schema": schema})
    if text:
        table.sd = descriptor(str(tmp_path), TEXT)
    with opened(server) as connector:
        (found,) = json.loads(connector.describe().spark_schema)["fields"]
    assert found["nullable"] is text


def test_partitions_are_named_in_one_call(metastore, server, by_two):
    with opened(server) as connector:
        (batch,) = connector.list_partitions(ALL)
    assert batch.values.to_pydict() == {"y": ["1", "1", "2"], "m": ["a", "b", "a"]}
    assert batch.refs.to_pylist() == by_two
    assert (batch.requests.catalog, batch.requests.storage) == (1, 0)
    assert metastore.calls == [("get_table", "d", "t"), ("get_partition_names", "d", "t", -1)]


@pytest.mark.parametrize("years", [1, 10, 11])
def test_partitions_of_few_values_of_the_first_key(metastore, server, by_two, years):
    wanted = DynamicFilteringData.from_values({"y": [str(year) for year in range(1, years + 1)]})
    with opened(server) as connector:
        predicate = Predicate(connector.describe().filter_schema, [wanted])
        batches = list(connector.list_partitions(predicate))
    few = years <= 10
    assert {batch.asked_for for batch in batches} == {"prefix" if few else "all"}
    found = [ref for batch in batches for ref in batch.refs.to_pylist()]
    assert found == by_two[:2] if years == 1 else by_two
    asked = [("get_partition_names_ps", str(year), "") for year in range(1, years + 1)]
    assert sorted(metastore.calls[1:]) == (
        sorted(asked) if few else [("get_partition_names", "d", "t", -1)]
    )


def test_details_belong_to_their_partitions(metastore, server, by_two, tmp_path):
    metastore.tables["d", "t"].sd = descriptor(str(tmp_path), TEXT)
    changed = metastore.partitions["d", "t"]
    changed["y=1/m=b"].sd = descriptor(str(tmp_path / "y=1/m=b"), TEXT)
    changed["y=1/m=a"].parameters = {"numFiles": "12"}
    changed["y=1/m=b"].parameters = None
    with opened(server, partitions_per_request="7") as connector:
        assert connector.partitions_per_details == 7
        (batch,) = connector.list_partitions(ALL)
        del changed["y=2/m=a"]  # the partition is dropped after the listing
        details = connector.load_details(batch)
        assert details.values.to_pydict() == {"y": ["1", "1"], "m": ["a", "b"]}
        assert (details.requests.catalog, details.files_each) == (1, 12)
        files = list(connector.list_files(details, ALL))
    assert [each.files["path"].to_pylist() for each in files] == [
        [f"{tmp_path}/y=1/m=a/f"],
        [f"{tmp_path}/y=1/m=b/f"],
    ]
    assert [each.files["partition"].to_pylist() for each in files] == [[0], [1]]
    assert [each.read_format.name for each in files] == ["parquet", "hive-text"]
    assert [each.requests.storage for each in files] == [1, 1]


def test_partitions_of_known_names_come_with_details(metastore, server, by_two):
    wanted = DynamicFilteringData.from_values({"y": ["2", "1"], "m": ["a", "c"]})
    with opened(server) as connector:
        predicate = Predicate(connector.describe().filter_schema, [wanted])
        (batch,) = connector.list_partitions(predicate)
    assert (batch.asked_for, batch.values.to_pylist()) == ("names", [{"y": "2", "m": "a"}])
    assert metastore.calls[1:] == [("get_partitions_by_names", 2)]


@pytest.mark.parametrize(
    ("given", "stored", "by_name"),
    [
        (None, None, False),
        (None, "true", True),
        (True, None, True),
        ("false", "true", False),
    ],
)
def test_partitions_of_numbers_are_named_if_values_are_canonical(
    metastore, server, tmp_path, given, stored, by_name
):
    keys = [FieldSchema("n", "int")]
    parameters = None if stored is None else {"splitlib.canonical_values": stored}
    add_table(metastore, tmp_path, names=["n=07"], partitionKeys=keys, parameters=parameters)
    options = {} if given is None else {"canonical_values": given}
    wanted = DynamicFilteringData.from_values({"n": [7]})
    with opened(server, **options) as connector:
        predicate = Predicate(connector.describe().filter_schema, [wanted])
        batches = list(connector.list_partitions(predicate))
    assert sum(map(len, batches)) == (not by_name)  # the value 07 is not canonical
    call = "get_partitions_by_names" if by_name else "get_partition_names"
    assert metastore.calls[1][0] == call


def test_null_partitions_have_details(metastore, server, tmp_path):
    add_table(metastore, tmp_path, "k", names=["k=__HIVE_DEFAULT_PARTITION__", "k=1"])
    with opened(server) as connector:
        (batch,) = connector.list_partitions(ALL)
        assert batch.values["k"].to_pylist() == [None, "1"]
        assert len(connector.load_details(batch)) == 2


def test_a_partition_without_a_location(metastore, server, by_two):
    metastore.partitions["d", "t"]["y=1/m=b"].sd.location = None
    with opened(server) as connector:
        (batch,) = connector.list_partitions(ALL)
        with pytest.raises(splitlib.CorruptMetadata, match="no location") as caught:
            connector.load_details(batch)
    assert caught.value.partition == "y=1/m=b"


@pytest.mark.parametrize("missing", ["sd", "values"])
def test_a_partition_of_which_a_part_is_missing(metastore, server, by_two, missing):
    setattr(metastore.partitions["d", "t"]["y=1/m=b"], missing, None)
    with opened(server) as connector:
        (batch,) = connector.list_partitions(ALL)
        with pytest.raises(splitlib.CorruptMetadata, match=r"data about .* partition .*is damaged"):
            connector.load_details(batch)


def test_a_table_without_partitions(metastore, server, tmp_path):
    (tmp_path / "f").write_bytes(b"12345")
    add_table(metastore, tmp_path)
    with opened(server) as connector:
        (batch,) = connector.list_partitions(ALL)
        assert (len(batch), batch.requests.catalog) == (1, 0)
        assert connector.load_details(batch) is batch
        (files,) = connector.list_files(batch, ALL)
    assert files.files["path"].to_pylist() == [f"{tmp_path}/f"]
    assert metastore.calls == [("get_table", "d", "t")]


SPARK = {
    "spark.sql.sources.provider": "csv",
    "spark.sql.sources.schema": json.dumps(
        {"type": "struct", "fields": [{"name": "V", "type": "integer"}]}
    ),
}


def test_empty_names_of_directories_are_left_out(metastore, server, tmp_path, by_two):
    """On an object store, a listing with them would find nothing."""
    add_table(metastore, f"{tmp_path}/", "y", "m", names=by_two[:1])
    with opened(server) as connector:
        (batch,) = connector.list_partitions(ALL)
        (files,) = connector.list_files(connector.load_details(batch), ALL)
    assert files.files["path"].to_pylist() == [f"{tmp_path}/y=1/m=a/f"]


def test_a_table_of_spark_that_is_read_recursively(metastore, server, tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "f").write_bytes(b"12345")
    # Spark keeps the location of a table in the option "path".
    table = add_table(metastore, tmp_path / "elsewhere", parameters=SPARK)
    table.sd.serdeInfo.parameters = {"recursiveFileLookup": "TRUE", "path": str(tmp_path)}
    with opened(server) as connector:
        (batch,) = connector.list_partitions(ALL)
        (files,) = connector.list_files(batch, ALL)
    assert files.files["path"].to_pylist() == [f"{tmp_path}/below/f"]
    assert files.requests.storage == 2


@pytest.mark.parametrize("parameters", [SPARK, {}])
def test_a_table_that_a_spark_stream_writes_is_refused(metastore, server, tmp_path, parameters):
    (tmp_path / "_spark_metadata").mkdir()
    add_table(metastore, tmp_path, parameters=parameters)
    with pytest.raises(splitlib.UnsupportedTable, match="A Spark stream writes the table"):
        HiveConnector.open("d.t", {"uri": server.uri})


def test_a_storage_that_does_not_answer_is_no_proof_that_no_stream_writes(
    metastore, server, tmp_path, monkeypatch
):
    def unavailable(*_: object, **__: object) -> None:
        raise splitlib.SourceUnavailable("no answer")

    add_table(metastore, tmp_path, parameters=SPARK)
    monkeypatch.setattr(Storage, "level", unavailable)
    with pytest.raises(splitlib.SourceUnavailable, match="no answer"):
        HiveConnector.open("d.t", {"uri": server.uri})


def test_a_partitioned_table_of_hive_over_the_output_of_a_stream(metastore, server, tmp_path):
    (tmp_path / "_spark_metadata").mkdir()
    add_table(metastore, tmp_path, "k")
    with opened(server) as connector:
        assert connector.describe().location == str(tmp_path)


def test_files_below_a_partition_are_none_of_a_reader_of_sparks(
    metastore, server, by_two, tmp_path
):
    (tmp_path / "y=1/m=a/HIVE_UNION_SUBDIR_1").mkdir()
    (tmp_path / "y=1/m=a/HIVE_UNION_SUBDIR_1" / "f").write_bytes(b"12345")
    with opened(server) as connector:
        (batch,) = connector.list_partitions(ALL)
        (files,) = connector.list_files(connector.load_details(batch), ALL)
    assert files.files["path"].to_pylist() == [f"{tmp_path}/{name}/f" for name in by_two]


def test_files_below_a_partition_that_hives_reader_reads(metastore, server, by_two, tmp_path):
    metastore.tables["d", "t"].sd = descriptor(str(tmp_path), TEXT)
    for name in by_two:
        partition = metastore.partitions["d", "t"][name]
        partition.sd = descriptor(f"file://{tmp_path}/{name}/", TEXT)
    with opened(server) as connector:
        (batch,) = connector.list_partitions(ALL)
        details = connector.load_details(batch)
        (files,) = connector.list_files(details, ALL)
        assert (len(files.files), files.requests.storage) == (3, 3)
        (tmp_path / "y=1/m=a/HIVE_UNION_SUBDIR_1").mkdir()
        (tmp_path / "y=1/m=a/HIVE_UNION_SUBDIR_1" / "f").write_bytes(b"12345")
        with pytest.raises(splitlib.UnsupportedTable, match="in a directory below its partition"):
            list(connector.list_files(details, ALL))
        assert len(next(iter(connector.list_files(details.slice(1, 2), ALL))).files) == 2


def test_names_of_databases_and_tables(metastore, server, tmp_path):
    metastore.tables |= {("default", "u"): table_of("/u"), ("d", "s"): table_of("/s")}
    metastore.tables["d", "t"] = table_of("/t")
    for name, asked in (("U", ("default", "u")), ("D.T", ("d", "t"))):
        with opened(server, name):
            assert metastore.calls[-1] == ("get_table", *asked)
    options = {"uri": server.uri}
    assert list(HiveConnector.table_names(None, options)) == [
        ("d", "s"),
        ("d", "t"),
        ("default", "u"),
    ]
    assert list(HiveConnector.table_names("D", options)) == [("d", "s"), ("d", "t")]
    with pytest.raises(splitlib.TableNotFound, match=r"'defalt'.*did you mean 'default'"):
        list(HiveConnector.table_names("defalt", options))


def test_a_table_that_cannot_be_opened_leaves_no_connection(monkeypatch, server):
    closed = []

    class Client(MetastoreClient):
        def close(self):
            closed.append(self)
            super().close()

    monkeypatch.setattr("splitlib_hive.connector.MetastoreClient", Client)
    with pytest.raises(splitlib.TableNotFound, match=r"no table d\.nothing"):
        HiveConnector.open("d.nothing", {"uri": server.uri})
    assert len(closed) == 1


def test_options_are_what_they_are_said_to_be(monkeypatch, server, by_two):
    said = dict(re.findall(r"(\w+) \(.*default (\d+)\):", HiveConnector.__doc__ or ""))
    given: list[dict[str, float]] = []

    class Client(MetastoreClient):
        def __init__(self, addresses, *, security, catalog, **settings):
            given.append(settings)
            super().__init__(addresses, **settings)

    monkeypatch.setattr("splitlib_hive.connector.MetastoreClient", Client)
    with opened(server) as connector:
        found = {**given[0], "partitions_per_request": connector.partitions_per_details}
    assert found == {name: float(number) for name, number in said.items()}
    with opened(server, connect_timeout_seconds="3", timeout_seconds=4):
        assert given[1] == {"connect_timeout_seconds": 3, "timeout_seconds": 4}


@pytest.mark.parametrize("option", ["partitions_per_request", "timeout_seconds"])
@pytest.mark.parametrize("value", ["many", None, 0, -1, 10**400, float("nan"), [1]])
def test_numbers_have_to_be_positive(server, option, value):
    with pytest.raises(splitlib.ConfigError, match=f"{option} must be a positive number"):
        HiveConnector.open("d.t", {"uri": server.uri, option: value})


def test_options_of_the_storage_are_handed_on(server, by_two):
    with opened(server, storage_options={"anon": True}) as connector:
        assert connector.storage_options("s3") == {"anon": True}


def test_a_table_that_was_created_anew(metastore, server, by_two, tmp_path):
    other = {
        "createTime": 2,
        "tableType": "EXTERNAL_TABLE",
        "sd": descriptor("/elsewhere"),
        "partitionKeys": [FieldSchema("y", "int"), FieldSchema("m", "string")],
    }
    with opened(server) as connector:
        connector.check_identity()
        for change in other.items():
            metastore.tables["d", "t"] = table_of(str(tmp_path), "y", "m", **dict([change]))
            with pytest.raises(splitlib.TableNotFound, match="created again"):
                connector.check_identity()


def test_names_of_other_keys_show_that_a_table_was_created_anew(metastore, server, tmp_path):
    add_table(metastore, tmp_path, "k", names=["k=1"])
    with opened(server) as connector:
        add_table(metastore, tmp_path, "j", names=["j=1"])
        with pytest.raises(splitlib.TableNotFound, match="created again"):
            list(connector.list_partitions(ALL))
        add_table(metastore, tmp_path, "j", "k", names=["j=1/k=1"])
        with pytest.raises(splitlib.TableNotFound, match="created again"):
            list(connector.list_partitions(ALL))
        # A metastore returns partition names in their original case.
        add_table(metastore, tmp_path, "k", names=["K=1"])
        asked = len(metastore.calls)
        (batch,) = connector.list_partitions(ALL)
        assert batch.values["k"].to_pylist() == ["1"]
        assert len(metastore.calls) == asked + 1


def test_names_without_all_keys_are_refused(metastore, server, tmp_path):
    add_table(metastore, tmp_path, "y", "m", names=["y=1"])
    with opened(server) as connector:
        with pytest.raises(splitlib.SourceError, match="does not have the keys y, m"):
            list(connector.list_partitions(ALL))
        assert metastore.calls[-1] == ("get_table", "d", "t")


def test_a_call_that_fails_asks_whether_the_table_is_still_there(metastore, server, by_two):
    with opened(server) as connector:
        metastore.broken = MetaException("out of order")
        with pytest.raises(
            splitlib.SourceError, match="The metastore rejects the call: out of order"
        ):
            list(connector.list_partitions(ALL))
        metastore.tables.clear()
        with pytest.raises(splitlib.TableNotFound, match=r"no table d\.t"):
            list(connector.list_partitions(ALL))


def test_a_metastore_that_takes_few_names_at_a_time(metastore, server, by_two):
    metastore.most_names = 1
    with opened(server) as connector:
        (batch,) = connector.list_partitions(ALL)
        metastore.calls.clear()
        assert connector.load_details(batch).values.to_pydict() == batch.values.to_pydict()
        assert [count for _, count in metastore.calls] == [3, 1, 2, 1, 1]
        metastore.most_names = 0
        with pytest.raises(splitlib.SourceError, match="limit"):
            connector.load_details(batch)


def client_of(*uris):
    return MetastoreClient(
        parse_uris(",".join(uris)), connect_timeout_seconds=5, timeout_seconds=30
    )


def test_an_older_metastore_is_asked_by_the_older_call(metastore, server, tmp_path):
    add_table(metastore, tmp_path, "k")
    metastore.is_old = True
    with closing(client_of(server.uri)) as client:
        assert client.get_table("d", "t") == metastore.tables["d", "t"]
    assert metastore.calls == [("get_table", "d", "t")]


def wait_until_left(server, connections):
    until = time.monotonic() + 30
    while server.left < connections and time.monotonic() < until:
        time.sleep(0.01)
    assert (server.connections, server.left) == (connections, connections)


def test_closing_ends_the_connection_and_another_call_opens_one(metastore, server):
    client = client_of(server.uri)
    for connections in (1, 2):
        assert client.get_databases() == []
        client.close()
        wait_until_left(server, connections)


def test_a_connection_that_is_closed_is_closed_at_once(server):
    (address,) = parse_uris(server.uri)
    # Without a reference, garbage collection could close the connection.
    connection = Connection(address, Security(), timeout_seconds=5)
    connection.close()
    wait_until_left(server, 1)
