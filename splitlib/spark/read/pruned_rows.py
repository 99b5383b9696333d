"""Build a pruned DataFrame: select the files that match the filters, then filter their rows.

The plan also contains the table's own relation. Spark searches plans for tables, for example before
it overwrites one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.splitting import SelectedFiles
from splitlib.errors import UnsupportedTable
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import PartitionFilter
from splitlib.model import FILE_SCHEMA, ReadFormat, TableMetadata
from splitlib.redaction import get_logger
from splitlib.report import Count, Report
from splitlib.spark.conversion import (
    jvm_time_zone,
    partition_fields,
    quoted,
    session_time_zone,
    spark_schema,
)
from splitlib.spark.file_scan import FileScan, canonical_paths, foreign_storage, own_storage
from splitlib.spark.formats.field_id_scan import as_file_batch, scan_mapped
from splitlib.spark.formats.hive_text import (
    HADOOP_SETTINGS,
    hive_csv_columns,
    hive_text_columns,
)
from splitlib.spark.jvm.active_session import in_its_session
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import JVM_ERRORS, analyzed_plan
from splitlib.spark.jvm.pinned_relation import relation_of_directory
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.jvm.table_plans import table_at
from splitlib.spark.predicates.row_filters import (
    MOST_KEYS,
    among,
    many_keys,
    row_conditions,
    settings_in_the_way,
    undecided_columns,
)
from splitlib.spark.scan import FileGroup, scan_files, verified
from splitlib.spark.session import hadoop_settings_of, refuse_other_names
from splitlib.spark.session_catalog.connector import relation_of, session_connector
from splitlib.statistics.orc_types import of_same_type
from splitlib.table import Table

_log = get_logger(__name__)
_LINE = "__splitlib_line"
_LISTED_LATER: Final = "Hive's own reader lists the files of these partitions when it runs"
_IN_SESSION: Final = "Configure the credentials of the session for this storage."
_NOT_FOR_TASKS: Final = "storage options do not reach Spark's tasks"
_NOT_VERIFIED: Final = "Hive's own reader does not check files, even with verify_files"
_VERIFIED: Final = "each query first checks that the files have not changed (verify_files)"


@in_its_session
def relation_of_table(spark: SparkSession, table: Table) -> LogicalPlan | None:
    """Return Spark's own relation for the table, or None if Spark does not have one."""
    if table.metadata.location is None or internals_unavailable(spark) is not None:
        return None
    try:
        return _relation(Catalyst(spark), table)
    except JVM_ERRORS:
        _log.debug("Spark has no relation of %s.", table.name, exc_info=True)
        return None


def saying_its_table(
    spark: SparkSession, rows: DataFrame, relation: LogicalPlan | None
) -> DataFrame:
    """Return ``rows`` with a table's relation added to the plan, so that Spark finds the table.

    The relation is joined with a condition that is always false. So the relation is never read, and
    the optimizer removes the join early.

    Args:
        spark: Session that reads the table.
        rows: Rows of the table.
        relation: The table's relation, from :func:`relation_of_table`. If it is None, ``rows`` is
            returned unchanged.
    """
    if relation is None:
        return rows
    catalyst = Catalyst(spark)
    return catalyst.execution.dataframe(catalyst.plans.beside(analyzed_plan(rows), [relation]))


def named_by_its_table(rows: DataFrame, table: Table) -> DataFrame:
    """Return ``rows`` with columns qualified by the table's name, as in ``spark.table``.

    Args:
        rows: Rows of the table.
        table: The table. If it is not in one of the session's catalogs, ``rows`` is returned
            unchanged.
    """
    connector = session_connector(table)
    return rows if connector is None else connector.named(rows)


def _relation(catalyst: Catalyst, table: Table) -> LogicalPlan:
    """Return Spark's relation for the table, or a relation over its directory if there is none."""
    own = relation_of(table)
    if own is not None:
        return own.leaf
    place = _location(table)
    known = table_at(catalyst, table.name, place)
    return known or analyzed_plan(relation_of_directory(catalyst.spark, place))


def _location(table: Table) -> str:
    """Return the table's location as a normalized Hadoop path, as Spark compares such paths."""
    (location,) = canonical_paths(pa.array([table.metadata.location])).to_pylist()
    return str(location).rstrip("/")


