"""Filters with a valid checksum that say what no filter says."""

from __future__ import annotations

import pyarrow as pa
import pytest

from splitlib import DynamicFilteringData, InvalidFilter
from splitlib.arrow import ipc as wire
from splitlib.filtering.filter_bytes import Part, Parts, encode

FORMAT = b"SLF1"  # how the bytes of a filter end

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
    with pytest.raises(InvalidFilter, match="no filter"):
        DynamicFilteringData.from_bytes(encode(parts))


def test_rows_without_bytes_are_bounded():
    """A type without values can claim any number of rows, and cost as much memory when used."""
    body = wire.unseal(DynamicFilteringData.from_values({"n": [None]}).to_bytes(), FORMAT)
    batch = wire.read_batch(body)
    lists = pa.LargeListArray.from_arrays([0, 2**20], pa.nulls(2**20))
    lying = pa.RecordBatch.from_arrays([lists], schema=batch.schema)
    with pytest.raises(InvalidFilter, match="rows in"):
        DynamicFilteringData.from_bytes(wire.seal(wire.write_batch(lying), FORMAT))


@pytest.mark.parametrize("data", ["text", None, b"SLF1", [1]])
def test_other_things_are_refused(data):
    with pytest.raises(InvalidFilter, match="no filter"):
        DynamicFilteringData.from_bytes(data)
