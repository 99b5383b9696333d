"""Partition keys of each type, with values that connectors often handle wrongly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from splitlib.model import LOGICAL_TYPE


@dataclass(frozen=True, slots=True)
class KeyCase:
    """Partition keys and partitions for a test table.

    Attributes:
        name: Name of the case.
        schema: Schema of the keys.
        partitions: Values of each partition, by key.
        absent: Values that no partition has, by key. Filters in tests also contain these.
    """

    name: str
    schema: pa.Schema
    partitions: Sequence[Mapping[str, Any]]
    absent: Mapping[str, Sequence[Any]]


def _one_key(
    name: str,
    kind: pa.DataType,
    values: Sequence[Any],
    absent: Sequence[Any],
    logical: bytes | None = None,
) -> KeyCase:
    partitions = [{"k": value} for value in (*values, None)]
    metadata = None if logical is None else {LOGICAL_TYPE: logical}
    schema = pa.schema([pa.field("k", kind, metadata=metadata)])
    return KeyCase(name, schema, partitions, {"k": absent})


_TEXTS = (
    *("plain", "Upper", "UPPER", "two words", " leading", "trailing "),
    *("50%", "a/b", "k=v", "a%20b", "%2F"),
    *("it's", '"quoted"', "[x]{y}", "a:b*c?", "back\\slash", "#^", "tab\there", "a+b&c", "a,b;c"),
    *("5", "05", "5.0", "1e3", "true", "NULL", "null", "2024-01-01"),
    *("Größe", "日本語", "é", "e\u0301", "dot.", ".dot", "_under", "~", "😀", "\n", "\x01"),
)


def _moments(zone: Any) -> list[datetime]:
    return [
        datetime(2024, 2, 29, 12, 30, tzinfo=zone),
        datetime(2024, 2, 29, tzinfo=zone),
        datetime(2024, 2, 29, 12, 30, 0, 123456, tzinfo=zone),
        datetime(1969, 12, 31, 23, 59, 59, tzinfo=zone),
        datetime(1970, 1, 1, tzinfo=zone),
    ]


SEVERAL_KEYS = KeyCase(
    "several",
    pa.schema([("y", pa.int32()), ("s", pa.string()), ("d", pa.date32())]),
    [
        {"y": y, "s": s, "d": d}
        for y in (2023, 2024, None)
        for s in ("a/b=1", None)
        for d in (date(2024, 1, 1), None)
    ],
    {"y": [1], "s": ["", "2023"], "d": [date(2024, 1, 2)]},
)

ONE_KEY_CASES: Sequence[KeyCase] = (
    _one_key("int", pa.int32(), [1, 2, 10, 0, -3, 2**31 - 1, -(2**31)], [3, -1, 100]),
    _one_key("bigint", pa.int64(), [1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1], [0, 2**62]),
    _one_key("string", pa.string(), _TEXTS, ["absent", "", "a b", "a%2Fb", "Plain", "50"]),
    _one_key("char", pa.string(), ["a", "ab cd", "abcde", "5", "A"], ["b"], b"char(5)"),
    _one_key("binary", pa.binary(), [b"a", b"ab", b"A", b"5", b"a/b"], [b"b", b"a "]),
    _one_key(
        "date",
        pa.date32(),
        [date.fromisoformat(d) for d in ("2024-02-29", "1970-01-01", "1969-12-31", "9999-12-31")],
        [date(2024, 3, 1), date(2023, 2, 28)],
    ),
    _one_key(
        "timestamp",
        pa.timestamp("us", "UTC"),
        _moments(UTC),
        [datetime(2024, 2, 29, 12, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)],
    ),
    _one_key("timestamp_ntz", pa.timestamp("us"), _moments(None), [datetime(2024, 3, 1)]),
    _one_key(
        "decimal",
        pa.decimal128(10, 2),
        [*map(Decimal, ("1.50", "0.00", "-0.01", "10.00", "99999999.99"))],
        [Decimal("1.51"), Decimal("-1.50"), Decimal("100.00")],
    ),
    _one_key(
        "double",
        pa.float64(),
        [1.5, 0.0, -2.25, 1e300, 0.1, math.inf, -math.inf, math.nan],
        [2.5, 0.25, 1e-300],
    ),
    _one_key("boolean", pa.bool_(), [True, False], []),
)

KEY_CASES: Sequence[KeyCase] = (*ONE_KEY_CASES, SEVERAL_KEYS)
