"""Relations of Spark's own over files that are known: nothing is listed, opened or stat'ed.

See :mod:`splitlib.spark.jvm.file_index` for how.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from splitlib.spark.jvm.dataframes import dataframe_of_relation, internal_rows
from splitlib.spark.jvm.file_index import index_of_directory, pinned_index
from splitlib.spark.jvm.hadoop_options import scan_options
from splitlib.spark.jvm.plans import Plans
from splitlib.spark.jvm.scala import Scala, scala_of
from splitlib.spark.local_rows import typed_columns
from splitlib.spark.time_zones import session_time_zone

if TYPE_CHECKING:
    from splitlib.spark.file_scan import FileScan

PINNED_OPTIONS: Final = {"ignoreMissingFiles": "false"}
"""Options of every pinned scan: a file that has gone is an error, whatever the session says."""

_BY_FIELD_ID: Final = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # a file without identifiers is an error, not a file of nulls
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    # a struct is not null for having only fields that its file lacks
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "false",
}
_FILE_SOURCE_V2 = "org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2"


def pinned_relation(spark: SparkSession, scan: FileScan, name: str | None = None) -> Any:
    """The scan as Spark's ``HadoopFsRelation``.

    Args:
        spark: A session whose internals are available.
        scan: What to read.
        name: What tells it from other scans; None = what it reads.

    Raises:
        RuntimeError: if Spark would read other files than those.
    """
    scala, session = scala_of(spark), spark._jsparkSession
    keys = session.parseDataType(scan.partition_schema.json()).asNullable()
    rows = None
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
        with_pinned_options(scan.options),
        _own_storage(scan),
        _finding_by_id(session) if scan.by_field_id else session,
    )


def pinned_leaf(
    spark: SparkSession,
    leaf: Any,
    files: pa.Table,
    partitions: pa.Table,
    rows: Any,
    known: Any = None,
) -> Any:
    """A ``LogicalRelation`` over given files, otherwise the same.

    Args:
        spark: A session whose internals are available; it reads.
        leaf: A ``LogicalRelation`` of files, whose attributes are kept.
        files: Columns of ``FILE_SCHEMA``; ``partition`` is a row of ``partitions``.
        partitions: What tells the values of one partition from those of another.
        rows: The values, an ``Array[InternalRow]``; None = the files have no partitions.
        known: As for :func:`splitlib.spark.jvm.file_index.pinned_index`.

    Raises:
        RuntimeError: if Spark would read other files than those.
    """
    scala, session, relation = scala_of(spark), spark._jsparkSession, leaf.relation()
    keys = relation.partitionSchema()
    name = _digest(spark, files, partitions, f"{keys.json()} of a leaf")
    options = case_insensitive(scala, relation.options())
    for option, value in PINNED_OPTIONS.items():
        options = options.updated(option, value)
    pinned = relation.copy(
        pinned_index(scala, session, files, keys, rows, name, known),
        keys,
        relation.dataSchema(),
        relation.bucketSpec(),
        relation.fileFormat(),
        options,
        session,
    )
    # without the table's entry its size is that of the files that are left
    return Plans(scala).with_arguments(leaf, {0: pinned, 2: scala.none})


def relation_of_directory(spark: SparkSession, location: str) -> DataFrame:
    """A relation of whatever is in a directory, which it does not look into; no columns.

    It is for Spark to find in a plan, not for being read.
    """
    scala, session = scala_of(spark), spark._jsparkSession
    index = index_of_directory(scala, session, location)
    columns = session.parseDataType(StructType().json())
    relation = relation_of_index(scala, index, columns, columns, "text", {}, {}, session)
    return dataframe_of_relation(spark, relation)


def relation_of_index(
    scala: Scala,
    index: Any,
    keys: Any,
    data: Any,
    format_name: str,
    options: Mapping[str, str],
    hadoop: Mapping[str, str],
    session: Any,
) -> Any:
    """A ``HadoopFsRelation`` of the files of an index.

    Args:
        scala: Of the session's JVM.
        index: With its files.
        keys: The ``StructType`` of the partition columns.
        data: The ``StructType`` of what is in the files.
        format_name: Spark's short name.
        options: Of the data source.
        hadoop: Hadoop's settings for this scan, whose names know case.
        session: Spark's, with whose settings they are read.
    """
    given = scala.map(options)
    if not hadoop:
        given = case_insensitive(scala, given)
    else:
        # Spark hands a map that knows no case to Hadoop in lower case. In this one a format that
        # does not mind the case itself finds its options by the name given, or in lower case.
        lower = {name.lower(): value for name, value in options.items()}
        given = scala.map({**lower, **options, **hadoop})
    return scala.jvm.class_("org.apache.spark.sql.execution.datasources.HadoopFsRelation")(
        index,
        keys,
        data,
        scala.none,
        _file_format(scala, format_name, session),
        given,
        session,
    )


def case_insensitive(scala: Scala, options: Any) -> Any:
    """A Scala ``Map`` of options as Spark has them, whose names know no case."""
    maps = scala.jvm.object_("org.apache.spark.sql.catalyst.util.CaseInsensitiveMap")
    return maps.apply(options)


def with_pinned_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options of a data source, whose names know no case, with those of a pinned scan."""
    pinned = {name.lower() for name in PINNED_OPTIONS}
    return {k: v for k, v in options.items() if k.lower() not in pinned} | PINNED_OPTIONS


