"""Fuzz target: filters as bytes. Their checksum is valid, since an attacker can compute it too."""

from __future__ import annotations

import pyarrow as pa

from splitlib import DynamicFilteringData, InvalidFilter
from splitlib.arrow import ipc
from splitlib.filtering.domains import RangeDomain, Ranges
from splitlib.filtering.predicate import Predicate

FORMAT = b"SLF1"  # a filter ends with these bytes
TOKENS = (b"values:1", b"range:1", b"ranges[):1", b",", b"splitlib.domains", b"splitlib.schema")

RANGES = Ranges(pa.array([1, 7]), pa.array([3, 9]), "[)")


def samples() -> list[DynamicFilteringData]:
    return [
        DynamicFilteringData.from_values({"d": [1, 2, 3, None], "s": ["a", "bb", None, "dddd"]}),
        DynamicFilteringData.from_values({"s": [f"key {i}" for i in range(100)]}),
        DynamicFilteringData.from_range({"d": (1, 2), "s": ("a", None)}),
        DynamicFilteringData.from_values({"n": [None]}),
        DynamicFilteringData(
            pa.schema([("d", pa.int64())]),
            [RangeDomain(pa.field("d", pa.int64()), RANGES)],
            exceeds_threshold=False,
        ),
        DynamicFilteringData.exceeded(pa.schema([("d", pa.decimal128(10, 2))])),
        DynamicFilteringData.from_arrow(
            pa.table({"s": pa.array([{"a": 1, "b": "x"}]), "l": pa.array([[1, None]])})
        ),
    ]


def seeds() -> list[bytes]:
    return [ipc.unseal(data.to_bytes(), FORMAT) for data in samples()]


def run(data: bytes) -> bool:
    try:
        found = DynamicFilteringData.from_bytes(ipc.seal(data, FORMAT))
    except InvalidFilter:
        return False
    repr(found)
    assert DynamicFilteringData.from_bytes(found.to_bytes()) == found
    found.without_nulls().in_time_zone("UTC")
    Predicate(found.schema, [found])
    return True
