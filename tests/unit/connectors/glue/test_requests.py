"""The requests that reading a table sends to Glue."""

from __future__ import annotations

import threading
from datetime import date

import pyarrow as pa
import pytest

import splitlib
from splitlib import DynamicFilteringData
from splitlib.filtering.predicate import AnyOf, Predicate
from splitlib_glue import GlueConnector
from splitlib_glue.partitions import expression
from tests.support.glue_server import stored
from tests.unit.connectors.glue.conftest import add_partition, add_table


def opened(server, **options):
    return splitlib.load_table("db.t", "glue", **server.options, **options)


def listed(table, *filters, static=()):
    """Return partition values, and the number of requests that the batches report."""
    predicate = Predicate(table.metadata.filter_schema, filters, static)
    batches = list(table.connector.list_partitions(predicate))
    rows = [tuple(row.values()) for batch in batches for row in batch.values.to_pylist()]
    return rows, sum(batch.requests.catalog for batch in batches)


def test_thirty_of_a_hundred_thousand_partitions_take_one_request(server):
    add_table(server, {"day": "string", "shop": "string"})
    add_partition(server, "d", "s")
    known = server.partitions("db", "t")
    (one,) = known.values()
    known.update({(f"d{i}", f"s{i % 7}"): one for i in range(100_000)})
    wanted = [(f"d{i}", f"s{i % 7}") for i in range(0, 90_000, 3_000)]
    for values in wanted:
        known[values] = {**one, "Values": list(values)}
    days, shops = zip(*wanted, strict=True)
    keys = DynamicFilteringData.from_values({"day": list(days), "shop": list(shops)})
    with opened(server) as table:
        rows, requests = listed(table, keys)
    assert sorted(rows) == sorted(wanted)
    assert server.names() == ["GetTable", "BatchGetPartition"]
    assert requests == 1


def test_more_values_than_one_request_may_have(server):
    add_table(server, {"k": "string"})
    for i in range(0, 60, 2):
        add_partition(server, f"v{i}")
    keys = DynamicFilteringData.from_values({"k": [f"v{i}" for i in range(50)]})
    with opened(server, partitions_per_request=20) as table:
        rows, requests = listed(table, keys)
        assert len(rows) == 25
        assert requests == 3
        lengths = [
            len(given["PartitionsToGet"])
            for name, given in server.requests
            if name == "BatchGetPartition"
        ]
        assert sorted(lengths) == [10, 20, 20]


@pytest.mark.parametrize(
    ("values", "operation"), [(20, "BatchGetPartition"), (21, "GetPartitions")]
)
def test_partitions_are_listed_rather_than_named_in_more_than_ten_requests(
    server, values, operation
):
    add_table(server, {"k": "string"})
    add_partition(server, "v0")
    keys = DynamicFilteringData.from_values({"k": [f"v{i}" for i in range(values)]})
    with opened(server, partitions_per_request=2) as table:
        assert listed(table, keys)[0] == [("v0",)]
    assert set(server.names()) == {"GetTable", operation}


def test_unprocessed_keys_are_requested_again(server):
    add_table(server, {"k": "string"})
    for i in range(9):
        add_partition(server, f"v{i}")
    keys = DynamicFilteringData.from_values({"k": [f"v{i}" for i in range(9)]})
    with opened(server) as table:
        server.unprocessed = [4, 1]
        rows, requests = listed(table, keys)
        assert len(rows) == 9
        assert requests == 3
        lengths = [len(given["PartitionsToGet"]) for _, given in server.requests[1:]]
        assert lengths == [9, 4, 1]
        server.unprocessed = [9]
        with pytest.raises(splitlib.SourceUnavailable, match="processes none") as caught:
            listed(table, keys)
        assert caught.value.is_throttled


