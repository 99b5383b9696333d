"""Collect the intervals of values that can join by ``<``, ``<=``, ``>`` or ``>=``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from splitlib.config import SplitConfig
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import Domain, RangeDomain, Ranges, plain_rows, plain_schema
from splitlib.spark.compat import to_arrow
from splitlib.spark.keys.collect import FEW_ROWS, rows_that_fit


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds that each row of a dimension sets for a value of the fact table."""

    comparisons: tuple[tuple[str, str], ...]
    """Pairs of an operator and the dimension's column on its right side, joined by AND."""

    @property
    def name(self) -> str:
        """Name of the value: the name of the first column."""
        return self.comparisons[0][1]

    @property
    def lower(self) -> Column | None:
        """Start of each row's interval; None if the intervals have no start."""
        return self._end((">", ">="), F.greatest)

    @property
    def upper(self) -> Column | None:
        """End of each row's interval; None if the intervals have no end."""
        return self._end(("<", "<="), F.least)

    @property
    def brackets(self) -> str:
        """The ends that the intervals include, in the notation of :class:`Ranges`, such as ``(]``.

        If a row has both ``>`` and ``>=``, the lower end is included, even if the ``>`` bound is
        the greater one. That may keep one value too many, but never drops a match.
        """
        operators = {operator for operator, _ in self.comparisons}
        return ("[" if ">=" in operators else "(") + ("]" if "<=" in operators else ")")

    def _end(self, operators: tuple[str, str], innermost: Callable[..., Column]) -> Column | None:
        columns = [F.col(column) for operator, column in self.comparisons if operator in operators]
        return innermost(*columns) if len(columns) > 1 else next(iter(columns), None)


def collect_ranges(
    rows: DataFrame, bounds: Iterable[Bounds], config: SplitConfig
) -> DynamicFilteringData:
    """Return the union of the intervals that the rows of a dimension define.

    Each value is collected separately. The union is exact up to the threshold. Above it, one range
    covers all intervals.

    Args:
        rows: Rows of the dimension.
        bounds: Bounds of one or more values.
        config: Settings with the threshold.

    Returns:
        One field for each of ``bounds``.
    """
    # A comparison with null is never true, and all comparisons of a row must hold.
    for name in rows.columns:
        rows = rows.where(F.col(name).isNotNull())
    domains: list[Domain] = []
    fields = []
    for of_value in bounds:
        ranges, kind = _ranges(rows, of_value, config)
        fields.append(pa.field(of_value.name, kind))
        if ranges is None:
            return DynamicFilteringData.from_arrow(pa.schema(fields).empty_table())
        domains.append(RangeDomain(fields[-1], ranges))
    return DynamicFilteringData(plain_schema(fields), domains, exceeds_threshold=False)


def _ranges(
    rows: DataFrame, bounds: Bounds, config: SplitConfig
) -> tuple[Ranges | None, pa.DataType]:
    """Return the union of the intervals of all rows (None if empty), and the type of the value."""
    lower, upper = bounds.lower, bounds.upper
    if lower is not None and upper is not None:
        intervals = rows.select(lower.alias("lower"), upper.alias("upper"))
        intervals = intervals.where(F.col("lower") <= F.col("upper"))
        most = rows_that_fit(intervals.schema, config)
        few = min(most, FEW_ROWS)
        found = to_arrow(intervals.limit(few + 1))
        if found.num_rows > few:
            found = to_arrow(intervals.distinct().limit(most + 1))
        if found.num_rows <= most:
            found = plain_rows(found)
            ends = [found[name].combine_chunks() for name in ("lower", "upper")]
            return Ranges.merged(ends[0], ends[1], bounds.brackets), ends[0].type
        rows, lower, upper = intervals, F.col("lower"), F.col("upper")
    first = [] if lower is None else [F.min(lower).alias("least")]
    last = [] if upper is None else [F.max(upper).alias("greatest")]
    measured = plain_rows(to_arrow(rows.agg(*first, *last)))
    kind = measured.schema.field(0).type
    open_ = pa.scalar(None, kind)
    least = measured["least"][0] if first else open_
    greatest = measured["greatest"][0] if last else open_
    if not (least.is_valid or greatest.is_valid):
        return None, kind
    return replace(Ranges.between(least, greatest), brackets=bounds.brackets), kind
