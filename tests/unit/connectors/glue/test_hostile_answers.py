"""Responses of Glue that are well-formed JSON, but wrong."""

from __future__ import annotations

import itertools

import pytest

import splitlib
from splitlib import DynamicFilteringData, SplitConfig
from splitlib.filtering.predicate import Predicate
from splitlib_glue import GlueConnector, client
from tests.support.glue_server import refusal, stored
from tests.unit.connectors.glue.conftest import add_partition, add_table

ONCE = SplitConfig(retry_attempts=1)


def opened(server, **options):
    return splitlib.load_table("db.t", "glue", config=ONCE, **server.options, **options)


def listed(table, **values):
    keys = [DynamicFilteringData.from_values(values)] if values else []
    predicate = Predicate(table.metadata.filter_schema, keys)
    batches = list(table.connector.list_partitions(predicate))
    return [tuple(row.values()) for batch in batches for row in batch.values.to_pylist()]


@pytest.fixture
def change(server, monkeypatch):
    """Return a function that changes the answers to one operation."""

    def changed(operation, changes):
        right = server.answer

        def answer(name, given):
            found = right(name, given)
            return {**found, **changes(given, found)} if name == operation else found

        monkeypatch.setattr(server, "answer", answer)

    return changed


@pytest.mark.parametrize("database", ["db", None])
def test_names_of_tables_that_repeat_or_do_not_end(server, change, monkeypatch, database):
    add_table(server, {})
    numbers = itertools.count()
    change("GetTables", lambda *_: {"NextToken": "0"})
    with pytest.raises(splitlib.SourceError, match="again and again"):
        list(GlueConnector.table_names(database, server.options))
    change("GetTables", lambda *_: {"NextToken": str(next(numbers))})
    with pytest.raises(splitlib.SourceError, match="same page of TableList again"):
        list(GlueConnector.table_names(database, server.options))
    monkeypatch.setattr(client, "MOST_PAGES", 9)
    change("GetTables", lambda *_: {"TableList": []})
    with pytest.raises(splitlib.SourceError, match="more than 9 pages of TableList"):
        list(GlueConnector.table_names(database, server.options))


@pytest.mark.parametrize("tables", [[{"Name": None}, {"Name": "a"}], [{"Name": 1}], ["a"], None])
def test_names_of_tables_that_are_no_text(server, change, tables):
    add_table(server, {})
    change("GetTables", lambda *_: {"TableList": tables})
    with pytest.raises(splitlib.CorruptMetadata):
        list(GlueConnector.table_names("db", server.options))


@pytest.mark.parametrize("entries", [0, 1])
def test_listing_whose_tokens_do_not_end(server, change, monkeypatch, entries):
    add_table(server, {"k": "int"})
    add_partition(server, "1")
    monkeypatch.setattr(client, "MOST_PAGES", 9)
    numbers = itertools.count()
    change(
        "GetPartitions",
        lambda given, _: {
            "NextToken": f"{next(numbers)}",
            "Partitions": [*server.partitions("db", "t").values()][:entries],
        },
    )
    message = "again and again" if entries else "more than 9 pages"
    with opened(server) as table, pytest.raises(splitlib.SourceError, match=message):
        listed(table)


def test_segment_that_loses_a_partition_of_the_first_page(server, change):
    add_table(server, {"k": "int"})
    for i in range(60):
        add_partition(server, f"{i}")
    server.page = 20
    change(
        "GetPartitions",
        lambda given, found: (
            {"Partitions": [each for each in found["Partitions"] if each["Values"] != ["5"]]}
            if "Segment" in given
            else {}
        ),
    )
    with opened(server) as table:
        assert sorted(int(k) for (k,) in listed(table)) == list(range(60))


@pytest.mark.parametrize("values", [{}, {"k": ["a"]}], ids=str)
def test_partition_with_two_locations(server, change, values):
    add_table(server, {"k": "string"})
    add_partition(server, "a")
    (one,) = server.partitions("db", "t").values()
    other = {**one, "StorageDescriptor": stored("file:///elsewhere")}
    operation = "BatchGetPartition" if values else "GetPartitions"
    with opened(server) as table:
        change(operation, lambda *_: {"Partitions": [one, one]})
        assert listed(table, **values) == [("a",)]
        change(operation, lambda *_: {"Partitions": [one, other]})
        with pytest.raises(splitlib.SourceUnavailable, match="different locations"):
            listed(table, **values)


