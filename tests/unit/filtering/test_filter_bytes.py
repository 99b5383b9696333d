"""Malformed filters with a valid checksum: an error of splitlib's, never a crash."""

from __future__ import annotations

import random
import sys
from collections import Counter

import pyarrow as pa
import pytest

from splitlib import DynamicFilteringData, InvalidFilter
from splitlib.arrow import ipc as wire
from splitlib.filtering.filter_bytes import Part, Parts, encode
from splitlib.filtering.predicate import Predicate
from tests.support.mutations import limit_memory, mutated, run_apart

FORMAT = b"SLF1"  # how the bytes of a filter end
MUTATIONS = 4000


def samples():
    return [
        DynamicFilteringData.from_values({"d": [1, 2, 3, None], "s": ["a", "bb", None, "dddd"]}),
        DynamicFilteringData.from_values({"s": [f"key {i}" for i in range(100)]}),
        DynamicFilteringData.from_range({"d": (1, 2), "s": ("a", None)}),
        DynamicFilteringData.from_values({"n": [None]}),
        DynamicFilteringData.exceeded(pa.schema([("d", pa.decimal128(10, 2))])),
        DynamicFilteringData.from_arrow(
            pa.table({"s": pa.array([{"a": 1, "b": "x"}]), "l": pa.array([[1, None]])})
        ),
    ]


def use(data: DynamicFilteringData) -> None:
    """Do what is done with a filter that was received."""
    repr(data)
    assert DynamicFilteringData.from_bytes(data.to_bytes()) == data
    data.without_nulls().in_time_zone("UTC")
    Predicate(data.schema, [data])


def attack(seed: int, count: int) -> Counter[str]:
    """Decode many mutations; any error but :class:`InvalidFilter` is raised."""
    source = random.Random(seed)
    bodies = [wire.unseal(data.to_bytes(), FORMAT) for data in samples()]
    found: Counter[str] = Counter()
    for _ in range(count):
        data = wire.seal(mutated(source.choice(bodies), source), FORMAT)
        try:
            use(DynamicFilteringData.from_bytes(data))
            found["used"] += 1
        except InvalidFilter:
            found["refused"] += 1
    return found


def test_no_mutation_crashes():
    ran = run_apart(__name__, "17", str(MUTATIONS))
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "'used'" in ran.stdout
    assert "'refused'" in ran.stdout


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


if __name__ == "__main__":
    limit_memory()
    print(dict(attack(int(sys.argv[1]), int(sys.argv[2]))))
