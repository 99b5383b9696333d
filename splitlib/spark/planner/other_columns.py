"""Find the columns by which joins would prune a table if it were partitioned by them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.cost import Costs, worth_collecting
from splitlib.spark.planner.join_graph import JoinFilter, discover
from splitlib.spark.planner.lineage import leaf_columns, leaf_ids
from splitlib.spark.planner.scan_sites.scan_site import ScanSite


def column_names(leaf: Node, join_filter: JoinFilter) -> tuple[str, ...]:
    """Return the names of the columns of a leaf that a join filter compares, without duplicates.

    The result is empty if the filter compares an expression of columns.
    """
    names = {e.attribute_id: str(e.fields["name"]) for e in leaf_columns(leaf)}
    found = [names.get(c.lineage.column) for c in join_filter.comparisons]
    return () if None in found else tuple(dict.fromkeys(n for n in found if n is not None))


def filters_by_other_columns(
    root: Node, leaves: Collection[Node], partition_columns: frozenset[int], costs: Costs
) -> Mapping[Path, Sequence[JoinFilter]]:
    """Return the join filters on columns that are no partition columns, by path of the leaf.

    Only filters of dimensions that drop rows, and are small enough to collect their keys, are
    returned.

    Args:
        root: An optimized plan.
        leaves: Leaves of the plan that read tables.
        partition_columns: Ids of the attributes by which these leaves can be pruned already.
        costs: Costs of the plan.
    """
    columns = frozenset(i for leaf in leaves for i in leaf_ids(leaf))
    sites = {leaf.path: ScanSite(leaf) for leaf in leaves}
    for join_filter in discover(root, columns, costs.may_run):
        path = join_filter.leaf.path
        kept = tuple(
            c
            for c in join_filter.comparisons
            if c.lineage.column is not None and c.lineage.column not in partition_columns
        )
        if path in sites and len(kept) == len(join_filter.comparisons):
            site = sites[path]
            sites[path] = replace(site, filters=(*site.filters, join_filter))
    chosen = worth_collecting(sites, costs, ())
    return {path: site.filters for path, site in chosen.items() if site.filters}


def named_columns(leaf: Node, filters: Collection[JoinFilter]) -> str:
    """Return the names of the columns of a leaf that join filters compare; empty if there are none.

    Args:
        leaf: The leaf that reads the table.
        filters: Join filters on columns that are no partition columns.
    """
    return ", ".join(dict.fromkeys(n for one in filters for n in column_names(leaf, one)))
