"""Drop files of a fixed scan by join keys of data columns, before Spark plans tasks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.errors import SplitlibError
from splitlib.filtering.data import DynamicFilteringData
from splitlib.redaction import get_logger
from splitlib.report import Count, Report
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.session_catalog.connector import table_of
from splitlib.spark.session_catalog.relation import ListedTable

_log = get_logger(__name__)


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
