"""Partition keys of each type, with values that connectors have got wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class KeyCase:
    """The keys of a table and the partitions that it has."""

    name: str
    schema: pa.Schema
    partitions: Sequence[Mapping[str, Any]]
    absent: Mapping[str, Sequence[Any]]
    """By key: values that no partition has, to filter by."""


def _one_key(name: str, kind: pa.DataType, values: Sequence[Any], absent: Sequence[Any]) -> KeyCase:
    partitions = [{"k": value} for value in values]
    return KeyCase(name, pa.schema([("k", kind)]), partitions, {"k": absent})


_TEXTS = (
    *("plain", "Upper", "UPPER", "two words", " leading", "trailing "),
    *("50%", "a/b", "k=v", "a%20b", "%2F"),
    *("it's", '"quoted"', "[x]{y}", "a:b*c?", "back\\slash", "#^", "tab\there", "a+b&c", "a,b;c"),
    *("5", "05", "5.0", "1e3", "true", "NULL", "null", "2024-01-01"),
    *("Größe", "日本語", "é", "e\u0301", "dot.", ".dot", "_under", "~", "😀", "\n", "\x01", None),
)

SEVERAL_KEYS = KeyCase(
    "several",
    pa.schema([("y", pa.int32()), ("s", pa.string()), ("d", pa.date32())]),
    [
        {"y": y, "s": s, "d": d}
        for y in (2023, 2024, None)
        for s in ("a/b", "x=1", None)
        for d in (date(2024, 1, 1), None)
    ],
    {"y": [1], "s": ["", "2023"], "d": [date(2024, 1, 2)]},
)

KEY_CASES: Sequence[KeyCase] = (
    _one_key("int", pa.int32(), [1, 2, 10, 0, -3, 2**31 - 1, -(2**31), None], [3, -1, 100]),
    _one_key("bigint", pa.int64(), [1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1, None], [0, 2**62]),
    _one_key("string", pa.string(), _TEXTS, ["absent", "", "a b", "a%2Fb", "Plain", "50"]),
    _one_key(
        "date",
        pa.date32(),
        [*map(date.fromisoformat, ("2024-02-29", "1970-01-01", "1969-12-31", "9999-12-31")), None],
        [date(2024, 3, 1), date(2023, 2, 28)],
    ),
    _one_key(
        "decimal",
        pa.decimal128(10, 2),
        [*map(Decimal, ("1.50", "0.00", "-0.01", "10.00", "99999999.99")), None],
        [Decimal("1.51"), Decimal("-1.50"), Decimal("100.00")],
    ),
    _one_key("boolean", pa.bool_(), [True, False, None], []),
    SEVERAL_KEYS,
)
