"""Join keys written as a condition in SQL, for sources that know nothing of joins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, NamedTuple

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
    VariantType,
    YearMonthIntervalType,
)

from splitlib.arrow.values import shown
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import RangeDomain, ValueDomain, has_range
from splitlib.filtering.ranges import Ranges
from splitlib.spark.sql_text import collation_of, sql_literal

_NO_LITERALS = (
    *(ArrayType, MapType, StructType, VariantType),
    *(DayTimeIntervalType, YearMonthIntervalType),
)
# A value of each type; of the others it is 0.
_ZEROS: Final = {
    StringType: "",
    BinaryType: b"",
    BooleanType: False,
    DecimalType: Decimal(0),
}
# Conditions of several comparisons each, one of which has to hold.
_ALTERNATIVES_FOR_A_DATABASE: Final = 50


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """What holds of every row that has a partner in a join.

    Attributes:
        sql: As SQL text, in parentheses if that matters, and in one line. It means the same under
            every setting of the parser and in every time zone.
        is_exact: Whether it holds of no other row; else it may hold of some more. It is false for
            keys that are strings of any length, since the fact's column may be CHAR: Spark pads
            the literals of the condition, and not the keys of the join.
    """

    sql: str
    is_exact: bool
    _told: tuple[str, ...] = ()

    @property
    def column(self) -> Column:
        """For ``DataFrame.where``."""
        return F.expr(self.sql)

    def inexact(self, why: str) -> JoinCondition:
        """The same condition, of which it is known why it holds of more rows."""
        return replace(self, is_exact=False, _told=(*self._told, why))

    def explain(self) -> str:
        """What is known of each column, a line each."""
        kind = "exact" if self.is_exact else "keeps more than the join"
        return "\n".join([f"Condition of a join ({kind})", *(f"  {line}" for line in self._told)])


class Operand(NamedTuple):
    """What keys are compared with."""

    sql: str
    """A column, or an expression over one."""
    kind: DataType
    """What literals are written as."""


def has_literals(kind: DataType) -> bool:
    """Whether keys of a type can be written down."""
    return not isinstance(kind, _NO_LITERALS)


class ConditionWriter:
    """Writes keys as SQL.

    Args:
        operands: What is joined by, for each field of the keys; more than those have no keys.
        most: Literals in one condition.
        for_database: Whether a database reads it, which fails at conditions that are too complex:
            Derby at 500 pairs of values or 500 ranges, but not at 1,000 values of one column.
        plain_strings: Whether whatever reads the condition compares strings by their bytes, as
            Spark does. A database or Hive's metastore may order strings otherwise, so that ranges
            would lose rows, and may misread a backslash.
        for_command: Whether a command such as MERGE gets it. Iceberg fails at a condition that
            Spark folds to ``false``, so one that never holds is written so that it stays.

    Attributes:
        literals: How many have been written.
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

    def of(self, data: DynamicFilteringData) -> JoinCondition:
        """The condition that keys meet."""
        columns = tuple(self._operands)
        if data.is_empty:
            never = self._never(data) if self._for_command else "false"
            return JoinCondition(never, True, ("there are no keys",))
        match data.domains:
            case (ValueDomain(rows=rows),) if data.is_exact and self._can_list(rows):
                exact = set(columns) == set(data.fields)
                told = [f"{', '.join(data.fields)}: {data.describe()}"]
                told += [f"{name}: nothing" for name in columns if name not in data.fields]
                return JoinCondition(self._any_of(rows), exact, tuple(told))
        parts, told = [], []
        for name in columns:
            part, what = self._of_column(name, data)
            parts += [part] if part else []
            told.append(f"{name}: {what}")
        return JoinCondition(all_of(parts), False, tuple(told))

    def _never(self, data: DynamicFilteringData) -> str:
        """A condition on a column that holds of no value, and is no constant to Spark."""
        name, (column, kind) = next(iter(self._operands.items()))
        if isinstance(kind, NullType):
            return all_of((f"{column} IS NULL", f"{column} IS NOT NULL"))
        zero = pa.scalar(_ZEROS.get(type(kind), 0), data.schema.field(name).type)
        literal = sql_literal(zero, kind)
        return all_of(f"{column} {sign} {literal}" for sign in ("<", ">"))

    def _can_list(self, rows: pa.Table) -> bool:
        """Whether tuples can be written down as they are."""
        if self._for_database and rows.num_columns > 1:
            return bool(rows.num_rows <= self._alternatives)
        return bool(rows.num_rows * rows.num_columns <= self._most)

    def _any_of(self, rows: pa.Table) -> str:
        """Whether it is one of the tuples."""
        if rows.num_columns > 1:
            columns = [[self._equals(n, v) for v in rows[n]] for n in rows.column_names]
            return any_of(all_of(row) for row in zip(*columns, strict=True))
        (name,) = rows.column_names
        return any_of(self._equals(name, value) for value in rows[name])

    def _of_column(self, name: str, data: DynamicFilteringData) -> tuple[str, str]:
        """What is known of one column alone, as SQL and in words; "" if that is nothing."""
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
        return "", "nothing"

    def _ranges(self, name: str, ranges: Ranges, includes_null: bool) -> tuple[str, str]:
        found = [self._between(name, low, high, ranges.brackets) for low, high in ranges]
        found += [self._is_null(name)] if includes_null else []
        low, high = ranges.lower[0], ranges.upper[-1]
        number = f"{len(ranges)} ranges" if len(ranges) > 1 else "one range"
        # not by way of Python, which has no date beyond the year 9999
        ends = (
            f"from {shown(low)}" if low.is_valid else "",
            f"to {shown(high)}" if high.is_valid else "",
        )
        return any_of(found), " ".join(filter(None, (number, *ends)))

    def _between(self, name: str, low: pa.Scalar, high: pa.Scalar, brackets: str) -> str:
        """Null = open."""
        if low.is_valid and low.equals(high):
            return self._equals(name, low)
        signs = (">=" if brackets[0] == "[" else ">", "<=" if brackets[1] == "]" else "<")
        ends = zip(signs, (low, high), strict=True)
        return all_of(self._compares(name, sign, end) for sign, end in ends if end.is_valid)

    def _equals(self, name: str, value: pa.Scalar) -> str:
        return self._compares(name, "=", value) if value.is_valid else self._is_null(name)

    def _is_null(self, name: str) -> str:
        return f"{self._operands[name].sql} IS NULL"

    def _compares(self, name: str, sign: str, value: pa.Scalar) -> str:
        self.literals += 1
        column, kind = self._operands[name]
        literal = sql_literal(value, kind)
        is_plain = self._plain_strings or collation_of(kind) is not None
        if _is_string(kind) and not is_plain and _is_misread(value.as_py()):
            # the same text, but no literal: Spark makes the comparison itself
            literal = f"CONCAT({literal}, REPEAT({column}, 0))"
        return f"{column} {sign} {literal}"

    def _has_range(self, name: str) -> bool:
        """Whether its order is that of the ranges."""
        kind = self._operands[name].kind
        return not _is_string(kind) or (self._plain_strings and collation_of(kind) is None)


def _is_string(kind: DataType) -> bool:
    return isinstance(kind, StringType | CharType | VarcharType)


def _is_misread(text: str) -> bool:
    """Whether a filter of Hive's metastore, or a database, may take a literal for another text."""
    return "\\" in text or ("'" in text and '"' in text)


def any_of(conditions: Iterable[str]) -> str:
    """Conditions one of which holds, in parentheses if there are several."""
    return _joined(" OR ", list(conditions)) or "false"


def all_of(conditions: Iterable[str]) -> str:
    """Conditions that hold together, in parentheses if there are several."""
    return _joined(" AND ", list(conditions)) or "true"


def _joined(word: str, conditions: list[str]) -> str:
    return f"({word.join(conditions)})" if len(conditions) > 1 else "".join(conditions)
