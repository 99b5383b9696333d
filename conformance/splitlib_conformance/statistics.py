"""Tests that file statistics are correct, so that pruning by them loses no rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from splitlib import DynamicFilteringData, Table
from splitlib.model import ColumnStatistics, FileBatch
from splitlib.spi import Predicate
from splitlib_conformance.base import ONE_KEY, KitBase, Subject, enumerator
from splitlib_conformance.expectations import expect, is_nan
from splitlib_conformance.filter_cases import Range, Values, has_range
from splitlib_conformance.harness import Harness, NewPartition
from splitlib_conformance.key_cases import ONE_KEY_CASES, KeyCase

_COLUMN = "c"
# Name of a second column of the same type. Its values, and so its bounds, differ from the first's.
_OTHER = "other"


_MOST_VALUES = 6


@dataclass(frozen=True)
class Column:
    """A table with data columns of one type, and the values in each of its files.

    Attributes:
        subject: The table.
        case: Type and values of the column.
        rows: The values of each column, by file path.
    """

    subject: Subject
    case: KeyCase
    rows: dict[str, dict[str, list[Any]]]

    @property
    def field(self) -> pa.Field:
        """The tested column."""
        return self.case.schema.field(0).with_name(_COLUMN)

    def everything(self, table: Table) -> Predicate:
        """Return a predicate that keeps every file, but requires the statistics of every column."""
        known = table.metadata.filter_schema
        names = {name.lower() for name in known.names}
        filters = [
            DynamicFilteringData.from_arrow(_distinct(self.field.with_name(name), values))
            for name, values in self.values().items()
            if name in names
        ]
        return Predicate(known, filters)

    def values(self) -> dict[str, list[Any]]:
        """Return all values of each column, from all files."""
        found: dict[str, list[Any]] = {_COLUMN: [], _OTHER: []}
        for of_file in self.rows.values():
            for name, values in of_file.items():
                found[name] += values
        return found


class StatisticsTests(KitBase):
    """Tests of ``FileBatch.statistics``, if ``filter_schema`` contains data columns."""

    @pytest.fixture(params=ONE_KEY_CASES, ids=lambda case: case.name)
    def column_case(self, request: pytest.FixtureRequest) -> KeyCase:
        """Return a column type with values. A test with this fixture runs once for each type."""
        case: KeyCase = request.param
        return case

    @pytest.fixture
    def column(self, harness: Harness, column_case: KeyCase) -> Column:
        """Create a table with one file for each kind of values.

        The files have low values, high values, one repeated value, one value and null, only nulls,
        or all values.
        """
        field = column_case.schema.field(0)
        schema = pa.schema([field.with_name(_COLUMN), field.with_name(_OTHER)])
        given = [p["k"] for p in column_case.partitions if p["k"] is not None]
        # If the type has an order, low and high values go to different files.
        plain = sorted(given) if has_range(field.type) else given
        half = (len(plain) + 1) // 2
        pieces = [plain[:half], plain[half:], plain[:1] * 3, [plain[0], None], [None] * 2, plain]
        tables = [
            pa.table({_COLUMN: piece, _OTHER: (other * 20)[: len(piece)]}, schema=schema)
            for piece, other in zip(pieces, [*pieces[1:], pieces[0]], strict=True)
        ]
        subject = Subject(harness, harness.create_table(schema, ONE_KEY), ONE_KEY, [])
        files = subject.add(NewPartition({"k": 0}, tables[:3]), NewPartition({"k": 1}, tables[3:]))
        rows = {f.path: t.to_pydict() for f, t in zip(files, tables, strict=True)}
        return Column(subject, column_case, rows)

    def test_bounds_enclose_the_rows(self, column: Column) -> None:
        """No value in a file is below the file's lower bound or above its upper bound."""
        for path, name, known, row in self._statistics(column):
            values = pa.array(column.rows[path][name], column.field.type)
            for value in _plain(values):
                for bound, is_right, words in (
                    (known.lower[row], _at_most(known.lower, row, value), "lower bound"),
                    (known.upper[row], _at_least(known.upper, row, value), "upper bound"),
                ):
                    expect(
                        is_right,
                        f"returned {bound} as the {words} of column {name} in {path}, which "
                        f"contains {value}",
                        "bounds that enclose every value of that column in that file, or null",
                    )

    def test_flags_are_of_the_rows(self, column: Column) -> None:
        """A file has no value for which ``has_null``, ``has_nan`` or ``has_value`` is false."""
        for path, name, known, row in self._statistics(column):
            values = pa.array(column.rows[path][name], column.field.type)
            plain = _plain(values)
            real = {
                "has_null": values.null_count > 0,
                "has_nan": len(values) - values.null_count > len(plain),
                "has_value": len(plain) > 0,
            }
            for flag, there in real.items():
                claimed = getattr(known, flag)[row].as_py()
                expect(
                    claimed is not False or not there,
                    f"returned {flag}=False for column {name} in {path}, with the values {values}",
                    "true, or null if unknown",
                )

    def test_statistics_lose_no_match(self, column: Column) -> None:
        """For each filter on data columns, every file with a matching row is read."""
        kind = column.field.type
        every = list({str(v): v for v in column.values()[_COLUMN]}.values())
        distinct = [*every[:: 1 + len(every) // _MOST_VALUES], None]
        filters: list[Values | Range] = [Values((_COLUMN,), ((value,),)) for value in distinct]
        filters += [Values((_COLUMN, _OTHER), ((value, distinct[0]),)) for value in distinct[:3]]
        if has_range(kind):
            ends = sorted(value for value in distinct if value is not None)
            filters += [Range(_COLUMN, low, low) for low in ends]
            filters += [Range(_COLUMN, None, ends[1]), Range(_COLUMN, ends[-2], None)]
        schema = pa.schema([column.field, column.field.with_name(_OTHER)])
        with self.open(column.subject.address) as table:
            for wanted in filters:
                splits = enumerator(table, wanted.data(schema)).enumerate_splits()
                read = {split.path for split in splits}
                for path, columns in column.rows.items():
                    rows = pa.table(columns, schema=schema).to_pylist()
                    expect(
                        path in read or not any(wanted.keeps(row) for row in rows),
                        f"excluded {path} for the filter {wanted}, although its rows are {rows}",
                        "statistics that prune no file with a matching row",
                    )

    def test_statistics_prune(self, column: Column) -> None:
        """A filter for the highest value prunes a file that has only lower values."""
        kind = column.field.type
        values = {
            path: [value.as_py() for value in _plain(pa.array(rows[_COLUMN], kind))]
            for path, rows in column.rows.items()
        }
        highest = max(value for some in values.values() for value in some)
        elsewhere = {path for path, some in values.items() if some and max(some) < highest}
        with self._described(column) as table:
            wanted = Values((_COLUMN,), ((highest,),)).data(pa.schema([column.field]))
            read = {split.path for split in enumerator(table, wanted).enumerate_splits()}
        expect(
            elsewhere - read,
            f"has column {_COLUMN} in its filter_schema, but a filter for value {highest} reads "
            f"all files that have only lower values: {sorted(elsewhere)}",
            "bounds that exclude some of them, or no such column in filter_schema",
        )

    def _described(self, column: Column) -> Table:
        """Open the table, or skip the test if the connector has no statistics on the column."""
        table = self.open(column.subject.address)
        if _COLUMN in table.metadata.filter_schema.names and table.metadata.has_statistics:
            return table
        table.close()
        pytest.skip("not tried: the connector's filter_schema has no data column")

    def _statistics(self, column: Column) -> Iterator[tuple[str, str, ColumnStatistics, int]]:
        """Yield file path, column name, column statistics and the file's row in the statistics."""
        found = 0
        with self._described(column) as table:
            predicate = column.everything(table)
            for listed in table.list_partitions(predicate):
                for _, batch in self.files_of(table, listed, predicate):
                    paths = batch.files["path"].to_pylist()
                    for name, known in batch.statistics.items():
                        _expect_a_row_each(known, name, batch)
                        if name.lower() in (_COLUMN, _OTHER):
                            found += 1
                            for row, path in enumerate(paths):
                                yield path, name.lower(), known, row
        expect(
            found,
            f"has column {_COLUMN} in its filter_schema, but returned no statistics of it",
            "statistics of the columns that the predicate uses",
        )


def _expect_a_row_each(known: ColumnStatistics, name: str, batch: FileBatch) -> None:
    for what in ("lower", "upper", "has_null", "has_nan", "has_value"):
        rows = len(getattr(known, what))
        expect(
            rows == len(batch),
            f"returned {rows} rows of {name}.{what} for {len(batch)} files",
            "a row for each file, in the order of the files",
        )


def _plain(values: pa.Array) -> list[pa.Scalar]:
    """Return a list of the values that are neither null nor NaN."""
    return [value for value in values if value.is_valid and value.as_py() == value.as_py()]


def _at_most(bounds: pa.Array, row: int, value: pa.Scalar) -> bool:
    bound = bounds[row].as_py()
    return bound is None or is_nan(bound) or bound <= value.as_py()


def _at_least(bounds: pa.Array, row: int, value: pa.Scalar) -> bool:
    bound = bounds[row].as_py()
    return bound is None or is_nan(bound) or bound >= value.as_py()


def _distinct(field: pa.Field, values: Sequence[Any]) -> pa.Table:
    return pa.table({field.name: pa.array(values, field.type)}, schema=pa.schema([field]))
