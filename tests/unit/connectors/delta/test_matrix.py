"""Random tables that deltalake writes have the rows that deltalake reads."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData, SplitConfig
from splitlib.hive.partition_values import unescape

_moments = st.datetimes(datetime(1900, 1, 2), datetime(2100, 1, 1))
# deltalake 1.6 writes "" as a partition value, which means null. So it reads other rows than Spark.
_texts = st.text(
    st.one_of(st.sampled_from("ab %/=:?#+&\\'\"{}[]é😀~.,\n"), st.characters(codec="utf-8")),
    min_size=1,
    max_size=40,
).filter(lambda text: "\0" not in text)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 2),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2),
    pa.string(): _texts,
    pa.date32(): st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    pa.bool_(): st.booleans(),
    pa.decimal128(38, 18): st.decimals(-(10**19), 10**19, places=18),
    pa.decimal128(10, 2): st.decimals(-(10**7), 10**7, places=2),
    pa.decimal128(30, 0): st.decimals(-(10**25), 10**25, places=0),
    pa.timestamp("us", "UTC"): _moments.map(lambda moment: moment.replace(tzinfo=UTC)),
    pa.timestamp("us"): _moments,
    pa.float64(): st.floats(allow_nan=False) | st.just(math.nan),
    pa.float32(): st.floats(width=32, allow_nan=False),
}
# As partition values, deltalake 1.6 writes floats differently from Spark, and negative decimals
# wrongly ("0.0-1").
KEYS = {kind: values for kind, values in VALUES.items() if not pa.types.is_floating(kind)} | {
    pa.decimal128(38, 18): st.decimals(1, 10**19, places=18),
    pa.decimal128(10, 2): st.decimals(1, 10**7, places=2),
    pa.decimal128(30, 0): st.decimals(1, 10**25, places=0),
}
_numbers = itertools.count()


@st.composite
def _tables(draw: st.DrawFn) -> tuple[pa.Schema, list[str], list[pa.Table], Any]:
    """Draw columns, keys, appended tables (the last ones with another column) and a value."""
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    key_kinds = draw(st.lists(st.sampled_from(list(KEYS)), max_size=2))
    names = [f"c {i}%" if draw(st.booleans()) else f"c{i}" for i in range(len(kinds))]
    keys = [f"k{i}" for i in range(len(key_kinds))]
    fields = [pa.field(n, k) for n, k in zip([*names, *keys], [*kinds, *key_kinds], strict=True)]
    tables = []
    for number in range(draw(st.integers(1, 3))):
        known = (
            fields
            if number < 2
            else [*fields[: len(names)], pa.field("late", pa.int32()), *fields[len(names) :]]
        )
        rows = draw(st.integers(0, 4))
        values = [(KEYS if f.name in keys else VALUES)[f.type] for f in known]
        columns = [
            pa.array(draw(st.lists(st.none() | each, min_size=rows, max_size=rows)), f.type)
            for each, f in zip(values, known, strict=True)
        ]
        tables.append(pa.table(columns, schema=pa.schema(known)))
    return pa.schema(fields), keys, tables, draw(st.integers(0, 100))


@given(_tables(), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_rows_are_those_of_deltalake(
    tmp_path: Path, drawn: Any, checkpoint: bool, deleted: bool, by_data: bool
) -> None:
    """All rows are read, and rows with a value that a filter names are among the filtered ones."""
    schema, keys, tables, choice = drawn
    root = str(tmp_path / f"t {next(_numbers)}%")
    for rows in tables:
        deltalake.write_deltalake(
            root, rows, mode="append", partition_by=keys or None, schema_mode="merge"
        )
    delta = deltalake.DeltaTable(root)
    name = schema.names[choice % len(schema)] if by_data else (keys or schema.names)[0]
    if deleted:
        delta.delete(f'"{schema.names[0]}" IS NULL')
    if checkpoint:
        delta.create_checkpoint()
    expected = _rows(delta)
    assert sorted(map(repr, _read(root))) == sorted(map(repr, expected))
    values = [row[name] for row in expected if row[name] is not None]
    if values:
        value = values[choice % len(values)]
        data = DynamicFilteringData.from_arrow(
            pa.table({name: _array(value, schema.field(name).type)}), fields=[name]
        )
        found = set(map(repr, _read(root, data)))
        assert {repr(row) for row in expected if repr(row[name]) == repr(value)} <= found


@pytest.mark.parametrize(
    "values",
    [
        pa.array([date(1, 1, 1), date(9999, 12, 31), None]),
        pa.array([Decimal("1.50"), Decimal(0)], pa.decimal128(20, 10)),
        pa.array([True, False, None]),
        pa.array([-1, 2], pa.int16()),
        pa.array([b"a/b", b"\xff=", None]),
        pa.array(["a b", "a/b", "a=b", "a%b", "a:b", "é", "e\u0301", "+x'\"*?#[]^\\\n", None]),
    ],
    ids=lambda values: str(values.type),
)
def test_names_of_partitions_are_those_of_their_directories(
    tmp_path: Path, values: pa.Array
) -> None:
    data = pa.table({"v": range(len(values)), "k": values})
    deltalake.write_deltalake(tmp_path, data, partition_by=["k"])
    with splitlib.load_table(str(tmp_path), connector="delta") as table:
        names = table.partitions()["partition"].to_pylist()
        paths = table.files()["path"].to_pylist()
    # deltalake escapes the bytes of é, as URLs do. Hive escapes only ASCII.
    directories = [unquote(path.removeprefix(f"{tmp_path}/").rpartition("/")[0]) for path in paths]
    assert sorted(map(unescape, names)) == sorted(directories)


def _array(value: Any, kind: pa.DataType) -> pa.Array:
    return pa.array([Decimal(value) if pa.types.is_decimal(kind) else value], kind)


def _rows(delta: deltalake.DeltaTable) -> list[dict[str, Any]]:
    table = deltalake.QueryBuilder().register("t", delta).execute("SELECT * FROM t").read_all()
    return [_plain(row) for row in pa.table(table).to_pylist()]


def _read(root: str, *filters: DynamicFilteringData) -> list[dict[str, Any]]:
    """Read the rows of the splits with PyArrow."""
    found = []
    with splitlib.load_table(root, connector="delta", config=SplitConfig()) as table:
        enumerator = DynamicFileEnumerator(table, SplitConfig())
        for each in filters:
            enumerator.set_dynamic_filtering_data(each)
        for split in enumerator.enumerate_splits():
            assert not split.deletes
            names = [f.name for f in table.schema]
            for row in pq.ParquetFile(split.path).read().to_pylist():
                whole = {**dict.fromkeys(names), **row, **split.partition_values}
                found.append(_plain(whole))
    return found


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with columns in order of their names, and times in UTC."""
    return {name: _value(row[name]) for name in sorted(row)}


def _value(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if isinstance(value, Decimal):
        return str(value)
    return value