def scan_selected(
    spark: SparkSession,
    table: Table,
    schema: StructType,
    selected: Iterable[SelectedFiles],
    how: str,
    *,
    conditioned: bool = False,
) -> DataFrame:
    """Return a DataFrame of the selected files' rows, as the union of one scan per read format.

    Args:
        spark: Session to read with.
        table: Table to which the files belong.
        schema: Spark schema of the table.
        selected: The selected files with their partitions.
        how: How to access Spark's internals, as for :func:`splitlib.spark.scan.scan_files`.
        conditioned: Whether the rows will be filtered by conditions on columns.

    Raises:
        UnsupportedTable: if a text SerDe has properties that splitlib does not support, and in the
            same cases as :func:`splitlib.spark.formats.field_id_scan.scan_mapped`.
    """
    if table.metadata.read_format.columns != "name":
        return scan_mapped(spark, table, selected, how, conditioned=conditioned)
    groups: dict[ReadFormat, FileGroup] = {}
    for one in selected:
        group = groups.setdefault(one.files.read_format, FileGroup())
        group.add(one.files.files, one.partitions.values)
    if not groups:  # without files, an empty scan provides the schema
        groups[table.metadata.read_format] = FileGroup()
    data = StructType([f for f in schema if f.name not in table.partition_keys])
    storage = own_storage(table)
    scans = [
        _scan(spark, table.metadata, form, group, data, how, storage)
        for form, group in groups.items()
    ]
    return reduce(DataFrame.union, scans)


def _scan(
    spark: SparkSession,
    metadata: TableMetadata,
    form: ReadFormat,
    group: FileGroup,
    data: StructType,
    how: str,
    storage: Mapping[str, Mapping[str, Any]],
) -> DataFrame:
    lines = form.name.startswith("hive-")
    nothing = pa.table({key: pa.array([], pa.string()) for key in metadata.partition_keys})
    partitions = group.values(none=nothing)
    keys = partition_fields(metadata, partitions)
    scan = FileScan(
        format="text" if lines else form.name,
        options={} if lines else dict(form.options),
        data_schema=StructType([StructField(_LINE, StringType())]) if lines else data,
        partition_schema=keys,
        partitions=partitions,
        files=group.files(),
        storage=storage,
    )
    df = scan_files(spark, scan, how)
    if not lines:
        return df
    of_session = hadoop_settings_of(spark, HADOOP_SETTINGS).items()
    properties = dict(form.options) | {name: value for name, value in of_session if value}
    try:
        if form.name == "hive-csv":
            columns = hive_csv_columns(df[_LINE], data, properties)
        else:
            zone = jvm_time_zone(spark) if "timestamp" in data.simpleString() else None
            columns = hive_text_columns(df[_LINE], data, properties, time_zone=zone)
    except ValueError as error:
        raise UnsupportedTable(f"The text files cannot be read exactly: {error}") from error
    return df.select(*columns, *(F.col(quoted(key)) for key in keys.names))


def pruned_rows(
    spark: SparkSession,
    table: Table,
    config: SplitConfig,
    filters: Sequence[DynamicFilteringData],
    static: Sequence[PartitionFilter | DynamicFilteringData],
) -> tuple[DataFrame, Report]:
    """Return the result of :func:`pruned_scan`, with the table's relation added to the plan."""
    rows, report = pruned_scan(spark, table, config, filters, static)
    return saying_its_table(spark, rows, relation_of_table(spark, table)), report