def test_keys_that_stay_unprocessed(server, change):
    add_table(server, {"k": "string"})
    add_partition(server, "a")
    with opened(server) as table:
        for left in ([{"Values": ["a"]}], [{"Values": ["a"]}, {"Values": ["b"]}]):
            change("BatchGetPartition", lambda *_, left=left: {"UnprocessedKeys": left})
            with pytest.raises(splitlib.SourceUnavailable, match="processes none"):
                listed(table, k=["a", "b"] if len(left) > 1 else ["a"])
        for wrong in ([{"Values": ["z"]}], [{"Values": None}], [5], 5):
            change("BatchGetPartition", lambda *_, wrong=wrong: {"UnprocessedKeys": wrong})
            with pytest.raises(splitlib.CorruptMetadata):
                listed(table, k=["a", "b"])


@pytest.mark.parametrize(
    "partition",
    [
        {"Values": None},
        {"Values": "a"},
        {"Values": ["a", "b"]},
        {"Values": [1]},
        {"Values": ["\ud800"]},
        {"StorageDescriptor": None},
        {"StorageDescriptor": "x"},
        {"StorageDescriptor": {**stored("x"), "Location": 5}},
        {"StorageDescriptor": stored("")},
        {"Parameters": "x"},
        {"Parameters": {"numFiles": 5}},
    ],
    ids=repr,
)
def test_malformed_partitions(server, change, partition):
    add_table(server, {"k": "string"})
    add_partition(server, "a")
    (one,) = server.partitions("db", "t").values()
    change("GetPartitions", lambda *_: {"Partitions": [{**one, **partition}]})
    with opened(server) as table, pytest.raises(splitlib.CorruptMetadata):
        listed(table)


@pytest.mark.parametrize(
    "table",
    [
        {"Parameters": "x"},
        {"Parameters": {"projection.enabled": None}},
        {"Parameters": {"projection.enabled": "true", "projection.k.type": None}},
        {"PartitionKeys": "x"},
        {"PartitionKeys": [{"Name": "k"}]},
        {"PartitionKeys": [{"Name": None, "Type": "int"}]},
        {"StorageDescriptor": "x"},
        {"TableType": 5},
        {"TargetTable": "x"},
        {"TargetTable": {"DatabaseName": "x"}},
        {"FederatedTable": "x"},
        {"Name": None},
    ],
    ids=repr,
)
def test_malformed_tables(server, table):
    add_table(server, {"k": "int"})
    server.tables[server.catalog, "db", "t"].update(table)
    with pytest.raises(splitlib.CorruptMetadata, match="The catalog's data about the table is"):
        opened(server)


def test_answer_with_another_table(server):
    add_table(server, {"k": "int"})
    server.tables[server.catalog, "db", "t"]["Name"] = "other"
    with pytest.raises(splitlib.SourceUnavailable, match="'other' instead of 't'"):
        opened(server)


def test_text_that_utf8_cannot_express_in_a_projection(server):
    values = {"projection.k.type": "enum", "projection.k.values": "\ud800"}
    add_table(server, {"k": "string"}, Parameters={"projection.enabled": "true", **values})
    with opened(server) as table, pytest.raises(splitlib.CorruptMetadata, match="projection"):
        listed(table)


@pytest.mark.parametrize("name", ["ünï.t", "d b.t%2f", "db.t\0", "a.b.t", "db.\ud800", "x.`t`"])
def test_names_are_sent_as_they_are(server, name):
    with pytest.raises(splitlib.TableNotFound):
        splitlib.load_table(name, "glue", config=ONCE, **server.options)
    database, _, table = name.rpartition(".")
    assert (server.requests[-1][1]["DatabaseName"], server.requests[-1][1]["Name"]) == (
        database,
        table,
    )


def test_token_that_expires_between_pages(server):
    """A rejected token of a page is never the end of a listing."""
    add_table(server, {"k": "int"})
    for i in range(30):
        add_partition(server, f"{i}")
    server.page = 20
    for code, kind in [
        ("ExpiredTokenException", splitlib.AccessDenied),
        ("InvalidInputException", splitlib.SourceError),
    ]:
        with opened(server) as table:
            server.faults = [None, *[refusal(code)] * 10]
            with pytest.raises(kind, match=code):
                listed(table)
            server.faults = []


@pytest.mark.parametrize("status", [301, 307, 400, 404, 418])
@pytest.mark.parametrize("body", [b"", b"<html>", b"null", b'{"__type": 5}', b'{"Message": {}}'])
def test_errors_without_a_code(server, status, body):
    add_table(server, {})
    server.faults = [lambda handler, right: handler.reply(status, body)]
    with pytest.raises(splitlib.SourceError, match=f"{status}") as caught:
        opened(server)
    assert type(caught.value) is splitlib.SourceError
    assert caught.value.connector == "glue"
