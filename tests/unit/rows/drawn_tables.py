"""Tables and filters drawn by Hypothesis, and the rows that match, computed row by row."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pyarrow import orc

from splitlib import DynamicFilteringData

UTC = dt.UTC
NULL = "__HIVE_DEFAULT_PARTITION__"
DATA = pa.schema(
    [
        ("whole", pa.int64()),
        ("small", pa.int32()),
        ("ratio", pa.float64()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
    ]
)
KEYS = pa.schema([("part", pa.int32()), ("kind", pa.string())])
SCHEMA = pa.schema([*DATA, *KEYS])

# Few values of each type, so that keys meet values, and the values that engines disagree about.
VALUES: dict[str, list[Any]] = {
    "whole": [0, 1, -1, 2**40, -(2**63), 2**63 - 1],
    "small": [0, 1, 7, 2**31 - 1, -(2**31)],
    # Of both NaNs, the second has the sign bit, as 0.0 / 0.0 has on x86.
    "ratio": [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.5, 5e-324],
    "name": ["", "a", "a ", "A", "é", "e\u0301", "a/b=c%20", "\U0001f600", "x\ny", "'\"", "NaN"],
    "price": [Decimal("0.00"), Decimal("-1.10"), Decimal("99999999.99")],
    "at": [dt.datetime(2021, 3, 28, 1, 30, 0, 1, UTC), dt.datetime(1970, 1, 1, tzinfo=UTC)],
    "local": [dt.datetime(2021, 3, 28, 2, 30), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "day": [dt.date(2020, 2, 29), dt.date(1583, 1, 1), dt.date(9999, 12, 31)],
    "flag": [True, False],
    "raw": [b"", b"\x00\xff", b"a"],
    "part": [0, 1, 2],
    "kind": ["a", "b c", "é", "x=y", "100%"],
}
ORDERED = ["whole", "small", "name", "price", "at", "local", "day", "raw", "part", "kind"]

Row = dict[str, Any]


@dataclass(frozen=True)
class DrawnFile:
    """The rows of a file, and how it differs from its table."""

    rows: Sequence[Row]
    missing: frozenset[str]
    upper_case: bool
    narrow: bool
    format: str
    row_group: int


def _rows(names: Iterable[str]) -> st.SearchStrategy[list[Row]]:
    row = {name: st.sampled_from([None, *VALUES[name]]) for name in names}
    return st.lists(st.fixed_dictionaries(row), max_size=6)


def files(formats: Sequence[str]) -> st.SearchStrategy[DrawnFile]:
    """Draw a file."""
    return st.builds(
        DrawnFile,
        rows=_rows(DATA.names),
        missing=st.frozensets(st.sampled_from(DATA.names), max_size=2),
        upper_case=st.sampled_from([False, False, True]),
        narrow=st.booleans(),
        format=st.sampled_from(formats),
        row_group=st.integers(1, 4),
    )


def tables(
    formats: Sequence[str] = ("parquet",),
) -> st.SearchStrategy[list[tuple[Row, list[DrawnFile]]]]:
    """Draw partitions and their files."""
    keys = st.fixed_dictionaries(
        {name: st.sampled_from([None, *VALUES[name]]) for name in KEYS.names}
    )
    partition = st.tuples(keys, st.lists(files(formats), min_size=1, max_size=2))
    return st.lists(
        partition, max_size=3, unique_by=lambda one: tuple(one[0][name] for name in KEYS.names)
    )


@st.composite
def filters(draw: st.DrawFn) -> DynamicFilteringData:
    """Draw a filter: values of one to three columns, or a range of one."""
    if draw(st.booleans()):
        name = draw(st.sampled_from(ORDERED))
        ends = st.sampled_from([None, *VALUES[name]])
        low, high = draw(ends), draw(ends)
        pair = pa.array([low, high], SCHEMA.field(name).type)
        return DynamicFilteringData.from_range({name: (pair[0], pair[1])})
    return DynamicFilteringData.from_arrow(draw(keys()))


@st.composite
def keys(draw: st.DrawFn) -> pa.Table:
    """Draw join keys of one to three columns."""
    names = draw(st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=3, unique=True))
    kinds = pa.schema([SCHEMA.field(name) for name in names])
    return pa.Table.from_pylist(draw(_rows(names)), kinds)


def write(root: Path, table: Sequence[tuple[Row, Sequence[DrawnFile]]]) -> list[Row]:
    """Write a table, and return its rows."""
    root.mkdir()
    found = []
    for keys, written in table:
        names = [f"{key}={_escaped(keys[key])}" for key in KEYS.names]
        directory = root.joinpath(*names)
        directory.mkdir(parents=True)
        for number, file in enumerate(written):
            _write_file(directory / f"{number}.{file.format}", file)
            found += [
                {n: None if n in file.missing else v for n, v in row.items()} | keys
                for row in file.rows
            ]
    return found


def _escaped(value: Any) -> str:
    return NULL if value is None else quote(str(value), safe=" é")


def _write_file(path: Path, file: DrawnFile) -> None:
    columns = {}
    for field in DATA:
        if field.name in file.missing:
            continue
        kind = pa.int8() if file.narrow and _fits(file, field.name) else field.type
        name = field.name.upper() if file.upper_case else field.name
        columns[name] = pa.array([row[field.name] for row in file.rows], kind)
    if file.format == "orc":
        orc.write_table(pa.table(columns), path)
    else:
        pq.write_table(pa.table(columns), path, row_group_size=file.row_group)


def _fits(file: DrawnFile, name: str) -> bool:
    values = [row[name] for row in file.rows]
    return name in ("whole", "small") and all(v is None or -128 <= v < 128 for v in values)


def matching(rows: Iterable[Row], drawn: Sequence[DynamicFilteringData]) -> Counter[Any]:
    """Return the rows that all filters contain."""
    return shown(
        row
        for row in rows
        if all(data.contains({name: row[name] for name in data.fields}) for data in drawn)
    )


def shown(rows: Iterable[Mapping[str, Any]]) -> Counter[Any]:
    """Return rows in a form in which NaN equals NaN, and -0.0 does not equal 0.0."""
    return Counter(tuple((name, _shown(row[name])) for name in sorted(row)) for row in rows)


def _shown(value: Any) -> str:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    return "nan" if value != value else repr(value)  # noqa: PLR0124 - only NaN differs from itself
