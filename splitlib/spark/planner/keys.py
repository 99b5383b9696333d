"""Collect the join keys of dimensions. A key query runs once, even if several scans use it."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType, FloatType

from splitlib.config import SplitConfig
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import Domain, RangeDomain, Ranges, plain_rows, plain_schema
from splitlib.redaction import get_logger
from splitlib.spark.allowed_scans import allowed_part
from splitlib.spark.compat import condition_of, to_arrow
from splitlib.spark.determinism import why_not_deterministic
from splitlib.spark.jvm.active_session import readable
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import JVM_ERRORS, zone_rules
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.keys import (
    FEW_ROWS,
    collect_distinct,
    limit_of_rows,
    rows_that_fit,
)
from splitlib.spark.planner.join_graph import Comparison, Dimension
from splitlib.spark.planner.truncated import Clock, of_columns

# Matches the name of an error in its message, as in "[CAST_INVALID_INPUT] The value …".
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\] ")
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds for one value of the fact table, which each row of a dimension defines."""

    comparisons: tuple[tuple[str, str], ...]
    """Pairs of an operator and the dimension's column on its right side, such as ``(">=", "k0")``.

    The comparisons are combined with AND.
    """

    @property
    def name(self) -> str:
        """Name of the field for these bounds in the collected keys, such as ``k0``."""
        return self.comparisons[0][1]

    @property
    def lower(self) -> Column | None:
        """Start of each row's interval, or None if the intervals have no start."""
        return self._end((">", ">="), F.greatest)

    @property
    def upper(self) -> Column | None:
        """End of each row's interval, or None if the intervals have no end."""
        return self._end(("<", "<="), F.least)

    @property
    def brackets(self) -> str:
        """Which ends of the intervals are inclusive, as in :class:`Ranges`, such as ``(]``.

        If a row has a ``>`` and a ``>=`` bound, the lower end is inclusive, even if the ``>`` bound
        is the greater one. This may keep one value too many, but never drops a match.
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

    The intervals of each value are collected separately. Their union is exact up to the limits for
    keys. Above a limit, one range covers all intervals, and the result names the limit.

    Returns:
        Ranges, with one field for each item of ``bounds``.
    """
    # Drop rows with a null. All comparisons must be true, and a comparison with null never is.
    for name in rows.columns:
        rows = rows.where(F.col(name).isNotNull())
    domains: list[Domain] = []
    fields = []
    limit = ""
    for of_value in bounds:
        ranges, kind, passed = _ranges(rows, of_value, config)
        limit = limit or passed
        fields.append(pa.field(of_value.name, kind))
        if ranges is None:
            return DynamicFilteringData.from_arrow(pa.schema(fields).empty_table())
        domains.append(RangeDomain(fields[-1], ranges))
    schema = plain_schema(fields)
    return DynamicFilteringData(schema, domains, exceeds_threshold=bool(limit), passed_limit=limit)


def _ranges(
    rows: DataFrame, bounds: Bounds, config: SplitConfig
) -> tuple[Ranges | None, pa.DataType, str]:
    """Return the union of all rows' intervals, and the value type.

    The union is None if there are no rows. The third result is a clause that names the limit that
    the intervals exceed, or an empty string.
    """
    lower, upper, passed = bounds.lower, bounds.upper, ""
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
            return Ranges.merged(ends[0], ends[1], bounds.brackets), ends[0].type, ""
        limit = limit_of_rows(most, config)
        passed = f"there are more than {most:,} intervals, the maximum for {limit}"
        rows, lower, upper = intervals, F.col("lower"), F.col("upper")
    first = [] if lower is None else [F.min(lower).alias("least")]
    last = [] if upper is None else [F.max(upper).alias("greatest")]
    measured = plain_rows(to_arrow(rows.agg(*first, *last)))
    kind = measured.schema.field(0).type
    open_ = pa.scalar(None, kind)
    least = measured["least"][0] if first else open_
    greatest = measured["greatest"][0] if last else open_
    if not (least.is_valid or greatest.is_valid):
        return None, kind, ""
    return replace(Ranges.between(least, greatest), brackets=bounds.brackets), kind, passed


class Unusable(Exception):
    """Raised if the keys of a dimension cannot prune. The message is the reason, as a clause."""

    def __init__(self, reason: str, *, not_deterministic: bool = False) -> None:
        super().__init__(reason)
        self.not_deterministic = not_deterministic
        """Whether the keys could prune if the dimension's rows were computed only once."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys that were collected from one dimension."""

    data: DynamicFilteringData
    """One field per comparison: ``k0``, ``k1``, …. Comparisons of one interval share a field."""
    seconds: float
    """Time to collect the keys, in seconds."""


class Collected(NamedTuple):
    """Collected keys, and the comparisons that use them. The comparisons are combined with AND."""

    comparisons: tuple[Comparison, ...]
    keys: Keys

    @property
    def by_field(self) -> Mapping[str, Comparison]:
        """The comparison for each field of the keys, by field name such as ``k0``."""
        named = {f"k{i}": comparison for i, comparison in enumerate(self.comparisons)}
        return {name: named[name] for name in self.keys.data.fields}

    def on_columns(self, catalyst: Catalyst) -> Collected:
        """Replace keys of truncated columns, such as ``date(ts)``, by values of the columns."""
        lineages = {name: c.lineage for name, c in self.by_field.items()}
        truncations = {n: x.truncation for n, x in lineages.items() if x.truncation is not None}
        if not truncations:
            return self

        @cache
        def clock_of(zone: str) -> Clock:
            return Clock(zone_rules(catalyst.scala.jvm, zone))

        keys = replace(self.keys, data=of_columns(self.keys.data, truncations, clock_of))
        on_column = (
            replace(c, lineage=replace(c.lineage, column=c.column, truncation=None))
            for c in self.comparisons
        )
        return Collected(tuple(on_column), keys)


