"""Create Spark relations over a fixed list of files, and count the files that a query would read.

Such a relation is called a pinned scan. Creating it lists no directory and opens no file. Its file
index comes from :mod:`splitlib.spark.jvm.file_index`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from splitlib.spark.conversion import session_time_zone, typed_columns
from splitlib.spark.file_scan import PINNED_OPTIONS, FileScan
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.file_index import files_in, index_of_directory, pinned_index
from splitlib.spark.jvm.gateway import (
    JVM_ERRORS,
    dataframe_of_relation,
    execution_of,
    internal_rows,
    session_of,
)
from splitlib.spark.jvm.hadoop import scan_options
from splitlib.spark.jvm.java_handles import (
    FileStatus,
    ForeignObject,
    JavaArray,
    JavaClass,
    ScalaMap,
    Seq,
)
from splitlib.spark.jvm.scala import Scala, each, scala_of
from splitlib.spark.jvm.spark_handles import (
    BaseRelation,
    CatalystStruct,
    FileIndex,
    InternalRow,
    JvmSession,
    LogicalPlan,
)

_FILE_SCAN: Final = "org.apache.spark.sql.execution.FileSourceScanExec"
_TABLE_SCAN: Final = "org.apache.spark.sql.execution.datasources.v2.BatchScanExec"
_SCAN: Final = "org.apache.spark.sql.connector.read.Scan"
# Names of metrics that Iceberg scans report.
_FILES: Final = "resultDataFiles"
_BYTES: Final = "totalDataFileSize"
_BY_FIELD_ID: Final = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # Raise an error for a file without field ids. With ``true``, Spark would return null for all of
    # its columns.
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    # A struct stays non-null, even if the file has none of the requested fields.
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "false",
}
_FILE_SOURCE_V2 = "org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2"


class PlannedFiles(NamedTuple):
    """Number and total size of the files that a scan will read."""

    files: int | None = None
    """Number of files; None if the source does not report it."""
    nbytes: int | None = None
    """Total size in bytes; None if the source does not report it."""


def planned_files(catalyst: Catalyst, df: DataFrame) -> PlannedFiles:
    """Return the number and total size of the files that a query with one scan would read now.

    Spark plans the scan as it does at the start of a query. If planning fails, number and size are
    None, and the query itself will raise the error.
    """
    try:
        return _planned_files(catalyst, df)
    except JVM_ERRORS:
        return PlannedFiles()


def _planned_files(catalyst: Catalyst, df: DataFrame) -> PlannedFiles:
    execution = execution_of(df)
    leaves = each(execution.sparkPlan().collectLeaves())
    if len(leaves) != 1:
        return PlannedFiles()
    jvm, leaf = catalyst.scala.jvm, leaves[0]
    if jvm.is_a(leaf, _FILE_SCAN):
        index = leaf.relation().location()
        directories = index.listFiles(leaf.partitionFilters(), leaf.dataFilters())
        found = files_in(catalyst.scala, directories).files
        return PlannedFiles(found.num_rows, pc.sum(found["size"]).as_py() or 0)
    metrics = _metrics(catalyst, leaf) if jvm.is_a(leaf, _TABLE_SCAN) else {}
    nbytes = metrics.get(_BYTES)
    if nbytes is None:
        size = catalyst.plans.size_of(execution.optimizedPlan())
        nbytes = None if size >= catalyst.execution.unknown_size() else size
    return PlannedFiles(metrics.get(_FILES), nbytes)


def _metrics(catalyst: Catalyst, leaf: ForeignObject) -> dict[str, int]:
    """Plan a scan, and return the metrics that it reports on the driver, by name."""
    # This call makes the data source plan the scan.
    leaf.inputPartitions()
    # Call the method by reflection, since py4j does not find default methods of interfaces.
    report = catalyst.scala.functions.calling(_SCAN, "reportDriverMetrics")
    metrics: JavaArray[ForeignObject] = catalyst.scala.mapped(
        catalyst.scala.seq([leaf.scan()]), report
    ).head()
    return {str(metric.name()): int(metric.value()) for metric in metrics}


def pinned_relation(spark: SparkSession, scan: FileScan, name: str | None = None) -> BaseRelation:
    """Return a ``HadoopFsRelation`` that reads the files of a scan.

    Args:
        spark: A session with access to Spark's internals.
        scan: The files to read, with their columns, format and options.
        name: A unique name for the scan; None to use a digest of the files and partitions.

    Raises:
        RuntimeError: if Spark would not read exactly these files.
    """
    scala, session = scala_of(spark), session_of(spark)
    keys = session.parseDataType(scan.partition_schema.json())
    rows: JavaArray[InternalRow] | None = None
    if scan.partition_schema.fields:
        rows = internal_rows(typed_columns(spark, scan.partitions, scan.partition_schema))
    name = name or _digest(
        spark, scan.files, scan.partitions, f"{scan.partition_schema.json()} {scan.by_field_id}"
    )
    return relation_of_index(
        scala,
        pinned_index(scala, session, scan.files, keys, rows, name),
        keys,
        session.parseDataType(scan.data_schema.json()).asNullable(),
        scan.format,
        scan.options,
        _own_storage(scan),
        _finding_by_id(session) if scan.by_field_id else session,
    )


def pinned_leaf(
    catalyst: Catalyst,
    leaf: LogicalPlan,
    files: pa.Table,
    partitions: pa.Table,
    rows: JavaArray[InternalRow] | None,
    known: Seq[FileStatus] | None = None,
    *,
    keeps_entry: bool = False,
) -> LogicalPlan:
    """Return a copy of a ``LogicalRelation`` that reads a fixed list of files.

    Args:
        catalyst: Access to the plans of a session.
        leaf: A ``LogicalRelation`` over files. The copy has the same attributes.
        files: Files with the columns of ``FILE_SCHEMA``. ``partition`` is a row number in
            ``partitions``.
        partitions: Columns that identify each partition, for the digest that names the scan.
        rows: Partition values, an ``Array[InternalRow]``; None if the files have no partitions.
        known: Hadoop's ``FileStatus`` objects from a listing of the same files, as for
            :func:`splitlib.spark.jvm.file_index.pinned_index`; None if the files were not listed.
        keeps_entry: Whether the copy keeps the catalog entry of the leaf. Without the entry, Spark
            estimates the size from the files and not from the table's statistics.

    Raises:
        RuntimeError: if Spark would not read exactly these files.
    """
    scala, relation = catalyst.scala, leaf.relation()
    # Some settings affect how files are read, so the copy keeps the session of the relation. For
    # example, it may be a clone from :func:`_finding_by_id`, which finds columns by field id.
    session = catalyst.execution.session_of(relation)
    keys = relation.partitionSchema()
    name = _digest(catalyst.spark, files, partitions, f"{keys.json()} of a leaf")
    options = relation.options()
    for option, value in PINNED_OPTIONS.items():
        given = options.get(option)
        # Options from :func:`relation_of_index` already have this value. They stay unchanged,
        # because Hadoop settings among them would lose their case.
        if given.isEmpty() or given.get() != value:
            options = case_insensitive(scala, options).updated(option, value)
    pinned = relation.copy(
        pinned_index(scala, session, files, keys, rows, name, known),
        keys,
        relation.dataSchema(),
        relation.bucketSpec(),
        relation.fileFormat(),
        options,
        session,
    )
    new = {0: pinned} if keeps_entry else {0: pinned, 2: scala.none}
    return catalyst.plans.with_arguments(leaf, new)


def relation_of_directory(spark: SparkSession, location: str) -> DataFrame:
    """Return a DataFrame without columns over a directory. The directory is not listed.

    The DataFrame's relation is never read. It is added to plans because Spark searches them for the
    directories of their relations, for example before it overwrites a directory.
    """
    scala, session = scala_of(spark), session_of(spark)
    index = index_of_directory(scala, session, location)
    columns = session.parseDataType(StructType().json())
    relation = relation_of_index(scala, index, columns, columns, "text", {}, {}, session)
    return dataframe_of_relation(spark, relation)


def relation_of_index(
    scala: Scala,
    index: FileIndex,
    keys: CatalystStruct,
    data: CatalystStruct,
    format_name: str,
    options: Mapping[str, str],
    hadoop: Mapping[str, str],
    session: JvmSession,
) -> BaseRelation:
    """Return a ``HadoopFsRelation`` over the files of an index.

    Args:
        scala: Access to Scala's library in the session's JVM.
        index: The file index.
        keys: The ``StructType`` of the partition columns.
        data: The ``StructType`` of the columns in the files.
        format_name: Spark's short name of the file format.
        options: Options of the data source.
        hadoop: Hadoop settings for this scan, with case-sensitive names.
        session: The JVM session that reads the files, with its settings.
    """
    given = scala.map(options)
    if not hadoop:
        given = case_insensitive(scala, given)
    else:
        # Spark passes a case-insensitive map to Hadoop with lower-case names, which would break the
        # Hadoop settings. So this map is case-sensitive. It has each option twice, unchanged and in
        # lower case, because file formats may look up either form of the name.
        lower = {name.lower(): value for name, value in options.items()}
        given = scala.map({**lower, **options, **hadoop})
    new = scala.jvm.class_("org.apache.spark.sql.execution.datasources.HadoopFsRelation")
    form = _file_format(scala, format_name, session)
    relation: BaseRelation = new(index, keys, data, scala.none, form, given, session)
    return relation


def case_insensitive(scala: Scala, options: ScalaMap) -> ScalaMap:
    """Return the options as Spark's ``CaseInsensitiveMap``, a Scala ``Map``."""
    maps = scala.jvm.object_("org.apache.spark.sql.catalyst.util.CaseInsensitiveMap")
    found: ScalaMap = maps.apply(options)
    return found


