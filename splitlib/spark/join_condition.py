"""Write join keys as an SQL condition, for data sources that cannot see the join."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    MapType,
    NullType,
    StringType,
    StructType,
    VarcharType,
    YearMonthIntervalType,
)

from splitlib.arrow.utf8 import are_valid, valid_ends
from splitlib.arrow.values import SAME_DATES, SAME_INSTANTS, shown
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import RangeDomain, Ranges, ValueDomain, has_range
from splitlib.report import FilterUse, Report
from splitlib.spark.compat import VARIANT
from splitlib.spark.conversion import collation_of, sql_literal

# Days since 1900 that some time zone skipped as a whole, in at least one version of its rules:
# Kwajalein, Kiritimati and Enderbury, Apia and Fakaofo. Each day is mapped to the nearest days
# before and after it that were not skipped. All numbers are days since 1970.
_SKIPPED_DAYS: Final = {
    8632: (8631, 8634),  # 1993-08-20
    8633: (8631, 8634),  # 1993-08-21
    9130: (9129, 9132),  # 1994-12-31
    9131: (9129, 9132),  # 1995-01-01
    15338: (15337, 15339),  # 2011-12-30
}
_NO_LITERALS = (
    *(ArrayType, MapType, StructType, *VARIANT),
    *(DayTimeIntervalType, YearMonthIntervalType),
)
# A value of each type for conditions that are always false. Types that are not listed use 0.
_ZEROS: Final = {
    StringType: "",
    BinaryType: b"",
    BooleanType: False,
    DecimalType: Decimal(0),
}
# Maximum number of OR alternatives that each have several comparisons. Databases fail on more.
_ALTERNATIVES_FOR_A_DATABASE: Final = 50


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """A filter that follows from a join: it is true for every row that the join matches.

    Attributes:
        sql: The filter as SQL on one line, in parentheses if it has several parts. Its meaning
            depends neither on parser settings nor on the time zone.
        is_exact: Whether the filter is true only for rows that the join matches. False for string
            keys without a fixed length, because the fact column may be CHAR: then Spark pads the
            filter's literals, but not the join keys. Also False for keys that Spark's file readers
            may compare wrongly, for which the filter tests a wider range: dates before 1582-10-15,
            timestamps before 1900, days that a time zone skipped, floats of zero, and text that is
            not valid UTF-8.
    """

    sql: str
    is_exact: bool
    _filters: tuple[FilterUse, ...] = ()
    _notes: tuple[str, ...] = ()

    @property
    def column(self) -> Column:
        """The filter as a ``Column``, for ``DataFrame.where``."""
        return F.expr(self.sql)

    def inexact(self, why: str) -> JoinCondition:
        """Return a copy that is marked as inexact, with a reason that :meth:`explain` reports."""
        return replace(self, is_exact=False, _notes=(*self._notes, why))

    def explain(self) -> Report:
        """Return a report on the condition, with a filter for each column."""
        kind = "is exact" if self.is_exact else "may keep more rows than the join"
        return Report(filters=self._filters, condition=self.sql, notes=(f"it {kind}", *self._notes))

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()


class Operand(NamedTuple):
    """An SQL expression that a condition compares with the join keys."""

    sql: str
    """SQL text of a column, or of an expression over a column."""
    kind: DataType
    """Type of the key literals in the condition."""


def without_condition(name: str, exceeded: str = "") -> FilterUse:
    """Return the report entry for a column that gets no condition, with the reason.

    Args:
        name: The column.
        exceeded: Clause that names the limit that the keys exceed. Empty if SQL has no literals for
            the type of the keys.
    """
    why = "There is no condition, because SQL has no literals for keys of this type. Cast the keys"
    if exceeded:
        why = f"There is no condition, because {exceeded}, and the source may sort values of this "
        why += "type differently. Raise this limit"
    unused = (
        f"{why}, or use splitlib.read(spark).table(…).filtered_by(…), which writes no condition."
    )
    return FilterUse((name,), "keys", unused_because=unused)


def has_literals(kind: DataType) -> bool:
    """Return whether keys of a type can be written as SQL literals."""
    return not isinstance(kind, _NO_LITERALS)


class ConditionWriter:
    """Writes join keys as SQL conditions.

    Args:
        operands: The expression to compare with each key field, by field name. There may be fields
            without keys.
        most: Maximum number of literals in one condition.
        for_database: Whether a database evaluates the condition. Databases fail on complex
            conditions: Derby fails on 500 pairs of values or 500 ranges, but not on 1,000 values
            of one column.
        plain_strings: Whether the data source that evaluates the condition compares strings by
            bytes, as Spark does. A database or Hive's metastore may sort strings differently, so
            that ranges would lose rows, and may misread a backslash.
        for_command: Whether the condition is for a command such as MERGE. Iceberg fails on a
            condition that Spark's optimizer simplifies to ``false``, so an always-false condition
            is written in a form that Spark does not simplify.

    Attributes:
        literals: Number of literals written so far.
    """

    def __init__(
        self,
        operands: Mapping[str, Operand],
        most: int,
        *,
        for_database: bool = False,
        plain_strings: bool = False,
        for_command: bool = False,
    ) -> None:
        self._operands, self._most = operands, most
        self._for_database = for_database
        self._plain_strings = plain_strings
        self._for_command = for_command
        half = max(1, most // 2)
        self._alternatives = min(half, _ALTERNATIVES_FOR_A_DATABASE) if for_database else half
        self.literals = 0
        self._is_widened = False

    def of(self, data: DynamicFilteringData) -> JoinCondition:
        """Return a condition that is true for all rows that match one of the keys."""
        columns = tuple(self._operands)
        if data.is_empty:
            never = self._never(data) if self._for_command else "false"
            return JoinCondition(never, True, _notes=("there are no keys",))
        match data.domains:
            case (ValueDomain(rows=rows),) if data.is_exact and self._can_list(rows):
                sql = self._any_of(rows)
                exact = set(columns) == set(data.fields) and not self._is_widened
                used = FilterUse(data.fields, data.describe(), data.nbytes)
                others = (without_condition(n) for n in columns if n not in data.fields)
                return JoinCondition(sql, exact, (used, *others))
        parts, filters = [], []
        for name in columns:
            part, what = self._of_column(name, data)
            parts += [part] if part else []
            limit = self.passed_limit(data) if name in data.fields else ""
            without = without_condition(name, limit)
            filters.append(FilterUse((name,), what) if part else without)
        return JoinCondition(all_of(parts), False, tuple(filters))

    def passed_limit(self, data: DynamicFilteringData) -> str:
        """Return a clause that names the limit that keys exceed, or an empty string."""
        if data.passed_limit or data.num_values <= self._most:
            return data.passed_limit
        return f"there are {data.num_values:,} keys, more than condition_literals ({self._most:,})"

    def _never(self, data: DynamicFilteringData) -> str:
        """Return a condition that is always false, but that Spark does not fold to a constant."""
        name = data.fields[0]
        column, kind = self._operands[name]
        if isinstance(kind, NullType):
            return all_of((f"{column} IS NULL", f"{column} IS NOT NULL"))
        zero = pa.scalar(_ZEROS.get(type(kind), 0), data.schema.field(name).type)
        literal = sql_literal(zero, kind)
        return all_of(f"{column} {sign} {literal}" for sign in ("<", ">"))

    def _can_list(self, rows: pa.Table) -> bool:
        """Return whether there are few enough key tuples to list them one by one."""
        if self._for_database and rows.num_columns > 1:
            return bool(rows.num_rows <= self._alternatives)
        return bool(rows.num_rows * rows.num_columns <= self._most)

    def _any_of(self, rows: pa.Table) -> str:
        """Return a condition that is true if the columns equal one row of ``rows``."""
        if rows.num_columns > 1:
            columns = [[self._equals(n, v) for v in rows[n]] for n in rows.column_names]
            return any_of(all_of(row) for row in zip(*columns, strict=True))
        (name,) = rows.column_names
        return any_of(self._equals(name, value) for value in rows[name])

    def _of_column(self, name: str, data: DynamicFilteringData) -> tuple[str, str]:
        """Return the condition on a column and its description, or two empty strings if none."""
        for domain in data.domains:
            if name not in domain.fields:
                continue
            if isinstance(domain, RangeDomain):
                if not self._has_range(name):
                    break
                ranges = domain.ranges.at_most(self._alternatives)
                return self._ranges(name, ranges, domain.includes_null)
            values = pc.unique(domain.rows[name])
            if len(values) <= self._most:
                return self._any_of(pa.table({name: values})), f"{len(values)} values"
            if not has_range(values.type) or not self._has_range(name):
                break
            plain = values.drop_null()
            ordered = plain.take(pc.sort_indices(plain))
            ranges = Ranges.covering(ordered, self._alternatives)
            return self._ranges(name, ranges, bool(values.null_count))
        return "", ""

    def _ranges(self, name: str, ranges: Ranges, includes_null: bool) -> tuple[str, str]:
        found = [self._between(name, low, high, ranges.brackets) for low, high in ranges]
        found += [self._is_null(name)] if includes_null else []
        low, high = ranges.lower[0], ranges.upper[-1]
        number = f"{len(ranges)} ranges" if len(ranges) > 1 else "one range"
        # Do not convert the bounds to Python values: Python has no dates after the year 9999.
        ends = (
            f"from {shown(low)}" if low.is_valid else "",
            f"to {shown(high)}" if high.is_valid else "",
        )
        return any_of(found), " ".join(filter(None, (number, *ends)))

    def _between(self, name: str, low: pa.Scalar, high: pa.Scalar, brackets: str) -> str:
        """Return a condition for a range. A null bound means that the range has no limit there."""
        low, high = widened(low, high)
        if low.is_valid and low.equals(high):
            return self._equals(name, low)
        signs = (">=" if brackets[0] == "[" else ">", "<=" if brackets[1] == "]" else "<")
        ends = zip(signs, (low, high), strict=True)
        return all_of(self._compares(name, sign, end) for sign, end in ends if end.is_valid)

    def _equals(self, name: str, value: pa.Scalar) -> str:
        if not value.is_valid:
            return self._is_null(name)
        if pa.types.is_floating(value.type) and pc.is_nan(value).as_py():
            # Spark passes the condition `= NaN` to file readers, but not `isnan`. The readers would
            # lose rows, because their statistics ignore NaN.
            self.literals += 1
            return f"isnan({self._operands[name].sql})"
        low, high = widened(value, value)
        if low.equals(high):
            return self._compares(name, "=", value)
        self._is_widened = True
        if not self._has_range(name):
            return f"{self._operands[name].sql} IS NOT NULL"
        return self._between(name, low, high, "[]")

    def _is_null(self, name: str) -> str:
        return f"{self._operands[name].sql} IS NULL"

    def _compares(self, name: str, sign: str, value: pa.Scalar) -> str:
        self.literals += 1
        column, kind = self._operands[name]
        literal = sql_literal(value, kind)
        is_plain = self._plain_strings or collation_of(kind) is not None
        text = value.as_py() if _is_string(kind) and not is_plain else ""
        if "\\" in text or ("'" in text and '"' in text):
            # Hive's metastore or a database may misinterpret a literal with a backslash or with
            # both kinds of quotes. CONCAT does not change the value, but makes the expression
            # depend on the column. So Spark evaluates the comparison instead of pushing it down.
            literal = f"CONCAT({literal}, REPEAT({column}, 0))"
        return f"{column} {sign} {literal}"

    def _has_range(self, name: str) -> bool:
        """Return whether the data source is known to sort the column's values as Spark does."""
        kind = self._operands[name].kind
        return not _is_string(kind) or (self._plain_strings and collation_of(kind) is None)