def _own_storage(scan: FileScan) -> dict[str, str]:
    """Options for the files of a store that are reached otherwise than the session does."""
    if not scan.storage:
        return {}
    found = pc.extract_regex(scan.files["path"], r"^(?P<root>[^:/]+://[^/]+)/")
    roots = pc.unique(pc.struct_field(found, "root").drop_null()).to_pylist()
    return scan_options(scan.storage, [tuple(root.split("://")) for root in roots])


def _finding_by_id(session: Any) -> Any:
    """A session that finds Parquet columns by identifier, which only a session can be told.

    A relation reads with the settings of the session it is made with, so that those of ``session``
    that matter to the reader hold as they are now.
    """
    clone = session.cloneSession()
    for setting, value in _BY_FIELD_ID.items():
        clone.sessionState().conf().setConfString(setting, value)
    return clone


def _file_format(scala: Scala, name: str, session: Any) -> Any:
    """A new ``FileFormat`` of this short name."""
    sources = scala.jvm.object_("org.apache.spark.sql.execution.datasources.DataSource")
    instance = _new(scala, sources.lookupDataSource(name, session.sessionState().conf()))
    # built-in formats are registered by their newer interface, which knows the older one
    if scala.jvm.is_a(instance, _FILE_SOURCE_V2):
        return _new(scala, instance.fallbackFileFormat())
    return instance


def _new(scala: Scala, class_: Any) -> Any:
    constructor = class_.getConstructor(scala.jvm.array("java.lang.Class", 0))
    return constructor.newInstance(scala.jvm.array("java.lang.Object", 0))


def _digest(spark: SparkSession, files: pa.Table, partitions: pa.Table, meaning: str) -> str:
    """A text that two scans share only if they read the same files to the same partition values.

    Schemas of the data, format and options are no part of it: Spark itself compares those.

    Args:
        spark: The session that reads.
        files: The files.
        partitions: What tells the values of partitions apart.
        meaning: What these become values by, besides the session's time zone.
    """
    columns = [files[name] for name in ("path", "size", "modified")]
    if partitions.num_columns:
        columns += partitions.take(files["partition"]).columns
    # without its order, in which partitions may have been listed by several threads
    table = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
    table = table.sort_by("c0").combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    # text becomes an instant in the session's zone
    meaning = f"{meaning} {session_time_zone(spark)} "
    return hashlib.sha256(meaning.encode() + sink.getvalue().to_pybytes()).hexdigest()