def _own_storage(scan: FileScan) -> dict[str, str]:
    """Convert the scan's fsspec options to Hadoop options; empty if the scan has no options."""
    if not scan.storage:
        return {}
    found = pc.extract_regex(scan.files["path"], r"^(?P<root>[^:/]+://[^/]+)/")
    roots = pc.unique(pc.struct_field(found, "root").drop_null()).to_pylist()
    return scan_options(scan.storage, [tuple(root.split("://")) for root in roots])


def _finding_by_id(session: JvmSession) -> JvmSession:
    """Return a clone of a session that finds Parquet columns by field id.

    Spark has only session settings for this, and no data source options. A relation reads with the
    settings of the session that created it.
    """
    clone = session.cloneSession()
    for setting, value in _BY_FIELD_ID.items():
        clone.sessionState().conf().setConfString(setting, value)
    return clone


def _file_format(scala: Scala, name: str, session: JvmSession) -> ForeignObject:
    """Create the ``FileFormat`` with this short name, such as ``parquet``."""
    sources = scala.jvm.object_("org.apache.spark.sql.execution.datasources.DataSource")
    instance = _new(scala, sources.lookupDataSource(name, session.sessionState().conf()))
    # Spark's built-in formats are DataSource V2 classes, which return a V1 class as fallback.
    if scala.jvm.is_a(instance, _FILE_SOURCE_V2):
        return _new(scala, instance.fallbackFileFormat())
    return instance


def _new(scala: Scala, class_: JavaClass) -> ForeignObject:
    constructor = class_.getConstructor(scala.jvm.array("java.lang.Class", 0))
    made: ForeignObject = constructor.newInstance(scala.jvm.array("java.lang.Object", 0))
    return made


def _digest(spark: SparkSession, files: pa.Table, partitions: pa.Table, meaning: str) -> str:
    """Return a digest that is equal for two scans only if files and partition values are equal.

    The digest names the scan's root directory, by which Spark compares scans. It does not include
    data schema, format and options, because Spark compares those separately.

    Args:
        spark: The session that reads the files.
        files: The files.
        partitions: Columns that identify each partition.
        meaning: Text with everything else that affects the partition values, such as their types.
            The session's time zone is added to it.
    """
    columns = [files[name] for name in ("path", "size", "modified")]
    if partitions.num_columns:
        columns += partitions.take(files["partition"]).columns
    # The files are sorted, since several threads may have listed the partitions in any order.
    table = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
    table = table.sort_by("c0").combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    # Spark parses timestamps in partition values in the session's time zone.
    meaning = f"{meaning} {session_time_zone(spark)} "
    return hashlib.sha256(meaning.encode() + sink.getvalue().to_pybytes()).hexdigest()
