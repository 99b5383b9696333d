"""Tables partitioned with each transform by a column of each type that it accepts."""

from __future__ import annotations

from functools import partial

from tests.interop.reference.lake import Lake
from tests.interop.reference.recipe import Recipe, add, recipe

_VALUES = {
    "INT": ["1", "-1", "0", "17", "2147483647", "-2147483648"],
    "BIGINT": ["1", "-1", "0", "17", "9223372036854775807", "-9223372036854775808"],
    "STRING": ["'a'", "'01'", "'1'", "''", "'null'", "'abcdefgh'", "'ééé'", "'日本語'", "'😀😀😀'"],
    "DATE": ["DATE'2020-02-29'", "DATE'1969-12-31'", "DATE'1970-01-01'", "DATE'0001-01-01'"],
    "TIMESTAMP": [
        "TIMESTAMP'2020-02-29 23:59:59.999999Z'",
        "TIMESTAMP'1969-12-31 23:59:59.999999Z'",
        "TIMESTAMP'1970-01-01 00:00:00Z'",
        "TIMESTAMP'1960-06-15 12:30:00Z'",
        "TIMESTAMP'2020-03-01 05:30:00Z'",
    ],
    "TIMESTAMP_NTZ": [
        "TIMESTAMP_NTZ'2020-02-29 23:59:59.999999'",
        "TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'",
        "TIMESTAMP_NTZ'1970-01-01 00:00:00'",
        "TIMESTAMP_NTZ'1960-06-15 12:30:00'",
    ],
    "DECIMAL(9, 2)": ["1.50", "-1.50", "0", "1234567.89", "-0.01", "10.65"],
    "DECIMAL(38, 10)": ["1.5", "-1.5", "1234567890123456789012345678.0123456789"],
    "BOOLEAN": ["true", "false"],
    "FLOAT": ["1.5", "FLOAT('NaN')", "FLOAT('-Infinity')", "0.0"],
    "DOUBLE": ["0.1", "DOUBLE('NaN')", "DOUBLE('Infinity')", "1e300"],
    "BINARY": ["X''", "X'00'", "X'0001FF'", "X'FF00FF00'", "X'61'"],
}
_NUMBERS = ["INT", "BIGINT", "DECIMAL(9, 2)", "DECIMAL(38, 10)"]
_INSTANTS = ["TIMESTAMP", "TIMESTAMP_NTZ"]

_TRANSFORMS = {
    "k": list(_VALUES),
    "bucket(4, k)": [*_NUMBERS, "STRING", "DATE", *_INSTANTS, "BINARY"],
    "truncate(2, k)": [*_NUMBERS, "STRING", "BINARY"],
    "years(k)": ["DATE", *_INSTANTS],
    "months(k)": ["DATE", *_INSTANTS],
    "days(k)": ["DATE", *_INSTANTS],
    "hours(k)": _INSTANTS,
}


def _write(kind: str, lake: Lake) -> None:
    """Write a table that uses each transform in turn, so that it has files of all specs."""
    rows = [f"({i}, CAST({v} AS {kind}))" for i, v in enumerate([*_VALUES[kind], "NULL"])]
    before = ""
    for transform, kinds in _TRANSFORMS.items():
        if kind not in kinds:
            continue
        if before:
            lake.alter(f"REPLACE PARTITION FIELD {before} WITH {transform}")
        else:
            lake.create(f"id BIGINT, k {kind}", transform)
        before = transform
        lake.insert(", ".join(rows))
    # The last spec gets a partition with two files.
    lake.insert(", ".join(rows[1:]))


for _kind in _VALUES:
    _plain = "".join(c if c.isalnum() else "_" for c in _kind.lower()).strip("_")
    add(f"partitioned_by_{_plain}", Recipe(partial(_write, _kind), 2, (("k",), ("id",))))


@recipe("s", "ts", "id", ("ts", "s", "id"), formats=(2, 3))
def several_fields(lake: Lake) -> None:
    lake.create(
        "id BIGINT, ts TIMESTAMP, s STRING, b BOOLEAN", "days(ts), bucket(3, id), truncate(1, s), b"
    )
    lake.insert(
        """SELECT id, TIMESTAMP'2020-01-01 12:00:00Z' + make_interval(0, 0, 0, id % 3),
                  IF(id % 5 = 0, NULL, concat(char(97 + id % 2), id)), id % 2 = 0 FROM range(24)"""
    )
    lake.sql("DELETE FROM {t} WHERE id % 6 = 1")


@recipe("ts", "id")
def one_column_in_several_fields(lake: Lake) -> None:
    lake.create(
        "id BIGINT, ts TIMESTAMP", "years(ts), bucket(2, ts), truncate(10, id), bucket(2, id)"
    )
    lake.insert("SELECT id, TIMESTAMP'2020-01-01 12:00:00Z' + make_interval(id % 3) FROM range(30)")


@recipe("id")
def partitioned_by_a_nested_field(lake: Lake) -> None:
    lake.create("id BIGINT, s STRUCT<k: INT, v: STRING>", "s.k")
    lake.insert(
        """SELECT id, IF(id = 9, NULL, named_struct('k', CAST(id % 3 AS INT), 'v', 'x'))
           FROM range(10)"""
    )


@recipe("id", "k", formats=(1,))
def a_dropped_field_of_format_1(lake: Lake) -> None:
    """Format version 1 keeps a dropped field as a void transform."""
    lake.create("id BIGINT, k INT, s STRING", "k, truncate(1, s)")
    lake.insert("(1, 1, 'a'), (2, 2, 'b'), (3, NULL, NULL)")
    lake.alter("DROP PARTITION FIELD k")
    lake.insert("(1, 1, 'a'), (2, 2, 'b'), (3, NULL, NULL)")