def pruned_scan(
    spark: SparkSession,
    table: Table,
    config: SplitConfig,
    filters: Sequence[DynamicFilteringData],
    static: Sequence[PartitionFilter | DynamicFilteringData],
) -> tuple[DataFrame, Report]:
    """Return a DataFrame that reads the matching files, and a report on how they were selected.

    Args:
        spark: Session to read with.
        table: The table, in the session's time zone.
        config: Settings for selecting and reading files.
        filters: Join keys. They prune files and filter rows.
        static: Conditions. They only prune files; the caller applies them to the rows.

    Raises:
        SplitlibError: in the same cases as :meth:`splitlib.DynamicFileEnumerator.enumerate_splits`
            and :func:`scan_selected`.
    """
    refuse_other_names(spark)
    # Collected timestamps are in UTC. Spark compares them with dates in the session's time zone.
    zone = session_time_zone(spark)
    filters = [data.in_time_zone(zone) for data in filters]
    enumerator = DynamicFileEnumerator(table, config, static=static, filters=filters)
    relation = relation_of(table)
    partitions = enumerator.select_partitions()
    rows = None if relation is None else relation.scan_of_partitions(partitions)
    if rows is not None:
        report = enumerator.explain()
        notes = (_LISTED_LATER, *((_NOT_VERIFIED,) if config.verify_files else ()))
        notes = (*report.notes, *notes)
        return rows, replace(report, files=Count(), nbytes=Count(), notes=notes)
    with enumerator.progress():
        selected = list(enumerator.select_files())
    columns = undecided_columns(spark, table.metadata, selected)
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
    report = enumerator.explain()
    handed_on, report = _handed_on(table, selected, columns, filters, config, report)
    rows, more = _conditioned(spark, table.metadata, selected, rows, handed_on, filters)
    for name, keys, or_null in many_keys(columns, filters):
        if len(keys) <= MOST_KEYS:
            rows = among(rows, name, keys, or_null=or_null, how=config.spark_scan)
    return rows, replace(report, notes=(*report.notes, *notes, *more))


def _handed_on(
    table: Table,
    selected: Sequence[SelectedFiles],
    columns: pa.Schema,
    filters: Sequence[DynamicFilteringData],
    config: SplitConfig,
    report: Report,
) -> tuple[pa.Schema, Report]:
    """Return the columns to filter by keys in Spark's file reader, and the report.

    A column is left out if its type in an ORC file may differ from the table's. The report then has
    a note on it.
    """
    names = {name.lower() for name in _tested(filters, ())}
    tested = pa.schema([column for column in columns if column.name.lower() in names])
    orc = [one.files.files for one in selected if one.files.read_format.name == "orc"]
    if not orc:
        return tested, report
    files = pa.Table.from_batches(orc, FILE_SCHEMA)
    same = of_same_type(table, files, tested, config)
    report = replace(report, storage_requests=report.storage_requests + same.files_read)
    if others := ", ".join(name for name in tested.names if name not in same.columns.names):
        note = f"the ORC reader gets no keys of {others}, which {same.reason}"
        report = replace(report, notes=(*report.notes, note))
    return same.columns, report


def _conditioned(
    spark: SparkSession,
    metadata: TableMetadata,
    selected: Sequence[SelectedFiles],
    rows: DataFrame,
    columns: pa.Schema,
    filters: Sequence[DynamicFilteringData],
) -> tuple[DataFrame, tuple[str, ...]]:
    """Return ``rows`` filtered by conditions made from join keys, and notes for the report.

    The notes name settings that prevent Spark from skipping parts of files by the conditions.
    """
    form = metadata.read_format.name
    # A partition may have another format than the table.
    formats = {form, *(one.files.read_format.name for one in selected)}
    floats = formats == {"parquet"} and not metadata.has_statistics
    conditions = list(row_conditions(spark, columns, filters, floats=floats))
    if not conditions:
        return rows, ()
    return reduce(DataFrame.where, conditions, rows), settings_in_the_way(spark, form, columns)


def _unreached(spark: SparkSession, table: Table, config: SplitConfig) -> tuple[str, ...]:
    """Return notes on storage options that cannot be passed to Spark's tasks."""
    if own_storage(table) and internals_unavailable(spark, config.spark_scan) is not None:
        return (f"{_NOT_FOR_TASKS} with its public API alone. {_IN_SESSION}",)
    if scheme := foreign_storage(table):
        return (f"{_NOT_FOR_TASKS} on {scheme}://. {_IN_SESSION}",)
    return ()


def _tested(
    filters: Sequence[DynamicFilteringData],
    static: Sequence[DynamicFilteringData | PartitionFilter],
) -> set[str]:
    """Return the names of the columns that filters and conditions test."""
    by_column = [part for part in static if isinstance(part, DynamicFilteringData)]
    return {name for data in (*filters, *by_column) for name in data.fields}


def _read(selected: Sequence[SelectedFiles]) -> pa.Table:
    """Return a table of the files that Spark reads, including delete files."""
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
