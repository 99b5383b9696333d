"""Fix the files of unpruned tables when the query is planned.

Spark itself lists a partitioned table each time a query on the table runs. It lists an
unpartitioned table again after every INSERT in the session. With fixed files, each run of the query
reads the same files. Pruned scans always have fixed files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.errors import LocationNotAllowed, MissingPartition, SplitlibError
from splitlib.filtering.data import DynamicFilteringData
from splitlib.redaction import get_logger
from splitlib.report import Count, Report
from splitlib.spark.file_scan import canonical_paths
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.pinned_relation import pinned_leaf
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.lineage import leaf_ids
from splitlib.spark.planner.prune import PrunedSites
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.scan_sites.planned_scan import Scan, ScanOutcome, Site
from splitlib.spark.session_catalog.connector import table_of
from splitlib.spark.session_catalog.relation import ListedTable

_log = get_logger(__name__)


def sampled_leaves(tree: Node) -> frozenset[Path]:
    """Return the paths of the leaves below a TABLESAMPLE or ``sample()``, and of equal leaves.

    A sample with a seed depends on the order in which Spark reads the files. A scan of fixed files
    reads them in a different order. So these leaves keep Spark's own listing.
    """
    samples = (node for node in tree.walk() if node.kind == "Sample")
    sampled = {leaf_ids(leaf) for node in samples for leaf in node.walk() if leaf.is_leaf}
    return frozenset(
        leaf.path for leaf in tree.walk() if leaf.is_leaf and leaf_ids(leaf) in sampled
    )


def with_fixed_files(
    catalyst: Catalyst, analyzed: LogicalPlan, tree: Node
) -> tuple[LogicalPlan, dict[Path, LogicalPlan]]:
    """Fix the files of the unpartitioned tables of an analyzed plan.

    Return the new plan, and its leaves with fixed files by path.
    """
    # Leaves with the same column ids read the same table, so its files are fixed only once.
    fixed: dict[frozenset[int], LogicalPlan | None] = {}
    new: list[tuple[LogicalPlan, LogicalPlan]] = []
    sampled = sampled_leaves(tree)
    leaves = [n for n in tree.walk() if n.kind == "LogicalRelation" and n.path not in sampled]
    for node in leaves:
        ids = leaf_ids(node)
        if ids in fixed:
            continue
        old = catalyst.plans.node(analyzed, node.path)
        fixed[ids] = leaf = _fixed_leaf(catalyst, old)
        if leaf is not None:
            new.append((old, leaf))
    by_path = {node.path: leaf for node in leaves if (leaf := fixed[leaf_ids(node)]) is not None}
    return catalyst.plans.with_leaves(analyzed, new), by_path


def _fixed_leaf(catalyst: Catalyst, leaf: LogicalPlan) -> LogicalPlan | None:
    """Return a leaf with fixed files; None to keep the leaf as it is.

    A leaf is kept if it is partitioned, if it does not read files, if its files are fixed already,
    or if they cannot be fixed.
    """
    index = catalyst.relations.index_to_fix(leaf)
    if index is None:
        return None
    try:
        listing = catalyst.relations.files_of(catalyst.relations.directories_of(index))
        files = pa.Table.from_batches([listing.files])
        files = files.set_column(0, "path", canonical_paths(files["path"]))
        none, known = pa.table({}), listing.statuses if files.num_rows else None
        return pinned_leaf(catalyst.spark, leaf, files, none, None, known, keeps_entry=True)
    except (RuntimeError, *JVM_ERRORS):  # Spark lists the files itself at run time
        _log.debug(
            "The files of %s are not fixed.", catalyst.relations.name_of(leaf), exc_info=True
        )
        return None


def fixed_scan(query: Query, scan: Scan, sites: Sequence[Site]) -> LogicalPlan | None:
    """Return a scan with fixed files for a partitioned table that no keys prune.

    Return None if its files cannot be fixed.

    Raises:
        LocationNotAllowed: if the table has files outside of ``allowed_locations``.
        MissingPartition: if a partition's directory does not exist and ``missing_partition`` is
            set to ``error``.
    """
    if not sites:
        return None  # the optimizer has dropped the scan
    if not sampled_leaves(query.analyzed_tree).isdisjoint(scan.paths):
        return None  # a sample depends on the order of the files
    try:
        return scan.fixed(sites, query.optimized)
    except (LocationNotAllowed, MissingPartition):
        raise
    except (SplitlibError, RuntimeError, *JVM_ERRORS):  # Spark lists the files itself at run time
        _log.debug("The files of %s are not fixed.", scan.name, exc_info=True)
        return None


def listed_later(
    query: Query,
    outcomes: Collection[ScanOutcome],
    sites: PrunedSites,
    dead: Mapping[Path, LogicalPlan],
    copied: Collection[Scan],
) -> tuple[str, ...]:
    """Return the names of the tables whose files Spark lists when the query runs."""
    read = {one.scan for one in sites.values()}.union(copied)
    found = [
        outcome.scan.name
        for outcome in outcomes
        if outcome.scan.is_listed and outcome.instead is None and outcome.scan in read
    ]
    catalyst = query.catalyst
    sampled = sampled_leaves(query.analyzed_tree)
    for node in query.analyzed_tree.walk():
        is_listed = node.kind == "HiveTableRelation" or (
            node.path in sampled and node.kind == "LogicalRelation"
        )
        if is_listed and node.path not in dead:
            leaf = catalyst.plans.node(query.analyzed, node.path)
            found.append(catalyst.relations.name_of(leaf))
    return tuple(dict.fromkeys(found))


def without_other_files(
    catalyst: Catalyst,
    node: LogicalPlan,
    config: SplitConfig,
    keys: Sequence[DynamicFilteringData],
    report: Report,
) -> tuple[LogicalPlan, Report]:
    """Return a scan without the files whose footers exclude all keys, and its report.

    The engine decides whether reading footers pays. The scan stays as it is if it does not, and if
    the files cannot be replaced.

    Args:
        catalyst: Access to the plans of the session.
        node: A scan of a fixed list of Parquet files.
        config: Settings.
        keys: Join keys, under the names of the table's columns.
        report: Report on the scan.
    """
    depth, leaf = 0, node
    while not leaf.children().isEmpty():
        depth, leaf = depth + 1, leaf.children().head()
    index = catalyst.relations.listed_index_of(leaf)
    if index is None or not config.learn_statistics:
        return node, report
    try:
        relation = ListedTable(catalyst, leaf, index)
        table = table_of(catalyst.spark, report.table, relation, config)
        enumerator = DynamicFileEnumerator(table, config)
        for data in keys:
            enumerator.set_dynamic_filtering_data(data)
        selected = list(enumerator.select_files())
        found = enumerator.explain()
        if not enumerator.metrics.files_dropped.get("footers"):
            return node, report
        files = analyzed_plan(relation.scan_of_files(selected))
        node = catalyst.plans.replaced(node, {(0,) * depth: files})
    except (SplitlibError, RuntimeError, pa.ArrowException, *JVM_ERRORS):
        _log.debug("Files of %s could not be dropped by footers.", report.table, exc_info=True)
        return node, report
    size = Count(found.nbytes.matched, report.nbytes.total)
    requests = report.storage_requests + enumerator.metrics.footers_read
    report = replace(
        report,
        files=found.files,
        row_groups=found.row_groups,
        nbytes=size,
        storage_requests=requests,
    )
    return node, report
