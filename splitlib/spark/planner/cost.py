"""Decide whether collecting the keys of a dimension before the query runs is worth its cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from splitlib.report import size_text
from splitlib.spark.logical_plan import Node, Path, conjuncts
from splitlib.spark.planner.join_graph import Dimension, JoinFilter
from splitlib.spark.planner.scan_sites.scan_site import Reason, ScanSite, parts_of

# Leaves whose rows are in memory already.
_IN_MEMORY = frozenset(
    {"LocalRelation", "OneRowRelation", "LogicalRDD", "InMemoryRelation", "CommandResult"}
)
# Nodes that return few rows: rows in memory, a LIMIT, or the rows that `range` generates.
_FEW_ROWS = _IN_MEMORY | {"GlobalLimit", "Range"}
_LOOP_REF = "UnionLoopRef"
"""Leaf of a recursive query that reads the rows of the previous step."""
# The size estimate of a data source covers only the columns that are read, but the size of files
# covers all columns. So a join side counts as larger than a scan only if it is this many times as
# large.
_MUCH_SMALLER = 10


class Costs:
    """Costs of running parts of one plan to collect keys. The cost of each part is computed once.

    Args:
        size_of: Function that returns the bytes that a leaf reads; None if unknown.
        limit: Maximal number of bytes to read in order to collect keys.
        copied_rdds: Paths of the RDD leaves that the optimizer has copied under new column ids.
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
        """Return whether a part of the plan may be run to collect its keys."""
        return self.why_not_run(node) is None

    def why_not_run(self, node: Node) -> str | None:
        """Return the reason not to run a part of the plan for its keys; None if it may be run."""
        if node.path not in self._reasons:
            self._reasons[node.path] = self.why_never_run(node) or self._why_too_large(node)
        return self._reasons[node.path]

    def _why_too_large(self, node: Node) -> str | None:
        total = self.bytes_read(node)
        if total is None:
            return "the dimension reads a table of unknown size"
        if total > self._limit:
            return f"the dimension reads {size_text(total)}, more than {size_text(self._limit)}"
        return None

    def why_never_run(self, node: Node) -> str | None:
        """Return the reason not to run a part of the plan, however small; None if there is none."""
        if any(part.path in self._copied_rdds for part in node.walk()):
            # Spark may compute the RDD again for the keys, with other rows than the query reads.
            return "the dimension reads an RDD that is also read elsewhere"
        if any(part.kind == "CollectMetrics" for part in node.walk()):
            return "the dimension has observe(), and reading its keys would count its rows"
        if any(_is_step_of_loop(part, node) for part in node.walk()):
            return "the dimension is a step of a recursive query"
        return None

    def bytes_read(self, node: Node) -> int | None:
        """Return the bytes that the leaves of a part of the plan read; None if unknown."""
        total = 0
        for leaf in node.walk():
            if leaf.is_leaf and leaf.kind not in _IN_MEMORY and leaf.kind != _LOOP_REF:
                size = self._size_of(leaf)
                if size is None:
                    return None
                total += size
        return total


def _is_step_of_loop(part: Node, top: Node) -> bool:
    """Return whether ``part`` reads a step of a recursive query that starts above ``top``."""
    if part.kind != _LOOP_REF:
        return False
    loops = (node for node in top.walk() if node.kind == "UnionLoop")
    return not any(loop.fields["id"] == part.fields["loopId"] for loop in loops)


def worth_collecting(
    sites: Mapping[Path, ScanSite],
    costs: Costs,
    listed: Collection[Path],
    *,
    wants_selective: bool = True,
) -> dict[Path, ScanSite]:
    """Keep only the join filters whose keys are worth collecting.

    A scan site is a place in the plan where a prunable scan is read. If a dimension is not run, but
    its keys are partition values of another site, the filter uses the values that are left there.

    Args:
        sites: Scan sites by path.
        costs: Costs of the plan that contains the sites.
        listed: Paths of the sites whose partitions splitlib lists. Other sites get a condition on
            any of their columns, so both sides of a join could prune each other. For these sites,
            a join side that is much larger than the site is not used.
        wants_selective: Whether to use only dimensions with a condition that drops rows.
    """
    of_costs = {p: s if p in listed else _not_of_larger(s, costs) for p, s in sites.items()}
    return {
        path: _of_site(site, costs, wants_selective=wants_selective)
        for path, site in of_costs.items()
    }


def _not_of_larger(site: ScanSite, costs: Costs) -> ScanSite:
    own = costs.bytes_read(site.leaf)

    def is_small(join_filter: JoinFilter) -> bool:
        other = costs.bytes_read(join_filter.dimension.node)
        return other is not None and (own is None or other < own * _MUCH_SMALLER)

    return replace(site, filters=tuple(f for f in site.filters if is_small(f)))


def _of_site(site: ScanSite, costs: Costs, *, wants_selective: bool) -> ScanSite:
    filters: list[JoinFilter] = []
    from_sites: list[JoinFilter] = []
    reasons: list[Reason] = []
    too_much = False
    for join_filter in site.filters:
        reason = costs.why_not_run(join_filter.dimension.node)
        if reason is not None and costs.why_never_run(join_filter.dimension.node) is None:
            too_much = True
        dimension = _selective_part(join_filter.dimension)
        if reason is None and wants_selective and not is_selective(dimension):
            reason = "the dimension has no condition that drops rows"
        if reason is None:
            filters.append(replace(join_filter, dimension=dimension))
        elif all(c.key_lineage is not None for c in join_filter.comparisons):
            from_sites.append(join_filter)
        else:
            reasons.append(Reason(f"{reason}.", parts_of(join_filter)))
    site = replace(
        site, filters=tuple(filters), from_sites=tuple(from_sites), reads_too_much=too_much
    )
    return site.because(*reasons)


def is_selective(dimension: Dimension) -> bool:
    """Return whether the dimension has a condition that drops rows.

    A condition on another dimension counts too, if a join with it filters this dimension.
    """
    if dimension.is_value or _drops_rows(dimension.node):
        return True
    return any(is_selective(other) for other, _ in dimension.narrowed_by)


def _selective_part(dimension: Dimension) -> Dimension:
    """Return the dimension, narrowed only by dimensions with a condition that drops rows."""
    kept = ((_selective_part(other), conditions) for other, conditions in dimension.narrowed_by)
    return replace(dimension, narrowed_by=tuple((d, c) for d, c in kept if is_selective(d)))


def _drops_rows(node: Node) -> bool:
    for part in node.walk():
        if part.kind in _FEW_ROWS:
            return True
        if part.kind == "Filter":
            conditions = [c for whole in part.expressions("condition") for c in conjuncts(whole)]
            # The optimizer adds IS NOT NULL for every join key, so this condition does not count.
            if any(c.kind != "IsNotNull" for c in conditions):
                return True
    return False
