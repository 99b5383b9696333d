"""Filters as bytes with a valid checksum and invalid contents are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from splitlib import DynamicFilteringData, InvalidFilter
from splitlib.arrow import ipc as wire
from splitlib.arrow.values import is_known
from splitlib.filtering.domains import RangeDomain, Ranges
from splitlib.filtering.filter_bytes import Part, Parts, encode
from splitlib.filtering.predicate import Predicate

FORMAT = b"SLF1"  # a filter ends with these bytes

INTS = pa.schema([("d", pa.int64())])
ONE = pa.table({"d": [1]})


@pytest.mark.parametrize(
    "parts",
    [
        Parts(INTS, [Part("valuez", ONE)], exceeded=False),
        Parts(INTS, [Part("range", ONE)], exceeded=False),
        Parts(INTS, [Part("range", pa.table({"d": [1, 2, 3]}))], exceeded=False),
        Parts(INTS, [Part("values", pa.table({"x": [1]}))], exceeded=False),
        Parts(INTS, [Part("values", pa.table({"d": ["1"]}))], exceeded=False),
        Parts(pa.schema([]), [], exceeded=True),
        Parts(
            pa.schema([("d", pa.float64())]),
            [Part("range", pa.table({"d": [1.0, float("nan")]}))],
            exceeded=False,
        ),
        Parts(
            pa.schema([("d", pa.dictionary(pa.int8(), pa.string()))]),
            [Part("values", pa.table({"d": pa.array(["a"]).dictionary_encode()}))],
            exceeded=False,
        ),
    ],
)
def test_what_no_filter_says_is_refused(parts):
    with pytest.raises(InvalidFilter, match="not a filter"):
        DynamicFilteringData.from_bytes(encode(parts))


@pytest.mark.parametrize(
    "kinds", ["values:1", "values:3", "values:2,values:0", "values:3,values:-1"]
)
def test_another_number_of_columns_than_declared_is_refused(kinds):
    data = DynamicFilteringData.from_values({"a": [1], "b": [2]})
    batch = wire.read_batch(wire.unseal(data.to_bytes(), FORMAT))
    assert batch.schema.metadata[b"splitlib.domains"] == b"values:2"
    declared = {**batch.schema.metadata, b"splitlib.domains": kinds.encode()}
    body = wire.write_batch(batch.replace_schema_metadata(declared))
    with pytest.raises(InvalidFilter, match="not a filter"):
        DynamicFilteringData.from_bytes(wire.seal(body, FORMAT))


@pytest.mark.parametrize(
    ("values", "stored"),
    [([b"a"], pa.string()), ([None], pa.string()), ([], pa.string()), ([b"\xff"], pa.binary())],
    ids=str,
)
def test_only_invalid_texts_are_stored_as_bytes(values, stored):
    texts = pa.array(values, pa.binary()).view(pa.string())
    data = DynamicFilteringData.from_arrow(pa.table({"s": texts}))
    batch = wire.read_batch(wire.unseal(data.to_bytes(), FORMAT))
    assert batch.schema.field("s").type == pa.large_list(stored)
    assert DynamicFilteringData.from_bytes(data.to_bytes()) == data


def test_rows_without_bytes_are_bounded():
    """Filters with too many null rows are refused.

    Values of the null type take no bytes, so a short input could declare any number of rows.
    """
    body = wire.unseal(DynamicFilteringData.from_values({"n": [None]}).to_bytes(), FORMAT)
    batch = wire.read_batch(body)
    lists = pa.LargeListArray.from_arrays([0, 2**20], pa.nulls(2**20))
    lying = pa.RecordBatch.from_arrays([lists], schema=batch.schema)
    with pytest.raises(InvalidFilter, match="rows claimed in"):
        DynamicFilteringData.from_bytes(wire.seal(wire.write_batch(lying), FORMAT))


@pytest.mark.parametrize(
    ("brackets", "kind"), [("[]", "range"), ("[)", "ranges[)"), ("(]", "ranges(]")]
)
def test_kinds_of_ranges(brackets, kind):
    """Older versions of splitlib only read a range with both ends included."""
    ranges = Ranges(pa.array([1]), pa.array([2]), brackets)
    data = DynamicFilteringData(
        INTS, [RangeDomain(INTS.field("d"), ranges)], exceeds_threshold=False
    )
    ends = pa.table({"d": [1, 2]}, schema=INTS)
    assert data.to_bytes() == encode(Parts(INTS, [Part(kind, ends)], exceeded=False))


def test_a_filter_may_have_ranges_of_several_fields():
    data = DynamicFilteringData.from_range({"d": (1, 2), "s": ("a", None)})
    assert DynamicFilteringData.from_bytes(data.to_bytes()) == data


@pytest.mark.parametrize("data", ["text", None, b"SLF1", [1]])
def test_other_things_are_refused(data):
    with pytest.raises(InvalidFilter, match="not a filter"):
        DynamicFilteringData.from_bytes(data)


def test_a_time_zone_that_is_not_known_is_refused():
    """Unknown time zones are refused. Otherwise Arrow fails later, when it compares keys."""
    times = pa.table({"d": pa.array([1], pa.timestamp("us", "No/Where"))})
    parts = Parts(times.schema, [Part("values", times)], exceeded=False)
    makes = [
        lambda: DynamicFilteringData.from_bytes(encode(parts)),
        lambda: DynamicFilteringData.from_arrow(times),
        lambda: DynamicFilteringData.exceeded(times.schema),
        lambda: DynamicFilteringData.exceeded(
            pa.schema([("d", pa.struct([("t", times.schema.field("d").type)]))])
        ),
    ]
    for make in makes:
        with pytest.raises(InvalidFilter, match="'No/Where'"):
            make()


@pytest.mark.parametrize("zone", ["UTC", "Z", "PST", "GMT+8", "+01:00", "Europe/Berlin"])
def test_time_zones_of_sessions_are_known(zone):
    """Time zones in Java's notation are accepted, although Arrow does not support some of them."""
    if zone.endswith(("+8", "+01:00")) and not is_known(zone):
        pytest.skip("this pyarrow has no offsets as zones")
    times = pa.table({"d": pa.array([0], pa.timestamp("us", zone))})
    data = DynamicFilteringData.from_arrow(times)
    assert DynamicFilteringData.from_bytes(data.to_bytes()) == data
    for kind in (pa.date32(), pa.timestamp("us"), pa.string(), pa.timestamp("us", "UTC")):
        Predicate(pa.schema([("d", kind)]), [data])