def _is_string(kind: DataType) -> bool:
    return isinstance(kind, StringType | CharType | VarcharType)


def widened(low: pa.Scalar, high: pa.Scalar) -> tuple[pa.Scalar, pa.Scalar]:
    """Widen a range, if necessary, to bounds that Spark's file readers compare correctly.

    A null bound means that the range has no limit there.
    """
    if pa.types.is_floating(low.type):
        return _beside_zero(low, -1), _beside_zero(high, 1)
    if pa.types.is_string(low.type):
        return valid_ends(low, high)
    first = _first_compared(low.type)
    if first is None:
        return low, high
    is_old = [end.is_valid and pc.less(end, first).as_py() for end in (low, high)]
    low, high = pa.scalar(None, low.type) if is_old[0] else low, first if is_old[1] else high
    if pa.types.is_date(low.type):
        low, high = _beside(low, 0), _beside(high, 1)
    return low, high


def _beside(day: pa.Scalar, side: int) -> pa.Scalar:
    """Replace a day that some time zone skipped by a day that all time zones have.

    It is the last one before the skipped day if ``side`` is 0, and the first one after it if 1.
    """
    number = day.cast(pa.date32()).cast(pa.int32()).as_py()
    found = _SKIPPED_DAYS.get(number)
    return day if found is None else pa.scalar(found[side], pa.date32()).cast(day.type)