def test_canonical_values_are_requested_by_value(server):
    add_table(server, {"day": "date", "n": "int"})
    for i in range(1, 9):
        add_partition(server, f"2024-01-0{i}", f"{i}")
    days = [date(2024, 1, i) for i in (3, 5)]
    keys = DynamicFilteringData.from_values({"day": days, "n": [3, 5]})
    with opened(server, canonical_values="true") as table:
        assert listed(table, keys) == ([("2024-01-03", "3"), ("2024-01-05", "5")], 1)
    add_table(server, {"n": "int"}, Parameters={"splitlib.canonical_values": "true"})
    add_partition(server, "7")
    with opened(server) as table:
        assert listed(table, DynamicFilteringData.from_values({"n": [7]})) == ([("7",)], 1)
    assert server.names().count("BatchGetPartition") == 2


def test_nothing_is_requested_for_values_that_no_partition_has(server):
    add_table(server, {"k": "string"})
    keys = [DynamicFilteringData.from_values({"k": [text]}) for text in ("a", "b")]
    with opened(server) as table:
        assert listed(table, *keys) == ([], 0)
    assert server.names() == ["GetTable"]


def test_abandoned_listing_ends(server):
    """After a cancellation, the threads of a listing end before Glue answers."""
    add_table(server, {"k": "int"})
    for i in range(30):
        add_partition(server, f"{i}")
    server.page = 20
    over, begun = threading.Event(), threading.Event()

    def hang(handler, right):
        begun.set()
        over.wait(60)
        handler.reply(200, right)

    with opened(server) as table:
        server.faults = [None, *[hang] * 10]
        enumerator = splitlib.DynamicFileEnumerator(table)
        failures = []

        def enumerate_all():
            try:
                list(enumerator.enumerate_splits())
            except splitlib.SplitlibError as error:
                failures.append(str(error))

        reader = threading.Thread(target=enumerate_all)
        reader.start()
        assert begun.wait(60)
        enumerator.cancel()
        reader.join(60)
        assert "was cancelled" in failures[0]
        over.set()
    assert len(server.names()) <= 12


def test_small_table_takes_one_request(server):
    add_table(server, {"k": "int"})
    for i in range(40):
        add_partition(server, f"{i}")
    keys = DynamicFilteringData.from_values({"k": [3]})
    with opened(server) as table:
        rows, requests = listed(table, keys)  # 3 may be written as 03: not requested by value
    assert len(rows) == 40
    assert requests == 1
    (_, (_, given)) = server.requests
    assert given["ExcludeColumnSchema"] is True
    assert not {"Segment", "Expression"} & given.keys()


def test_large_table_is_listed_in_segments(server):
    add_table(server, {"k": "int"})
    for i in range(300):
        add_partition(server, f"{i}")
    server.page = 20
    with opened(server) as table:
        rows, requests = listed(table)
        assert listed(table)[0] == rows
    assert sorted(int(k) for (k,) in rows) == list(range(300))
    given = [given for name, given in server.requests if name == "GetPartitions"]
    assert requests == len(given) / 2
    segments = [one["Segment"]["SegmentNumber"] for one in given if "Segment" in one]
    assert set(segments) == set(range(10))
    assert 2 * (1 + 15) <= len(given) <= 2 * (1 + 15 + 10)


def test_server_without_segments_is_listed_page_by_page(server):
    add_table(server, {"k": "int"})
    for i in range(30):
        add_partition(server, f"{i}")
    server.page = 20
    server.segments_are_ignored = True
    with opened(server) as table:
        rows, requests = listed(table)
        assert len(rows) == 30
        assert requests == 1 + 20 + 1


@pytest.mark.parametrize("segments", [True, False])
def test_page_of_another_segment_is_noticed(server, monkeypatch, segments):
    add_table(server, {"k": "int"})
    for i in range(60):
        add_partition(server, f"{i}")
    server.page = 20
    right = server.answer

    def confused(name, given):
        of_segment = given.get("Segment", {})
        if of_segment.get("SegmentNumber") == 3:
            given = {**given, "Segment": {**of_segment, "SegmentNumber": 4}}
        if not segments and not of_segment and given.get("NextToken") == "40":
            found = right(name, {**given, "NextToken": "0"})
            return {"Partitions": found["Partitions"]}
        return right(name, given)

    monkeypatch.setattr(server, "answer", confused)
    with opened(server) as table:
        if segments:
            assert len(listed(table)[0]) == 60
        else:
            with pytest.raises(splitlib.SourceUnavailable, match="twice"):
                listed(table)


