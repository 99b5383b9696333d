"""Fuzz target: names of Hive partitions, and the values parsed from them."""

from __future__ import annotations

import pyarrow as pa

from splitlib import SourceError
from splitlib.hive.partition_values import (
    NULL_PARTITION,
    TypedValues,
    escape,
    parse,
    partition_name,
    split_names,
    unescape,
)
from splitlib.model import LOGICAL_TYPE

TOKENS = (b"k=", b"K=", b"/b=", b"%2F", b"%", b"nan", b"1e5", b"0x1", NULL_PARTITION.encode())
KINDS = (
    pa.field("k", pa.string()),
    pa.field("k", pa.string(), metadata={LOGICAL_TYPE: b"char(5)"}),
    pa.field("k", pa.int8()),
    pa.field("k", pa.int64()),
    pa.field("k", pa.float32()),
    pa.field("k", pa.float64()),
    pa.field("k", pa.bool_()),
    pa.field("k", pa.date32()),
    pa.field("k", pa.decimal128(10, 2)),
    pa.field("k", pa.decimal128(38, 18)),
    pa.field("k", pa.timestamp("us")),
    pa.field("k", pa.timestamp("us", "America/New_York")),
    pa.field("k", pa.binary()),
)


def seeds() -> list[bytes]:
    """Return inputs. The first byte selects the type and number of keys. Names follow, by line."""
    values = [
        "a%20b\nk=%5E\nK=x\nk=__HIVE_DEFAULT_PARTITION__",
        "ab  \nk=ab\nk=\nk=é",
        "1\nk=-128\nk=300\nk=0x1F",
        "1\nk=9223372036854775807\nk=00",
        "nan\nk=-0.0\nk=1e39\nk=-nan",
        "NaN\nk=-inf\nk=1e308\nk=0.1",
        "true\nk=0\nk=FALSE",
        "2020-02-30\nk=2020-1-1\nk=0001-01-01\nk=9999-12-31",
        "1.005\nk=99999999.99\nk=1e7",
        "3" + "0" * 38 + "\nk=1E-18",
        "2020-03-08 02:30:00\nk=2020-03-08T02:30:00.123456",
        "2050-07-01 12:00:00\nk=2020-11-01 01:30:00\nk=2020-01-01",
        "%FF\nk=x",
    ]
    one = [bytes([i]) + f"k={text}".encode() for i, text in enumerate(values)]
    two = bytes([len(KINDS) + 2]) + b"k=1/b=2\nk=__HIVE_DEFAULT_PARTITION__/b=a%2Fb\nK=3/b="
    return [*one, two]


def run(data: bytes) -> bool:
    keys = ["k"] if data[:1] < bytes([len(KINDS)]) else ["k", "b"]
    kind = KINDS[(data[0] if data else 0) % len(KINDS)]
    names = data[1:].decode("utf-8", "replace").split("\n")
    for name in names:
        assert unescape(escape(name)) == name
    try:
        texts = split_names(pa.array(names), keys)
    except SourceError:
        return False
    for values in texts.columns:
        _as_one_by_one(values, kind)
    _round_trip(texts)
    return True


def _as_one_by_one(texts: pa.Array, kind: pa.Field) -> None:
    """Check that the parsed value does not depend on the other values of the array."""
    together = parse(texts, kind)
    for row in range(len(texts)):
        alone = parse(texts.slice(row, 1), kind)
        # As text, NaN equals itself.
        assert str(together.values.slice(row, 1)) == str(alone.values), texts[row]
        assert _is_undecided(together, row) == _is_undecided(alone, 0), texts[row]
        if texts[row].is_valid and alone.values.null_count:
            assert _is_undecided(alone, 0), f"{texts[row]} is taken for null"


def _is_undecided(values: TypedValues, row: int) -> bool:
    return values.undecided is not None and bool(values.undecided[row].as_py())


def _round_trip(texts: pa.RecordBatch) -> None:
    """Check that names made from values are parsed into the same values."""
    rows = list(zip(*(column.to_pylist() for column in texts.columns), strict=True))
    names = pa.array([partition_name(texts.schema.names, row) for row in rows])
    back = split_names(names, texts.schema.names)
    found = list(zip(*(column.to_pylist() for column in back.columns), strict=True))
    assert found == [tuple(value or None for value in row) for row in rows]
