"""Eligibility: decide which join filters may prune which scan site, and why others may not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from splitlib.spark.logical_plan import Expression, Node, Path, conjuncts
from splitlib.spark.planner.blocked import Blocked, BlockedColumns
from splitlib.spark.planner.comparable import TypeOf, comparable
from splitlib.spark.planner.join_graph import OPERATORS, JoinFilter, partition_conditions
from splitlib.spark.planner.lineage import Lineages, join_type, lineages_of, only_subquery
from splitlib.spark.planner.scan_sites.scan_site import ScanSite

_LEFT, _RIGHT = 0, 1
# By join type and the side of the join on which the table is.
_REASONS = {
    ("FullOuter", _LEFT): "FULL OUTER JOIN keeps every row of both sides",
    ("FullOuter", _RIGHT): "FULL OUTER JOIN keeps every row of both sides",
    ("LeftOuter", _LEFT): "LEFT OUTER JOIN keeps every row of this table, its left side",
    ("RightOuter", _RIGHT): "RIGHT OUTER JOIN keeps every row of this table, its right side",
    ("LeftAnti", _LEFT): "NOT IN and NOT EXISTS keep the rows that have no match",
    ("ExistenceJoin", _LEFT): "IN or EXISTS is only one part of an OR",
    ("LeftSingle", _LEFT): "a scalar subquery as a value drops no rows",
}
_SOURCES = "the keys of the join come from several tables or from an outer join."
_TOGETHER = "a join condition combines the partition columns with other columns."


def eligible(
    root: Node,
    leaves: Iterable[Node],
    partition_columns: frozenset[int],
    filters: Iterable[JoinFilter],
    type_of: TypeOf,
    *,
    deterministic: bool,
) -> dict[Path, ScanSite]:
    """Return the scan sites with the filters that may prune them, by path.

    Args:
        root: The optimized plan.
        leaves: Its leaves that are prunable scans.
        partition_columns: Ids of the attributes by which these scans can be pruned.
        filters: Filters that the joins of the plan imply.
        type_of: Return the type of an expression. Called only if the plan's JSON is not enough.
        deterministic: Whether the query returns the same rows each time it runs.
    """
    sites = {leaf.path: ScanSite(leaf) for leaf in leaves}
    for join_filter in filters:
        path = join_filter.leaf.path
        kept, reasons = comparable(join_filter, type_of)
        site = sites[path].because(*(f"{reason}." for reason in reasons))
        sites[path] = replace(site, filters=(*site.filters, kept)) if kept is not None else site
    for condition in partition_conditions(root, partition_columns):
        path = condition.lineage.leaf.path
        sites[path] = replace(sites[path], conditions=(*sites[path].conditions, condition))
    compared = {path for path, site in sites.items() if site.filters or site.reasons}
    for path, reason in blocked_joins(root, partition_columns, compared):
        sites[path] = sites[path].because(reason)
    if deterministic:
        return sites
    return {path: _not_deterministic(site) for path, site in sites.items()}


def _not_deterministic(site: ScanSite) -> ScanSite:
    site = site.because("the query calls functions that are not deterministic.")
    return replace(site, filters=(), wants_same_rows=bool(site.filters))


def blocked_joins(
    root: Node, partition_columns: frozenset[int], compared: Collection[Path]
) -> Iterator[tuple[Path, str]]:
    """Yield the path of the leaf and the reason for each join condition that cannot prune it.

    Args:
        root: An optimized plan.
        partition_columns: Ids of the attributes by which scans can be pruned.
        compared: Paths of the leaves that have join filters, or reasons for having none.
    """
    blocked = BlockedColumns(partition_columns)
    for node in root.walk():
        if node.kind == "Filter" and node.subqueries:
            for part in _conjuncts_of(node):
                if part.kind in OPERATORS and any(only_subquery(e) for e in part.children):
                    yield from _below_operators(part, blocked.of(node.children[0]))
        if node.kind != "Join":
            continue
        below = [lineages_of(child, partition_columns) for child in node.children]
        for part in _conjuncts_of(node):
            columns = [e for e in part.walk() if e.kind == "AttributeReference"]
            for number, lineages in enumerate(below):
                reason = _REASONS.get((join_type(node), number))
                for leaf in {x.leaf.path for column in columns for x in lineages.of(column)}:
                    if reason is not None:
                        yield leaf, f"{reason}."
                    elif part.kind not in OPERATORS:
                        yield leaf, f"{part.kind} is not a supported join condition."
                    elif leaf not in _compared(part, lineages):
                        yield leaf, _TOGETHER
                    elif leaf not in compared:
                        yield leaf, _SOURCES
                if reason is None and part.kind in OPERATORS:
                    yield from _below_operators(part, blocked.of(node.children[number]))


def _conjuncts_of(node: Node) -> Iterator[Expression]:
    return (c for whole in node.expressions("condition") for c in conjuncts(whole))


def _compared(part: Expression, lineages: Lineages) -> set[Path]:
    """Return the scans whose partition columns alone determine one side of a comparison."""
    return {x.leaf.path for side in part.children for x in lineages.of(side)}


def _below_operators(part: Expression, blocked: Blocked) -> Iterator[tuple[Path, str]]:
    for leaf, name in sorted(set().union(*(blocked.get(i, ()) for i in part.references))):
        yield leaf, f"keys are not applied below {name}, which is above this table."
