"""The condition that a join implies for its other side, to hand to whoever reads that side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    MapType,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from splitlib.config import SplitConfig
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import RangeDomain, ValueDomain, has_range
from splitlib.filtering.ranges import covering_ranges
from splitlib.spark.arguments import given_dataframe, given_pairs
from splitlib.spark.keys.collect import collect_keys
from splitlib.spark.keys.columns import key_columns
from splitlib.spark.session import settings_of
from splitlib.spark.sql_text import collation_of, quoted, sql_literal

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_LITERALS = (
    *(ArrayType, MapType, StructType, VariantType),
    *(DayTimeIntervalType, YearMonthIntervalType),
)


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """What holds of every row that has a partner in a join.

    Attributes:
        sql: As SQL text, in parentheses if that matters, and in one line. It means the same under
            every setting of the parser and in every time zone.
        is_exact: Whether it holds of no other row; else it holds of some more.
    """

    sql: str
    is_exact: bool
    _told: tuple[str, ...] = ()

    @property
    def column(self) -> Column:
        """For ``DataFrame.where``."""
        return F.expr(self.sql)

    def explain(self) -> str:
        """What is known of each column, a line each."""
        kind = "exact" if self.is_exact else "keeps more than the join"
        return "\n".join([f"Condition of a join ({kind})", *(f"  {line}" for line in self._told)])


def condition(
    dimension: DataFrame,
    on: Mapping[str, str] | Iterable[str | tuple[str, str]] | str,
    *,
    null_safe: bool = False,
) -> JoinCondition:
    """What an inner or semi join with ``dimension`` implies for the other side, the fact.

    A source that knows nothing of joins prunes by it: Delta and Iceberg tables skip partitions
    and files, a database gets it as a ``WHERE``. The dimension is run here, for its distinct keys.
    Few keys are told one by one, more of them as ranges with the gaps between them left out
    (``condition_literals``), far more by their least and greatest.

    Each key is compared by the ``=`` that the join uses, with a literal of the type that the
    dimension's column has, so that whatever Spark converts for the join it converts here.

    Args:
        dimension: With the keys. It has to have the same rows when it is joined.
        on: Fact column to dimension column, as a mapping or pairs, or the name where it is the
            same. The fact's columns may have an alias (``t.dt``); a dot inside of a name is put
            in backticks.
        null_safe: The join is ``<=>``: null keys match nulls.

    Raises:
        NonDeterministicDimension: see :func:`splitlib.freeze`.
        InvalidFilter: if a column does not exist.
    """
    pairs = given_pairs(on)
    dimension = given_dataframe(dimension)
    config = SplitConfig.resolve(spark_conf=settings_of(dimension.sparkSession))
    kinds = {
        name: key.field.dataType
        for name, key in zip(pairs, key_columns(dimension, pairs.values()).values(), strict=True)
    }
    usable = {name: c for name, c in pairs.items() if not isinstance(kinds[name], _NO_LITERALS)}
    if not usable:
        return JoinCondition("true", False, tuple(f"{name}: nothing" for name in pairs))
    data = collect_keys(dimension, usable, None, config, null_safe=null_safe)
    return _Rendering(kinds, config.condition_literals).of(data, tuple(pairs))


def merge_condition(
    source: DataFrame,
    on: Mapping[str, str] | Iterable[str | tuple[str, str]] | str,
    *,
    null_safe: bool = False,
) -> str:
    """Text to add with ``AND`` to the ``ON`` of a MERGE, by which its target is pruned.

    It is implied by the equality of ``on`` for every pair of rows, so that all WHEN clauses keep
    their meaning; where one says NOT MATCHED BY SOURCE, the whole target is read all the same.

    Args:
        source: What is merged. It has to have the same rows when the MERGE runs.
        on: Column of the target, with its alias, to column of the source, such as
            ``{"t.dt": "dt"}``.
        null_safe: As for :func:`condition`.

    Raises:
        NonDeterministicDimension: as :func:`condition`.
        InvalidFilter: as :func:`condition`.
    """
    return condition(source, on, null_safe=null_safe).sql


class _Rendering:
    """Writes keys as SQL.

    Args:
        kinds: Of the dimension's column for each of the fact's.
        most: Literals in one condition.
    """

    def __init__(self, kinds: Mapping[str, DataType], most: int) -> None:
        self._kinds, self._most = kinds, most

    def of(self, data: DynamicFilteringData, columns: tuple[str, ...]) -> JoinCondition:
        """The condition.

        Args:
            data: The keys.
            columns: Those of the fact that are joined by.
        """
        if data.is_empty:
            return JoinCondition("false", True, ("there are no keys",))
        match data.domains:
            case (ValueDomain(rows=rows),) if data.is_exact and _literals(rows) <= self._most:
                exact = set(columns) == set(data.fields)
                told = [f"{', '.join(data.fields)}: {data.describe()}"]
                told += [f"{name}: nothing" for name in columns if name not in data.fields]
                return JoinCondition(self._any_of(rows), exact, tuple(told))
        parts, told = [], []
        for name in columns:
            part, what = self._of_column(name, data)
            parts += [part] if part else []
            told.append(f"{name}: {what}")
        return JoinCondition(_all(parts), False, tuple(told))

    def _any_of(self, rows: pa.Table) -> str:
        """Whether it is one of the tuples."""
        if rows.num_columns > 1:
            columns = [[self._equals(n, v) for v in rows[n]] for n in rows.column_names]
            return _any(_all(row) for row in zip(*columns, strict=True))
        (name,) = rows.column_names
        return _any(self._equals(name, value) for value in rows[name])

    def _of_column(self, name: str, data: DynamicFilteringData) -> tuple[str, str]:
        """What is known of one column alone, as SQL and in words; "" if that is nothing."""
        for domain in data.domains:
            if name not in domain.fields:
                continue
            if isinstance(domain, RangeDomain):
                if self._is_collated(name):
                    break
                return self._ranges(name, [(domain.lower, domain.upper)], domain.includes_null)
            values = pc.unique(domain.rows[name])
            if len(values) <= self._most:
                return self._any_of(pa.table({name: values})), f"{len(values)} values"
            if not has_range(values.type) or self._is_collated(name):
                break
            plain = values.drop_null()
            ranges = covering_ranges(plain.take(pc.sort_indices(plain)), self._most // 2)
            return self._ranges(name, ranges, bool(values.null_count))
        return "", "nothing"

    def _ranges(
        self, name: str, ranges: list[tuple[pa.Scalar, pa.Scalar]], includes_null: bool
    ) -> tuple[str, str]:
        found = [self._between(name, low, high) for low, high in ranges]
        found += [f"{_column(name)} IS NULL"] if includes_null else []
        low, high = ranges[0][0], ranges[-1][1]
        number = f"{len(ranges)} ranges" if len(ranges) > 1 else "one range"
        return _any(found), f"{number} from {low} to {high}"

    def _between(self, name: str, low: pa.Scalar, high: pa.Scalar) -> str:
        if low.equals(high):
            return self._equals(name, low)
        return _all([self._compares(name, ">=", low), self._compares(name, "<=", high)])

    def _equals(self, name: str, value: pa.Scalar) -> str:
        return self._compares(name, "=", value) if value.is_valid else f"{_column(name)} IS NULL"

    def _compares(self, name: str, sign: str, value: pa.Scalar) -> str:
        return f"{_column(name)} {sign} {sql_literal(value, self._kinds[name])}"

    def _is_collated(self, name: str) -> bool:
        """Its order is another than that of the ranges."""
        return collation_of(self._kinds[name]) is not None


def _column(name: str) -> str:
    """A column of the fact as SQL text, whatever characters its user did not think of."""
    if "`" in name:
        return name
    return ".".join(p if _IDENTIFIER.fullmatch(p) else quoted(p) for p in name.split("."))


def _literals(rows: pa.Table) -> int:
    return int(rows.num_rows * rows.num_columns)


def _any(conditions: Iterable[str]) -> str:
    return _joined(" OR ", list(conditions)) or "false"


def _all(conditions: Iterable[str]) -> str:
    return _joined(" AND ", list(conditions)) or "true"


def _joined(word: str, conditions: list[str]) -> str:
    return f"({word.join(conditions)})" if len(conditions) > 1 else "".join(conditions)