def test_answer_to_other_values_is_noticed(server, monkeypatch):
    add_table(server, {"k": "string"})
    for text in "ab":
        add_partition(server, text)
    right = server.answer
    keys = DynamicFilteringData.from_values({"k": ["a"]})
    with opened(server) as table:
        other = {"PartitionsToGet": [{"Values": ["b"]}]}
        monkeypatch.setattr(server, "answer", lambda name, given: right(name, given | other))
        with pytest.raises(splitlib.SourceUnavailable, match="that were not requested"):
            listed(table, keys)
        server.partitions("db", "t")[("b",)]["TableName"] = "u"
        with pytest.raises(splitlib.SourceUnavailable, match="of the table 'u'"):
            listed(table, keys)


def test_same_token_again_is_an_error(server, monkeypatch):
    add_table(server, {"k": "int"})
    for i in range(30):
        add_partition(server, f"{i}")
    right = server.answer
    monkeypatch.setattr(
        server,
        "answer",
        lambda name, given: (
            {**right(name, given), "NextToken": "again"}
            if name == "GetPartitions" and "NextToken" not in given
            else right(name, {**given, "NextToken": "0"}) | {"NextToken": "again"}
            if name == "GetPartitions"
            else right(name, given)
        ),
    )
    with opened(server) as table, pytest.raises(splitlib.SourceError, match="again and again"):
        listed(table)


def test_known_text_of_some_keys_leaves_out_partitions_in_glue(server):
    add_table(server, {"day": "int", "shop": "string"})
    for i in range(30):
        add_partition(server, f"{i}", f"s{i % 3}")
    keys = DynamicFilteringData.from_values({"shop": ["s1", "s2"]})
    with opened(server) as table:
        rows, _ = listed(table, keys)
        assert {shop for _, shop in rows} == {"s1", "s2"}
        assert server.requests[-1][1]["Expression"] == "shop IN ('s1', 's2')"
        server.is_expression_refused = True
        rows, requests = listed(table, keys)
        assert len(rows) == 30
        assert requests == 2


def test_empty_pages_do_not_end_a_listing(server):
    add_table(server, {"day": "int", "shop": "string"})
    for i in range(200):
        add_partition(server, f"{i}", "s1" if i in (0, 199) else "s2")
    server.page = 5
    keys = DynamicFilteringData.from_values({"shop": ["s1"]})
    with opened(server) as table:
        assert sorted(listed(table, keys)[0]) == [("0", "s1"), ("199", "s1")]


SCHEMA = pa.schema(
    [
        ("s", pa.string()),
        ("i", pa.int32()),
        pa.field("c", pa.string(), metadata={b"splitlib.logical_type": b"char(3)"}),
        ("current_date", pa.string()),
        ("a b", pa.string()),
    ]
)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"s": ["a"]}, "s IN ('a')"),
        ({"s": ["b", "a"]}, "s IN ('a', 'b')"),
        ({"s": ["a'b"]}, None),
        ({"s": [""]}, None),
        ({"s": ["a", None]}, None),
        ({"s": ["é"]}, None),
        ({"i": [1]}, None),
        ({"c": ["a"]}, None),
        ({"current_date": ["a"]}, None),
        ({"a b": ["a"]}, None),
        ({"s": [f"{i:09}" for i in range(200)]}, None),
    ],
    ids=str,
)
def test_condition_names_plain_text_only(values, expected):
    columns = {name: pa.array(v, SCHEMA.field(name).type) for name, v in values.items()}
    keys = DynamicFilteringData.from_arrow(pa.table(columns), fields=list(values))
    assert expression(Predicate(SCHEMA, [keys]), SCHEMA) == expected


