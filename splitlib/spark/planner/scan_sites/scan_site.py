"""A scan site: a position in the optimized plan where a prunable scan is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from splitlib.spark.logical_plan import Expression, Node
from splitlib.spark.planner.join_graph import Comparison, Dimension, JoinFilter, PartitionCondition

Ids = Mapping[str, int | None]
"""Attribute ids of a leaf by column name, in output order."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a join does not prune a scan site."""

    text: str
    """The reason, as a sentence."""
    parts: tuple[Expression | str, ...] = ()
    """The join condition, as expressions and the text between them. Empty if there is none."""

    def __str__(self) -> str:
        return self.text


def parts_of(comparisons: Iterable[Comparison]) -> tuple[Expression | str, ...]:
    """Return the comparisons of a join filter, as the parts of a reason."""
    parts: list[Expression | str] = []
    for one in comparisons:
        parts += [" AND "] if parts else []
        parts += [one.target, f" {one.operator} ", one.key]
    return tuple(parts)


@dataclass(frozen=True, slots=True, eq=False)
class ScanSite:
    """A position where a prunable scan is read, with the results of the planner passes so far."""

    leaf: Node
    """The leaf in the optimized plan."""
    filters: tuple[JoinFilter, ...] = ()
    """Join filters whose keys are collected from dimensions."""
    from_sites: tuple[JoinFilter, ...] = ()
    """Join filters whose keys are the remaining partition values of another site."""
    conditions: tuple[PartitionCondition, ...] = ()
    """The query's own conditions on the partition columns."""
    reasons: tuple[Reason, ...] = ()
    """Reasons why joins do not prune the site."""
    wants_same_rows: bool = False
    """Whether more could be pruned if the query returned the same rows each time it runs."""
    reads_too_much: bool = False
    """Whether a dimension's keys are not collected because its size is too large or unknown."""

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Dimensions whose keys are to be collected."""
        return tuple(join_filter.dimension for join_filter in self.filters)

    @property
    def may_have_keys(self) -> bool:
        """Whether keys of dimensions or of other sites may prune this site."""
        return bool(self.filters or self.from_sites)

    @property
    def reads_all(self) -> bool:
        """Whether the query has no condition on the partitions, apart from IS NOT NULL."""
        return all(one.condition.kind == "IsNotNull" for one in self.conditions)

    def without_keys(self, reason: Reason, *, wants_same_rows: bool) -> Self:
        """Return a copy of this site with a reason why the keys of a dimension cannot prune it."""
        wants_same_rows = wants_same_rows or self.wants_same_rows
        return replace(self.because(reason), wants_same_rows=wants_same_rows)

    def because(self, *reasons: Reason | str) -> Self:
        """Return a copy of this site with more reasons why joins do not prune it."""
        more = (Reason(r) if isinstance(r, str) else r for r in reasons)
        return replace(self, reasons=(*self.reasons, *more))
