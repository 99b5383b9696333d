"""A scan site: a place where the optimized plan reads a scan that can be pruned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from splitlib.spark.logical_plan import Node
from splitlib.spark.planner.join_graph import Dimension, JoinFilter, PartitionCondition

Ids = Mapping[str, int | None]
"""The id of each attribute of a leaf by its name, in the order of its output."""


@dataclass(frozen=True, slots=True, eq=False)
class ScanSite:
    """One place, and what the passes have found out about it so far."""

    leaf: Node
    """The place in the optimized plan."""
    filters: tuple[JoinFilter, ...] = ()
    """Whose keys are to be collected from dimensions."""
    from_sites: tuple[JoinFilter, ...] = ()
    """Whose keys are the partition values that another site keeps."""
    conditions: tuple[PartitionCondition, ...] = ()
    """What the query itself says of its partitions."""
    reasons: tuple[str, ...] = ()
    """Why something does not prune it, in sentences."""
    wants_same_rows: bool = False
    """Whether more could prune it if the query gave the same rows each time it is run."""
    reads_too_much: bool = False
    """Whether some dimension reads too much to be run for its keys, or nobody knows how much."""

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Those whose keys are to be collected."""
        return tuple(join_filter.dimension for join_filter in self.filters)

    @property
    def may_have_keys(self) -> bool:
        """Whether keys of dimensions or of other sites may prune it."""
        return bool(self.filters or self.from_sites)

    @property
    def reads_all(self) -> bool:
        """Whether Spark will list all partitions, as no condition of the query chooses some."""
        return all(one.condition.kind == "IsNotNull" for one in self.conditions)

    def without_keys(self, reason: str, *, wants_same_rows: bool) -> Self:
        """The same site, which the keys of some dimension cannot prune."""
        wants_same_rows = wants_same_rows or self.wants_same_rows
        return replace(self.because(reason), wants_same_rows=wants_same_rows)

    def because(self, *reasons: str) -> Self:
        """The same site with more reasons."""
        return replace(self, reasons=(*self.reasons, *reasons))
