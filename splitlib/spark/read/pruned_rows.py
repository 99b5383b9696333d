"""Build a DataFrame from filters: select the matching files, then filter their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.report import ScanReport
from splitlib.enumeration.selected_files import SelectedFiles
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import PartitionFilter
from splitlib.model import FILE_SCHEMA
from splitlib.spark.field_ids.deletes import as_file_batch
from splitlib.spark.file_scan import foreign_storage, own_storage
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.predicates.bloom import MOST_KEYS, among
from splitlib.spark.predicates.row_filters import many_keys, row_conditions, undecided_columns
from splitlib.spark.read.known_table import relation_of_table, saying_its_table
from splitlib.spark.read.scan import scan_selected
from splitlib.spark.scan.verified import verified
from splitlib.spark.schema import spark_schema
from splitlib.spark.session_catalog.relation_table import relation_of
from splitlib.spark.time_zones import session_time_zone
from splitlib.table import Table

_LISTED_LATER: Final = "Hive's own reader lists the files of these partitions when it runs"
_NOT_FOR_TASKS: Final = "storage options do not reach Spark's tasks"
_NOT_VERIFIED: Final = "Hive's own reader does not check files, even with verify_files"
_VERIFIED: Final = "each query first checks that the files have not changed (verify_files)"


def pruned_rows(
    spark: SparkSession,
    table: Table,
    config: SplitConfig,
    filters: Sequence[DynamicFilteringData],
    static: Sequence[PartitionFilter | DynamicFilteringData],
) -> tuple[DataFrame, ScanReport]:
    """Return :func:`pruned_scan` with the table's relation added to the plan."""
    rows, report = pruned_scan(spark, table, config, filters, static)
    return saying_its_table(spark, rows, relation_of_table(spark, table)), report


def pruned_scan(
    spark: SparkSession,
    table: Table,
    config: SplitConfig,
    filters: Sequence[DynamicFilteringData],
    static: Sequence[PartitionFilter | DynamicFilteringData],
) -> tuple[DataFrame, ScanReport]:
    """Return a DataFrame over explicit files, and a report on how they were selected.

    Args:
        spark: Session to read with.
        table: The table, in the session's time zone.
        config: Settings for enumeration and scan.
        filters: Join keys. They prune files and filter rows.
        static: Conditions. They only prune files; the caller applies them to the rows.

    Raises:
        SplitlibError: as :meth:`splitlib.DynamicFileEnumerator.enumerate_splits`, and
            :func:`splitlib.spark.read.scan.scan_selected`.
    """
    enumerator = DynamicFileEnumerator(table, config, static=static)
    # Spark returns timestamps in UTC, but compares them with dates in the session's time zone.
    zone = session_time_zone(spark)
    filters = [data.in_time_zone(zone) for data in filters]
    for data in filters:
        enumerator.set_dynamic_filtering_data(data)
    relation = relation_of(table)
    if relation is not None and not relation.names_files:
        rows = relation.scan_of_partitions(enumerator.select_partitions())
        report = enumerator.explain()
        notes = (_LISTED_LATER, *((_NOT_VERIFIED,) if config.verify_files else ()))
        return rows, replace(report, notes=(*report.notes, *notes))
    selected = list(enumerator.select_files())
    columns = undecided_columns(table.metadata, selected)
    if relation is not None:
        rows = relation.scan_of_files(selected)
    else:
        rows = scan_selected(
            spark,
            table,
            spark_schema(table.metadata),
            selected,
            config.spark_scan,
            conditioned=not _tested(filters, static).isdisjoint(columns.names),
        )
    notes = _unreached(spark, table, config)
    if config.verify_files:
        rows = verified(rows, _read(selected), own_storage(table), config.spark_scan)
        notes += (_VERIFIED,)
    for condition in row_conditions(columns, filters):
        rows = rows.where(condition)
    for name, keys, or_null in many_keys(columns, filters):
        if len(keys) <= MOST_KEYS:
            rows = among(rows, name, keys, or_null=or_null, how=config.spark_scan)
    report = enumerator.explain()
    return rows, replace(report, notes=(*report.notes, *notes))


def _unreached(spark: SparkSession, table: Table, config: SplitConfig) -> tuple[str, ...]:
    """Return notes about storage options that do not reach Spark's tasks."""
    if own_storage(table) and internals_unavailable(spark, config.spark_scan) is not None:
        return (f"{_NOT_FOR_TASKS} with its public API alone",)
    if scheme := foreign_storage(table):
        return (f"{_NOT_FOR_TASKS} on {scheme}://",)
    return ()


def _tested(
    filters: Sequence[DynamicFilteringData],
    static: Sequence[DynamicFilteringData | PartitionFilter],
) -> set[str]:
    """Return the columns that filters and conditions test."""
    by_column = [part for part in static if isinstance(part, DynamicFilteringData)]
    return {name for data in (*filters, *by_column) for name in data.fields}


def _read(selected: Sequence[SelectedFiles]) -> pa.Table:
    """Return the files that Spark reads, including delete files."""
    deletes = {
        delete
        for one in selected
        for of_one in one.files.deletes_of_each()
        for delete in of_one
        if delete.kind != "vector"  # the driver reads deletion vectors
    }
    files = [one.files.files for one in selected]
    if deletes:
        files.append(as_file_batch(list(deletes)).files)
    return pa.Table.from_batches(files, FILE_SCHEMA)
