"""Cost: whether the keys of a dimension are worth being collected before the query runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from splitlib.spark.logical_plan import Node, Path, conjuncts
from splitlib.spark.planner.join_graph import Dimension, JoinFilter
from splitlib.spark.planner.scan_sites.scan_site import ScanSite

# Rows that are in memory already, or whose number the plan itself bounds.
_IN_MEMORY = frozenset(
    {"LocalRelation", "OneRowRelation", "LogicalRDD", "InMemoryRelation", "CommandResult"}
)
_FEW_ROWS = _IN_MEMORY | {"GlobalLimit"}


class Costs:
    """What it costs to run parts of one plan; each part is looked at once.

    Args:
        size_of: Bytes that a leaf reads; None if that is not known.
        limit: Reading more than so many bytes to learn the keys does not pay.
        copied_rdds: Leaves that are RDDs which are also read elsewhere under other ids.
    """

    def __init__(
        self,
        size_of: Callable[[Node], int | None],
        limit: int,
        copied_rdds: Collection[Path] = (),
    ) -> None:
        self._size_of = size_of
        self._limit = limit
        self._copied_rdds = copied_rdds
        self._reasons: dict[Path, str | None] = {}

    def may_run(self, node: Node) -> bool:
        """Whether a part of the plan can be run for its keys."""
        return self.why_not_run(node) is None

    def why_not_run(self, node: Node) -> str | None:
        """Why a part of the plan cannot be run for its keys; None if it can."""
        if node.path not in self._reasons:
            self._reasons[node.path] = self._why_not_run(node)
        return self._reasons[node.path]

    def _why_not_run(self, node: Node) -> str | None:
        if any(part.path in self._copied_rdds for part in node.walk()):
            # its rows here need not be those that the query itself reads
            return "its dimension reads an RDD that is also read elsewhere"
        total = 0
        for leaf in node.walk():
            if not leaf.is_leaf or leaf.kind in _IN_MEMORY:
                continue
            size = self._size_of(leaf)
            if size is None:
                return "its dimension reads a table of unknown size"
            total += size
        if total > self._limit:
            return f"its dimension reads {total:,} bytes, more than {self._limit:,}"
        return None


def worth_collecting(sites: Mapping[Path, ScanSite], costs: Costs) -> dict[Path, ScanSite]:
    """The scan sites with only those filters whose keys are worth being collected.

    Keys that are not may still come from another scan site, if they are partition values of it.
    """
    return {path: _of_site(site, costs) for path, site in sites.items()}


def _of_site(site: ScanSite, costs: Costs) -> ScanSite:
    filters: list[JoinFilter] = []
    from_sites: list[JoinFilter] = []
    reasons: list[str] = []
    for join_filter in site.filters:
        reason = costs.why_not_run(join_filter.dimension.node)
        dimension = _selective_part(join_filter.dimension)
        if reason is None and not is_selective(dimension):
            reason = "no condition leaves out rows of its dimension"
        if reason is None:
            filters.append(replace(join_filter, dimension=dimension))
        elif all(c.key_lineage is not None for c in join_filter.comparisons):
            from_sites.append(join_filter)
        else:
            reasons.append(f"{reason}.")
    site = replace(site, filters=tuple(filters), from_sites=tuple(from_sites))
    return site.because(*reasons)


def is_selective(dimension: Dimension) -> bool:
    """Whether the plan shows that some rows are left out, here or where it is narrowed."""
    return _drops_rows(dimension.node) or any(is_selective(d) for d, _ in dimension.narrowed_by)


def _selective_part(dimension: Dimension) -> Dimension:
    """The dimension without what narrows it but drops no rows."""
    kept = ((_selective_part(other), conditions) for other, conditions in dimension.narrowed_by)
    return Dimension(dimension.node, tuple((d, c) for d, c in kept if is_selective(d)))


def _drops_rows(node: Node) -> bool:
    for part in node.walk():
        if part.kind in _FEW_ROWS:
            return True
        if part.kind == "Filter":
            conditions = [c for whole in part.expressions("condition") for c in conjuncts(whole)]
            # IS NOT NULL is what the optimizer adds to every join
            if any(c.kind != "IsNotNull" for c in conditions):
                return True
    return False