def plan_of_dimension(
    catalyst: Catalyst, optimized: LogicalPlan, dimension: Dimension
) -> LogicalPlan:
    """Return the plan of a dimension, semi-joined with the dimensions that narrow it.

    If ``dimension.is_value`` is true, return a plan with one row and no columns.
    """
    if dimension.is_value:  # the key expression already contains the subquery
        return catalyst.plans.one_row()
    plan = catalyst.plans.node(optimized, dimension.node.path)
    for other, conditions in dimension.narrowed_by:
        expressions = [catalyst.plans.expression_at(optimized, c.place) for c in conditions]
        plan = catalyst.plans.semi_joined(
            plan, plan_of_dimension(catalyst, optimized, other), expressions
        )
    return plan


class KeyQueries:
    """Key queries for the dimensions of one query. Queries with the same result run only once.

    Args:
        catalyst: Access to the session's Catalyst plans.
        optimized: The plan that contains the dimensions.
        config: Settings, such as the threshold for the size of the keys.
        executor: Executor that runs the key queries in parallel.
    """

    def __init__(
        self, catalyst: Catalyst, optimized: LogicalPlan, config: SplitConfig, executor: Executor
    ) -> None:
        self._catalyst = catalyst
        self._optimized = optimized
        self._config = config
        self._executor = executor
        self._submitted: list[tuple[LogicalPlan, object, Future[Keys]]] = []

    def submit(self, dimension: Dimension, comparisons: Sequence[Comparison]) -> Future[Keys]:
        """Start to collect the keys that ``comparisons`` use from a dimension.

        The comparisons must be either all equalities or all inequalities. The returned future
        raises :class:`Unusable` if the keys cannot prune.
        """
        found = [
            self._catalyst.plans.expression_at(self._optimized, c.key.place) for c in comparisons
        ]
        keys = [self._catalyst.expressions.alias(key, f"k{i}") for i, key in enumerate(found)]
        rows = plan_of_dimension(self._catalyst, self._optimized, dimension)
        plan = self._catalyst.plans.projected(rows, keys)
        bounds = _bounds(comparisons)
        operators = tuple(c.operator for c in comparisons)
        signature = operators, bounds
        for other, others, future in self._submitted:
            if signature == others and self._catalyst.plans.same_result(plan, other):
                return future
        future = self._executor.submit(self._collect, plan, operators, bounds)
        self._submitted.append((plan, signature, future))
        return future

    def _collect(
        self, plan: LogicalPlan, operators: Sequence[str], bounds: Sequence[Bounds]
    ) -> Keys:
        started = time.perf_counter()
        try:
            return Keys(self._data(plan, operators, bounds), time.perf_counter() - started)
        except JVM_ERRORS as error:
            # Do not fail: the query may evaluate the failing expression for fewer rows, or never.
            _log.debug("The keys of a dimension could not be collected.", exc_info=True)
            raise Unusable(f"the keys cannot be collected: {_summary(error)}") from error

    def _data(
        self, plan: LogicalPlan, operators: Sequence[str], bounds: Sequence[Bounds]
    ) -> DynamicFilteringData:
        rows = allowed_part(self._catalyst, plan, self._config)
        reason = why_not_deterministic(rows, trusts_foreign=False)
        if reason is not None:
            raise Unusable(
                f"the dimension may return other rows when the join runs: {reason}",
                not_deterministic=True,
            )
        if operators[0] in ("=", "<=>"):
            # If one comparison is null-safe, all fields keep their nulls. This may keep too many
            # partitions, but drops no match.
            return collect_distinct(rows, self._config, null_safe="<=>" in operators)
        for column in rows.schema:
            if isinstance(column.dataType, DoubleType | FloatType | BooleanType):
                kind = column.dataType.simpleString()
                raise Unusable(f"keys of type {kind} cannot be compared as ranges")
        return collect_ranges(rows, bounds, self._config)


def _summary(error: Exception) -> str:
    """Return Spark's name for an error, such as ``CAST_INVALID_INPUT``, or the class name."""
    condition = condition_of(error) if isinstance(error, PySparkException) else None
    named = _CONDITION.search(str(error))  # PySpark 3.5 does not convert errors of tasks
    return condition or (named[1] if named else type(readable(error)).__name__)


def _bounds(comparisons: Sequence[Comparison]) -> tuple[Bounds, ...]:
    """Return the bounds that each row of the dimension sets, one item per target expression."""
    by_target: dict[object, list[tuple[str, str]]] = defaultdict(list)
    for i, comparison in enumerate(comparisons):
        target = comparison.target
        # `CAST` and `try_cast` have equal shapes, but where `try_cast` is NULL, `CAST` may have a
        # value. `<=>` also accepts NULL, so its targets are equal only at the same place.
        is_known = comparison.operator != "<=>" or target.kind == "AttributeReference"
        by_target[target.shape if is_known else target.place].append((comparison.operator, f"k{i}"))
    return tuple(Bounds(tuple(demands)) for demands in by_target.values())