def _beside_zero(end: pa.Scalar, sign: int) -> pa.Scalar:
    """Replace 0.0 and -0.0 by the float next to it, because file readers distinguish the zeros."""
    if end.as_py() != 0:
        return end
    tiny = np.nextafter(*np.array([0, sign], end.type.to_pandas_dtype())).item()
    return pa.scalar(tiny, end.type)


def are_compared(values: pa.Array) -> pa.BooleanArray:
    """Return a mask of the values that Spark's file readers compare correctly.

    For the readers, Spark converts dates and timestamps to Java's old classes. They have another
    calendar before 1582-10-15, other time zones before 1900, and no day that a time zone skipped.
    A converted value may be another day or instant, and then the readers skip files that contain
    the value. Zero is also compared wrongly, because dictionaries and sets distinguish -0.0 from
    0.0. In text that is not valid UTF-8, Spark replaces the invalid bytes for the readers.
    """
    if pa.types.is_floating(values.type):
        return pc.not_equal(values, 0)
    if pa.types.is_string(values.type):
        return are_valid(values)
    first = _first_compared(values.type)
    if first is None:
        return pa.repeat(True, len(values))
    known = pc.greater_equal(values, first)
    if pa.types.is_date(values.type):
        skipped = pa.array(list(_SKIPPED_DAYS), pa.date32()).cast(values.type)
        known = pc.and_(known, pc.invert(pc.is_in(values, value_set=skipped)))
    return known


def _first_compared(kind: pa.DataType) -> pa.Scalar | None:
    """Return the earliest value from which on Spark's file readers compare values correctly.

    Skipped days are an exception. None means that the readers compare all values of this type
    correctly, apart from zero.
    """
    if pa.types.is_date(kind):
        return pa.scalar(SAME_DATES, pa.date32()).cast(kind)
    if pa.types.is_timestamp(kind) and kind.tz:
        return pa.scalar(SAME_INSTANTS, pa.timestamp("s", "UTC")).cast(kind)
    return None


def any_of(conditions: Iterable[str]) -> str:
    """Join conditions with OR, in parentheses if there are several. Repeated ones are dropped."""
    return _joined(" OR ", list(dict.fromkeys(conditions))) or "false"


def all_of(conditions: Iterable[str]) -> str:
    """Join conditions with AND, in parentheses if there are several."""
    return _joined(" AND ", list(conditions)) or "true"


def _joined(word: str, conditions: list[str]) -> str:
    return f"({word.join(conditions)})" if len(conditions) > 1 else "".join(conditions)