@pytest.mark.parametrize(
    ("names", "is_used"),
    [
        ("current_user localtime sysdate session_user true false null user rownum unknown", False),
        ("date time timestamp interval default value any all some not exists case CAST", False),
        ("recurrent nonlocal a_sysdate users times dates intervals any_ cases casts", True),
        ("a A9 a_b_9", True),
        ("_a 9a a-b a.b é aé", False),  # not plain identifiers
    ],
)
def test_keys_with_names_that_mean_something_to_glue_are_in_no_condition(names, is_used):
    for name in names.split():
        schema = pa.schema([(name, pa.string())])
        keys = DynamicFilteringData.from_values({name: ["x"]})
        expected = f"{name.lower()} IN ('x')" if is_used else None
        assert expression(Predicate(schema, [keys]), schema) == expected, name


def test_a_long_condition_leaves_out_its_longest_parts():
    """Glue accepts 2,048 characters."""
    schema = pa.schema([(name, pa.string()) for name in "abc"])

    def condition(**lengths):
        keys = [DynamicFilteringData.from_values({k: ["x" * n]}) for k, n in lengths.items()]
        return expression(Predicate(schema, keys), schema)

    most = 2048 - len("a IN ('')")
    assert condition(a=most) == f"a IN ('{'x' * most}')"
    assert condition(a=most + 1) is None
    assert condition(a=1, b=most, c=2) == "a IN ('x') AND c IN ('xx')"


def test_condition_covers_all_alternatives():
    def one(**values):
        return Predicate(SCHEMA, [DynamicFilteringData.from_values(values)])

    both = AnyOf([one(s=["a"]), one(s=["b"])])
    assert expression(Predicate(SCHEMA, [], [both]), SCHEMA) == "s IN ('a', 'b')"
    other = AnyOf([one(s=["a"]), one(i=[1])])
    assert expression(Predicate(SCHEMA, [], [other]), SCHEMA) is None


def test_format_of_a_partition_of_a_text_table_may_differ(server):
    text = stored("file:///nowhere/t", [{"Name": "v", "Type": "bigint"}])
    text["SerdeInfo"] = {
        "SerializationLibrary": "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
    }
    text["InputFormat"] = "org.apache.hadoop.mapred.TextInputFormat"
    add_table(server, {"k": "int"}, StorageDescriptor=text)
    add_partition(server, "1")
    add_partition(server, "2", location="file:///t/2~/")
    changed = server.partitions("db", "t")[("2",)]["StorageDescriptor"]
    changed["SerdeInfo"] = {"SerializationLibrary": "org.apache.hadoop.hive.ql.io.orc.OrcSerde"}
    with opened(server) as table:
        predicate = Predicate(table.metadata.filter_schema)
        (batch,) = table.connector.list_partitions(predicate)
        assert batch.refs.field("read_format").to_pylist() == [0, 1]
        assert batch.refs.field("location").to_pylist() == ["file:///nowhere/t/1", "file:///t/2~"]
        changed["SerdeInfo"] = {
            "SerializationLibrary": "org.apache.hadoop.hive.serde2.avro.AvroSerDe"
        }
        with pytest.raises(splitlib.UnsupportedTable, match="AvroSerDe"):
            listed(table)
        changed["Location"] = None
        del changed["Location"]
        with pytest.raises(splitlib.CorruptMetadata, match="no location") as caught:
            listed(table)
        assert caught.value.partition == "k=2"


def test_another_number_of_values_is_an_error(server):
    add_table(server, {"k": "int"})
    add_partition(server, "1", "2")
    with opened(server) as table, pytest.raises(splitlib.CorruptMetadata, match="has the values"):
        listed(table)


def test_names_of_tables(server):
    for database, name in [("b", "t1"), ("a", "t5"), ("a", "t3"), ("a", "t4")]:
        server.add_table(database, name)
    names = GlueConnector.table_names
    assert list(names(None, server.options)) == [("a", "t3"), ("a", "t4"), ("a", "t5"), ("b", "t1")]
    assert list(names("b", server.options)) == [("b", "t1")]
    with pytest.raises(splitlib.TableNotFound):
        list(names("c", server.options))
