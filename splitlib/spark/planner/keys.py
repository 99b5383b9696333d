"""Collect keys: each dimension is run once, however many scans its keys prune."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType, FloatType

from splitlib.config import SplitConfig
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import Domain, RangeDomain
from splitlib.filtering.key_rows import plain_schema
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.keys.collect import collect_distinct
from splitlib.spark.keys.determinism import why_not_deterministic
from splitlib.spark.logical_plan import Expression
from splitlib.spark.planner.join_graph import Comparison, Dimension


class Unusable(Exception):
    """Why a dimension's keys cannot prune, as a clause."""

    def __init__(self, reason: str, *, not_deterministic: bool = False) -> None:
        super().__init__(reason)
        self.not_deterministic = not_deterministic
        """Whether they could, if they were computed only once."""


@dataclass(frozen=True, slots=True)
class Keys:
    """What one scan asked of one dimension."""

    data: DynamicFilteringData
    """A field per comparison: ``k0``, ``k1``, …"""
    seconds: float
    excluded: Mapping[str, pa.Scalar] = field(default_factory=dict)
    """By field, the end of a range that is no part of the range."""


class Collected(NamedTuple):
    """Keys, and what they are compared with; all comparisons hold together."""

    comparisons: tuple[Comparison, ...]
    keys: Keys


class KeyQueries:
    """The keys of the dimensions of one query; equal ones are run once.

    Args:
        catalyst: Of the session.
        optimized: The plan that the dimensions are parts of.
        config: For the threshold and what to do beyond it.
        executor: Where they run, several at a time.
    """

    def __init__(
        self, catalyst: Catalyst, optimized: Any, config: SplitConfig, executor: Executor
    ) -> None:
        self._catalyst = catalyst
        self._optimized = optimized
        self._config = config
        self._executor = executor
        self._asked: list[tuple[Any, tuple[str, ...], Future[Keys]]] = []

    def submit(self, dimension: Dimension, comparisons: Sequence[Comparison]) -> Future[Keys]:
        """The keys for some comparisons, all by equality or none.

        The future raises :class:`Unusable` if they cannot decide what the comparisons say.
        """
        keys = [
            self._catalyst.alias(self._expression(c.key), f"k{i}")
            for i, c in enumerate(comparisons)
        ]
        plan = self._catalyst.projected(self._plan(dimension), keys)
        operators = tuple(c.operator for c in comparisons)
        for other, others, future in self._asked:
            if operators == others and self._catalyst.same_result(plan, other):
                return future
        future = self._executor.submit(self._collect, plan, operators)
        self._asked.append((plan, operators, future))
        return future

    def _plan(self, dimension: Dimension) -> Any:
        """The plan of a dimension, semi-joined with what narrows it."""
        plan = self._catalyst.node(self._optimized, dimension.node.path)
        for other, conditions in dimension.narrowed_by:
            expressions = [self._expression(condition) for condition in conditions]
            plan = self._catalyst.semi_joined(plan, self._plan(other), expressions)
        return plan

    def _expression(self, expression: Expression) -> Any:
        return self._catalyst.expression_at(self._optimized, expression.place)

    def _collect(self, plan: Any, operators: Sequence[str]) -> Keys:
        started = time.perf_counter()
        rows = self._catalyst.dataframe(plan)
        reason = why_not_deterministic(rows)
        if reason is not None:
            raise Unusable(
                f"its dimension may give other rows when it is joined: {reason}",
                not_deterministic=True,
            )
        if operators[0] in ("=", "<=>"):
            # where one comparison is null-safe the nulls of all are kept: too much, not too little
            data = collect_distinct(rows, self._config, null_safe="<=>" in operators)
            return Keys(data, time.perf_counter() - started)
        data, excluded = _ranges(rows, operators)
        return Keys(data, time.perf_counter() - started, excluded)


def _ranges(
    rows: DataFrame, operators: Sequence[str]
) -> tuple[DynamicFilteringData, dict[str, pa.Scalar]]:
    """The range that partition values can meet, and the ends that are no part of it themselves."""
    if any(isinstance(f.dataType, DoubleType | FloatType | BooleanType) for f in rows.schema):
        raise Unusable("keys of this type have no range")
    upper = [operator in ("<", "<=") for operator in operators]
    measures = [
        (F.max if is_upper else F.min)(f"k{i}").alias(f"k{i}") for i, is_upper in enumerate(upper)
    ]
    found = rows.agg(*measures).toArrow().combine_chunks()
    ends = {name: found[name][0] for name in found.schema.names}
    if not all(end.is_valid for end in ends.values()):  # no row, or none with a key
        return DynamicFilteringData.from_arrow(found.slice(0, 0)), {}
    domains: list[Domain] = []
    for (name, end), is_upper in zip(ends.items(), upper, strict=True):
        open_ = pa.scalar(None, end.type)
        low, high = (open_, end) if is_upper else (end, open_)
        domains.append(RangeDomain(found.schema.field(name), low, high))
    excluded = {
        name: end
        for (name, end), operator in zip(ends.items(), operators, strict=True)
        if operator in ("<", ">")
    }
    schema = plain_schema(found.schema)
    return DynamicFilteringData(schema, domains, exceeds_threshold=False), excluded
