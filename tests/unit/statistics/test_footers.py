"""Bounds from footers never exclude a row group that has a key, whoever wrote the file."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitlib import DynamicFilteringData
from splitlib.arrow.parquet_footer import parse_footer
from splitlib.filtering.predicate import Predicate
from splitlib.model import FIELD_ID, INITIAL_DEFAULT, LOGICAL_TYPE
from splitlib.statistics.footers import (
    GroupRow,
    can_learn,
    learnable,
    rows_of_groups,
)
from splitlib.statistics.row_groups import FileGroups, groups_array, overlap

UTC_US = pa.timestamp("us", "UTC")


class Kind(NamedTuple):
    """A stored type, the type that the table declares, and values of the stored type."""

    stored: pa.DataType
    declared: pa.DataType
    values: st.SearchStrategy[Any]
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


def ints(bits: int, *, unsigned: bool = False) -> st.SearchStrategy[int]:
    least, most = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.integers(-9, 9).filter(lambda n: n >= least) | st.integers(least, most)


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**digits - 1
    numbers = st.integers(-20, 20) | st.integers(-limit, limit)
    return numbers.map(lambda n: Decimal(f"{n}e-{scale}"))


TEXTS = st.text(max_size=3) | st.tuples(
    st.sampled_from(["", "ä" * 40, "\U0010ffff" * 70, "x" * 63, "\ud7ff" * 64]), st.text(max_size=3)
).map("".join)
BYTES = st.binary(max_size=3) | st.binary(max_size=3).map(lambda tail: b"\xff" * 64 + tail)
MOMENTS = st.datetimes(datetime(1500, 1, 1), datetime(2300, 1, 1))
NANOSECONDS = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))
FLOATS = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.5, 5e-324])
IN64, BY_30 = pa.decimal128(18, 3), pa.decimal128(30, 5)
AS_INTEGER = {"store_decimal_as_integer": True}
KINDS = {
    "int8": Kind(pa.int8(), pa.int8(), ints(8)),
    "int32": Kind(pa.int32(), pa.int32(), ints(32)),
    "int64": Kind(pa.int64(), pa.int64(), ints(64)),
    "widened": Kind(pa.int32(), pa.int64(), ints(32)),
    "wraps around": Kind(pa.int32(), pa.int8(), ints(32)),
    "uint32 as int32": Kind(pa.uint32(), pa.int32(), ints(32, unsigned=True)),
    "uint32 as int64": Kind(pa.uint32(), pa.int64(), ints(32, unsigned=True)),
    "uint64 as int64": Kind(pa.uint64(), pa.int64(), ints(64, unsigned=True)),
    "bool": Kind(pa.bool_(), pa.bool_(), st.booleans()),
    "float": Kind(pa.float32(), pa.float32(), FLOATS.filter(lambda f: f != 5e-324)),
    "double": Kind(pa.float64(), pa.float64(), FLOATS),
    "float as double": Kind(pa.float32(), pa.float64(), FLOATS.filter(lambda f: f != 5e-324)),
    "date": Kind(pa.date32(), pa.date32(), st.dates(date(1000, 1, 1), date(3000, 1, 1))),
    "timestamp": Kind(pa.timestamp("us"), UTC_US, MOMENTS),
    "milliseconds": Kind(pa.timestamp("ms"), UTC_US, MOMENTS),
    "nanoseconds": Kind(pa.timestamp("ns"), UTC_US, NANOSECONDS),
    "int96": Kind(
        pa.timestamp("ns"),
        UTC_US,
        NANOSECONDS,
        {"use_deprecated_int96_timestamps": True},
    ),
    "decimal as int32": Kind(pa.decimal128(9, 2), pa.decimal128(9, 2), decimals(9, 2), AS_INTEGER),
    "decimal as int64": Kind(IN64, IN64, decimals(18, 3), AS_INTEGER),
    "decimal as bytes": Kind(BY_30, BY_30, decimals(30, 5)),
    "wider decimal": Kind(pa.decimal128(9, 2), pa.decimal128(20, 4), decimals(9, 2)),
    "narrower decimal": Kind(pa.decimal128(9, 3), pa.decimal128(9, 1), decimals(9, 3)),
    "string": Kind(pa.string(), pa.string(), TEXTS),
    "binary": Kind(pa.binary(), pa.binary(), BYTES),
    "bytes as string": Kind(pa.binary(), pa.string(), st.text(max_size=3).map(str.encode)),
}  # fmt: skip


def statistics(end: bytes, kind: pa.DataType, name: str = "c") -> list[GroupRow]:
    (rows,) = rows_of_groups(parse_footer(end), [pa.field(name, kind)])
    return rows


def keeps(rows: Sequence[GroupRow], keys: pa.Array) -> list[bool]:
    """Return for each row group whether it may have a key."""
    columns = pa.schema([pa.field("c", keys.type)])
    data = DynamicFilteringData.from_arrow(pa.table({"c": keys}))
    groups = FileGroups({"c": groups_array([[row] for row in rows], keys.type)})
    kept: list[bool] = groups.match(Predicate(columns, [data])).keeps.tolist()
    return kept


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def written(table: pa.Table, writer: str, options: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    if writer == "pyarrow":
        pq.write_table(table, file, row_group_size=2, **options)
    elif writer == "polars":
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        frame.write_parquet(file, statistics=True, row_group_size=2)
    return file.getvalue()


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(["pyarrow", "pyarrow", "polars"]),
    st.sampled_from(["1.0", "2.6"]),
    st.data(),
)
def test_no_row_group_with_a_key_is_dropped(
    name: str, writer: str, version: str, data: st.DataObject
) -> None:
    kind = KINDS[name]
    values = data.draw(st.lists(st.none() | kind.values, min_size=1, max_size=6))
    table = pa.table({"c": pa.array(values, kind.stored)})
    options = {"version": version, **kind.options}
    if name == "nanoseconds" and version == "1.0":
        options["coerce_timestamps"], options["allow_truncated_timestamps"] = "us", True
    content = written(table, writer, options)
    stored = pq.ParquetFile(io.BytesIO(content))
    groups = [stored.read_row_group(i)["c"].combine_chunks() for i in range(stored.num_row_groups)]
    read = [pa.chunked_array([g]).cast(kind.declared, safe=False).to_pylist() for g in groups]
    present = [value for group in read for value in group]
    drawn = data.draw(st.lists(st.sampled_from(present) | st.none(), max_size=3))
    keys = pa.array(drawn, kind.declared)
    kept = keeps(statistics(content, kind.declared), keys)
    wanted: set[Any] = {plain(key) for key in keys.to_pylist()}
    for group, is_kept in zip(read, kept, strict=True):
        assert is_kept or wanted.isdisjoint(map(plain, group))


@pytest.mark.parametrize("name", sorted(KINDS))
def test_row_groups_without_keys_are_dropped_where_bounds_are_trusted(name: str) -> None:
    kind = KINDS[name]
    examples: dict[str, list[Any]] = {
        "b": [True, True, False],
        "f": [1.0, 2.0, 3.0],
        "d": [date(2000, 1, day) for day in (1, 2, 3)],
        "t": [datetime(2000, 1, day, tzinfo=UTC) for day in (1, 2, 3)],
        "s": ["a", "b", "c"],
        "x": [b"a", b"b", b"c"],
        "n": [1, 2, 3],
    }
    one, two, three = examples[_letter(kind.declared)]
    values: list[Any] = [one, two]
    if kind.declared == pa.string() and kind.stored == pa.binary():
        values = [value.encode() for value in values]
    if pa.types.is_timestamp(kind.stored):
        values = [value.replace(tzinfo=None) for value in values]
    content = written(pa.table({"c": pa.array(values, kind.stored)}), "pyarrow", kind.options)
    kept = keeps(statistics(content, kind.declared), pa.array([three], kind.declared))
    assert kept == [name in ("int96", "narrower decimal")]


def _letter(kind: pa.DataType) -> str:
    of = pa.types
    checks = {
        "b": of.is_boolean,
        "f": of.is_floating,
        "d": of.is_date,
        "t": of.is_timestamp,
        "s": of.is_string,
        "x": of.is_binary,
    }
    return next((letter for letter, check in checks.items() if check(kind)), "n")


@pytest.mark.parametrize(
    ("sql", "kind", "key", "kept"),
    [
        ("1::INTEGER", pa.int32(), 2, False),
        ("1::BIGINT", pa.int64(), 1, True),
        ("1::UINTEGER", pa.int64(), 2, False),
        ("4294967295::UINTEGER", pa.int64(), 4294967295, True),
        ("4294967295::UINTEGER", pa.int32(), -1, True),
        ("'ä'", pa.string(), "ä", True),
        ("'a'", pa.string(), "b", False),
        ("'nan'::DOUBLE", pa.float64(), math.nan, True),
        ("1.25::DECIMAL(9, 2)", pa.decimal128(9, 2), Decimal("1.26"), False),
        ("1.25::DECIMAL(30, 2)", pa.decimal128(30, 2), Decimal("1.25"), True),
        ("DATE '2000-01-01'", pa.date32(), date(2000, 1, 2), False),
        ("TIMESTAMPTZ '2000-01-01 00:00:00+00'", UTC_US, datetime(2000, 1, 2, tzinfo=UTC), False),
        ("NULL::INTEGER", pa.int32(), 2, False),
    ],
)
def test_files_of_duckdb(tmp_path: Path, sql: str, kind: pa.DataType, key: Any, kept: bool) -> None:
    path = tmp_path / "f.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {sql} AS c) TO '{path}' (FORMAT parquet)")
    rows = statistics(path.read_bytes(), kind)
    assert keeps(rows, pa.array([key], kind)) == [kept]


def of_values(values: Any, kind: pa.DataType | None = None, **options: Any) -> bytes:
    return written(pa.table({"c": pa.array(values)}), "pyarrow", options)


def test_the_order_of_old_writers_is_trusted_for_signed_numbers_only() -> None:
    """Old writers compared text by signed bytes, so that "ä" was less than "a"."""
    for values, kind, trusted in (
        (["a", "b"], pa.string(), False),
        ([b"a", b"b"], pa.binary(), False),
        ([1.0, 2.0], pa.float64(), False),
        ([Decimal("1.00"), Decimal("2.00")], pa.decimal128(30, 2), False),
        ([1, 2], pa.int64(), True),
        ([date(2000, 1, 1), date(2000, 1, 2)], pa.date32(), True),
    ):
        content = written(pa.table({"c": pa.array(values, kind)}), "pyarrow", {})
        footer = parse_footer(content)
        assert footer.ordered == (True,)
        (rows,) = rows_of_groups(footer._replace(ordered=(False,)), [pa.field("c", kind)])
        assert (rows[0].lower is not None) == trusted


def test_a_column_with_one_of_two_bounds_has_none() -> None:
    """Arrow leaves out a bound of more than 4096 bytes."""
    content = written(pa.table({"c": ["", "x" * 5000]}), "pyarrow", {})
    (rows,) = rows_of_groups(parse_footer(content), [pa.field("c", pa.string())])
    assert rows[0][:3] == (None, None, False)


def test_dates_that_readers_may_convert_have_no_bounds() -> None:
    ancient, old, new = date(1500, 1, 1), date(1582, 10, 14), date(1582, 10, 15)
    for values, bounds in (
        ([ancient, old], (None, None)),
        ([ancient, new], (None, -141_427)),
        ([new, new], (-141_427, -141_427)),
    ):
        (row,) = statistics(of_values(values), pa.date32())
        assert (row.lower, row.upper) == bounds
    # Spark moves some times before 1900-01-01 to the next day, for example in Pacific/Kiritimati.
    moment = datetime(1900, 1, 3, tzinfo=UTC)
    for first, known in ((moment, True), (moment - timedelta(microseconds=1), False)):
        (row,) = statistics(of_values(pa.array([first], UTC_US)), UTC_US)
        assert (row.lower is not None) == known == (row.upper is not None)


def test_a_column_that_the_file_does_not_have_is_unknown() -> None:
    """Readers return null for it, or its default."""
    rows = statistics(of_values([1]), pa.int64(), "other")
    assert keeps(rows, pa.array([42])) == [True]
    assert keeps(rows, pa.array([None], pa.int64())) == [True]


def test_a_name_in_other_case_may_be_null() -> None:
    content = of_values([1, 2])
    rows = statistics(content, pa.int64(), "C")
    assert keeps(rows, pa.array([1])) == [True]
    assert keeps(rows, pa.array([7])) == [False]
    assert keeps(rows, pa.array([7, None])) == [True]
    assert keeps(statistics(content, pa.int64()), pa.array([7, None])) == [False]


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"c": [1], "C": [9]}),
        pa.table({"c": [[1]]}),
        pa.table({"c": [{"x": 1}]}),
        pa.table({"c": [{"c": 1}]}),
        pa.table({"c": pa.array([1], pa.duration("s"))}),
        pa.table({"c": ["1"]}),
        pa.table({"c": [1.0]}),
        pa.table({"c": [datetime(2000, 1, 1)]}),
        pa.table({"c": pa.array([1], pa.decimal128(5, 0))}),
        pa.table({"c": [True]}),
    ],
    ids=lambda table: str(table.schema.types),
)
def test_columns_of_other_types_are_unknown(table: pa.Table) -> None:
    rows = statistics(written(table, "pyarrow", {"store_schema": False}), pa.int64())
    is_number = table.schema.types == [pa.duration("s")]
    assert keeps(rows, pa.array([100])) == [not is_number]


def test_files_without_statistics_are_unknown() -> None:
    rows = statistics(of_values([1], write_statistics=False), pa.int64())
    assert rows[0][:4] == (None, None, None, None)
    assert keeps(rows, pa.array([100])) == [True]


def test_a_local_time_is_no_instant() -> None:
    """Spark reads a time without zone as UTC, and refuses the opposite."""
    moment = datetime(2000, 1, 1)
    (row,) = statistics(of_values([moment]), UTC_US)
    assert row.lower == row.upper == 946_684_800_000_000
    (row,) = statistics(of_values(pa.array([moment], UTC_US)), pa.timestamp("us"))
    assert (row.lower, row.upper) == (None, None)


@pytest.mark.parametrize("bound", [1.5, 2.5])
def test_a_bound_that_is_nan_makes_both_unknown(bound: float) -> None:
    """Some writers compare NaN as less or greater than all numbers, and others leave it out."""
    content = of_values([1.5, 2.5])
    length = int.from_bytes(content[-8:-4], "little") + 8
    nan = struct.pack("<d", math.nan)
    end = content[-length:].replace(struct.pack("<d", bound), nan)
    (row,) = statistics(content[:-length] + end, pa.float64())
    assert (row.lower, row.upper) == (None, None)


def test_only_null() -> None:
    rows = statistics(of_values(pa.nulls(2, pa.int64())), pa.int64())
    assert keeps(rows, pa.array([1])) == [False]
    assert keeps(rows, pa.array([None], pa.int64())) == [True]


def test_places_are_those_of_the_row_groups() -> None:
    content = of_values(list(range(6)))
    rows = statistics(content, pa.int64())
    assert rows[0].start == 4  # after the magic number
    # Older releases of Arrow write a copy of the metadata between row groups.
    assert all(one.end <= next_.start for one, next_ in pairwise(rows))
    assert rows[-1].end < len(content)


@pytest.mark.parametrize(
    ("metadata", "trusted"),
    [
        (None, True),
        ({b"comment": b"x"}, True),
        ({LOGICAL_TYPE: b"varchar(7)"}, True),
        ({LOGICAL_TYPE: b"char(7)"}, True),
        ({LOGICAL_TYPE: b"string collate UTF8_LCASE"}, False),
        ({LOGICAL_TYPE: b"interval year"}, False),
        ({INITIAL_DEFAULT: b"1"}, False),
        ({FIELD_ID: b"1"}, False),
    ],
)
def test_columns_that_need_more_than_bytes(metadata: Any, trusted: bool) -> None:
    assert can_learn(pa.field("c", pa.string(), metadata=metadata)) == trusted


def test_names_that_differ_in_case_only_are_not_learned() -> None:
    columns = [pa.field("a", pa.int64()), pa.field("A", pa.int64()), pa.field("b", pa.int64())]
    assert learnable(columns).names == ["b"]
    assert not can_learn(pa.field("c", pa.list_(pa.int64())))


@pytest.mark.parametrize("cut", [0, 3, 8, 30])
def test_no_footer(cut: int) -> None:
    with pytest.raises((pa.ArrowException, OSError)):
        parse_footer(of_values([1])[:cut])


@pytest.mark.parametrize(
    "text",
    ["a" * 1000, "\ud7ff" * 1000, "\U0010ffff" * 1000, "a" + "\U0010ffff" * 1000, "ä" * 63],
)
def test_long_text_has_short_bounds(text: str) -> None:
    for value in (text, text.encode()):
        (row,) = statistics(of_values([value]), pa.array([value]).type)
        assert row.lower <= value
        assert len(row.lower) <= 64
        assert row.upper is None or row.upper >= value
        assert len(row.upper or "") <= 64


def test_bytes_that_cannot_grow_have_no_upper_bound() -> None:
    (row,) = statistics(of_values([b"\xff" * 100]), pa.binary())
    assert (row.lower, row.upper) == (b"\xff" * 64, None)


def test_a_character_that_was_cut() -> None:
    """The bytes before it are a lower bound, and the next text of this length an upper one."""
    content = written(pa.table({"c": pa.array(["aä".encode()[:-1]], pa.binary())}), "pyarrow", {})
    (row,) = statistics(content, pa.string())
    assert (row.lower, row.upper) == ("a", "b")


def test_columns_of_different_versions_of_files_are_not_compared() -> None:
    def of(*files: list[int]) -> pa.ListArray:
        rows = [[GroupRow(n, n, False, True, False, 0, 1) for n in numbers] for numbers in files]
        return groups_array(rows, pa.int64())

    groups = FileGroups({"a": of([1, 5], [1]), "b": of([1], [5, 1])})
    both = DynamicFilteringData.from_values({"a": [5], "b": [1]})
    predicate = Predicate(pa.schema([("a", pa.int64()), ("b", pa.int64())]), [both])
    assert groups.match(predicate).keeps.all()


def test_overlap() -> None:
    def of(*bounds: tuple[int, int]) -> float:
        rows = [GroupRow(low, high, False, True, False, 0, 1) for low, high in bounds]
        return overlap(FileGroups({"c": groups_array([rows], pa.int64())}))

    assert of((0, 9), (0, 9), (0, 9)) == 1
    assert of((0, 1), (2, 3), (4, 5), (6, 7)) == 1 / 4
    assert of() == 1


def test_64_bits_are_not_read_as_a_narrower_type() -> None:
    """Spark raises an error for such a file. The file is kept, so that the error is seen."""
    assert keeps(statistics(of_values([1]), pa.int32()), pa.array([100], pa.int32())) == [True]


def test_bounds_in_a_finer_unit_become_wider() -> None:
    moment = 946_684_800_000_000
    content = of_values(pa.array([moment * 1000 + 1], pa.timestamp("ns", "UTC")))
    (row,) = statistics(content, UTC_US)
    assert (row.lower, row.upper) == (moment, moment + 1)
