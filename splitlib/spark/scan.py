"""Read a fixed list of files as a DataFrame, through Spark's internals or its public API.

The scan through Spark's internals is called a pinned scan. With ``verify_files``, the query first
compares the current size and modification time of each file with the listed ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from splitlib.errors import ConfigError
from splitlib.model import FILE_SCHEMA
from splitlib.spark.compat import NULL_STRUCTS, if_empty, metadata_column, setting_of
from splitlib.spark.conversion import char_length, pads_char, quoted, typed_columns
from splitlib.spark.file_scan import FILE_ITSELF, FileScan, canonical_paths
from splitlib.spark.jvm.active_session import hadoop_settings
from splitlib.spark.jvm.gateway import dataframe_of_relation
from splitlib.spark.jvm.pinned_relation import pinned_relation
from splitlib.spark.jvm.probe import internals_unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession


_FILE: Final = "__splitlib_file"
# A literal for each type, which Spark can cast to the type without producing null.
_ZEROS: Final[dict[type, bool | int | str | date | Decimal]] = {
    **dict.fromkeys((ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType), 0),
    BooleanType: False,
    DateType: date(1970, 1, 1),
    DecimalType: Decimal(0),
    StringType: "",
    TimestampNTZType: date(1970, 1, 1),
    TimestampType: date(1970, 1, 1),
}
# Setting that lists the formats that Spark reads through its v1 interface, which provides
# `_metadata`.
_OLDER_SOURCES: Final = "spark.sql.sources.useV1SourceList"
_COLUMNS: Final = StructType(
    [
        StructField("path", StringType()),
        StructField("modificationTime", TimestampType()),
        StructField("length", LongType()),
        StructField("content", BinaryType()),  # no query selects this column
    ]
)
_SIZE: Final = "__splitlib_size"
_MODIFIED: Final = "__splitlib_modified"


@dataclass(slots=True)
class FileGroup:
    """The files of one scan, with the partition values of their rows."""

    _files: list[pa.Table] = field(default_factory=list)
    _values: list[pa.Table] = field(default_factory=list)
    _partitions: int = 0

    def add(self, files: pa.RecordBatch, values: pa.RecordBatch) -> None:
        """Add files whose ``partition`` is a row number in ``values``.

        If ``values`` has no columns, all files of the group share one partition.
        """
        used = pc.unique(files["partition"])
        if values.num_columns:
            row = pc.index_in(files["partition"], value_set=used).cast(pa.int64())
            row = pc.add(row, self._partitions)
            self._partitions += len(used)
            self._values.append(pa.table(values.take(used)))
        else:
            row = pa.repeat(pa.scalar(0, pa.int64()), len(files))
        self._files.append(pa.table([*files.columns[:3], row], schema=FILE_SCHEMA))

    def files(self) -> pa.Table:
        """Return all files. Their ``partition`` is a row number in :meth:`values`."""
        return pa.concat_tables([FILE_SCHEMA.empty_table(), *self._files])

    def values(self, none: pa.Table) -> pa.Table:
        """Return the partition values, one row per partition; ``none`` if no values were added."""
        return pa.concat_tables(self._values) if self._values else none


def pinned_scan(spark: SparkSession, scan: FileScan) -> DataFrame:
    """Return a DataFrame of the scan's files. Each file is opened only by the tasks that read it.

    Raises:
        RuntimeError: if Spark would not read exactly the files of the scan.
    """
    rows = dataframe_of_relation(spark, pinned_relation(spark, scan))
    return rows if scan.row_index is None else with_row_index(rows, scan.row_index)


def paths_scan(spark: SparkSession, scan: FileScan) -> DataFrame:
    """Return a DataFrame of the scan's files, by passing their paths to Spark's public reader.

    Spark requests the status of every path during this call. The partition values are joined to the
    rows by file path. The query raises an error for a row whose file has no partition.

    Raises:
        ConfigError: if Spark reads the format without the hidden column that contains the file
            path.
        RuntimeError: if Spark would not read exactly the files of the scan.
        ValueError: if the scan finds columns by field id.
    """
    if scan.by_field_id:
        raise ValueError("Spark's public reader cannot find columns by field id")
    _refuse_newer_sources(spark, scan)
    rows = (
        spark.read.format(scan.format)
        .schema(scan.data_schema)
        .options(**scan.options)
        # `k=v` directories must not add partition columns.
        .options(recursiveFileLookup="true")
        .load(without_globs(pc.unique(scan.files["path"])))
    )
    spelled = _as_spark_spells(rows, scan.files["path"])
    index = scan.row_index
    if not scan.partition_schema.fields:
        return rows if index is None else with_row_index(rows, index)
    values = scan.partitions.take(scan.files["partition"])
    keys = typed_columns(spark, values, scan.partition_schema, **{_FILE: spelled})
    return with_partition_columns(rows, keys, scan.partition_schema, index)


def _refuse_newer_sources(spark: SparkSession, scan: FileScan) -> None:
    older = str(spark.conf.get(_OLDER_SOURCES)).lower().replace(" ", "").split(",")
    older.append(FILE_ITSELF)  # binaryFile always uses the v1 interface
    if scan.format not in older and (scan.partition_schema.fields or scan.row_index is not None):
        raise ConfigError(
            f"Spark cannot return each row's file, because {_OLDER_SOURCES} lacks {scan.format}.",
            hint=f"add {scan.format} to it, or set spark_scan to 'auto' on a classic session.",
        )


def with_row_index(rows: DataFrame, name: str) -> DataFrame:
    """Return ``rows`` with a column for the position of each row in its file, starting at 0."""
    return rows.withColumn(name, metadata_column(rows, "_metadata")["row_index"])


def without_globs(paths: pa.Array) -> list[str]:
    """Escape glob characters in paths, because Spark's readers expand globs."""
    # The option `__globPaths__=false` would turn off globs, but has no effect on Spark Connect.
    literal: list[str] = pc.replace_substring_regex(paths, r"([\[\]{}*?\\])", r"\\\1").to_pylist()
    return literal


def _as_spark_spells(rows: DataFrame, paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the URI-encoded form of each path, as in Spark's ``_metadata.file_path``."""
    # A local path starts with `file:///` in inputFiles, but with `file:/` in the metadata column.
    encoded = canonical_paths(pa.array(rows.inputFiles(), pa.string()))
    read = [unquote(uri) for uri in encoded.to_pylist()]
    if differing := set(read) ^ set(paths.to_pylist()):
        msg = f"Spark would not read exactly the given files. One difference: {min(differing)!r}"
        raise RuntimeError(msg)
    return encoded.take(pc.index_in(paths, pa.array(read, pa.string())))


def with_partition_columns(
    rows: DataFrame, keys: DataFrame, schema: StructType, row_index: str | None = None
) -> DataFrame:
    """Join rows with their partition columns. A row whose file has no partition raises an error.

    Args:
        rows: Rows of the files, with Spark's hidden metadata column.
        keys: Partition columns, followed by the file's URI-encoded path. A file in several
            partitions has several rows.
        schema: Names and types of the partition columns.
        row_index: Name of an additional last column with the position of each row in its file, or
            None to add no such column.
    """
    columns = rows.columns
    file_path = metadata_column(rows, "_metadata")["file_path"]
    own = _unused(columns)
    file, row_file = f"{own}_file", f"{own}_row_file"
    numbered = [f"{own}_key{i}" for i in range(len(schema))]
    keys = keys.toDF(*numbered, file)
    pads = pads_char(rows.sparkSession)
    if row_index is not None:
        rows = with_row_index(rows, row_index)
    joined = rows.withColumn(row_file, file_path).join(
        F.broadcast(keys), F.col(row_file) == F.col(file), "left"
    )

    def known(value: Column) -> Column:
        message = F.concat(F.lit("splitlib has no partition for file "), F.col(row_file))
        return F.when(F.col(file).isNotNull(), value).otherwise(F.raise_error(message))

    # The rows and the keys are both checked. Without the check in the filter, a query that reads
    # only data columns would have no check. Without the check in the keys, a condition on a key
    # would make Spark use an inner join, which silently drops the rows.
    return joined.where(known(F.lit(True))).select(
        *(F.col(quoted(name)) for name in columns),
        *(
            _declared(known(_padded(F.col(name), field, pads=pads)), field).alias(
                field.name, metadata=field.metadata
            )
            for name, field in zip(numbered, schema, strict=True)
        ),
        *([] if row_index is None else [row_index]),
    )


def _declared(key: Column, field: StructField) -> Column:
    """Make a partition column NOT NULL if ``field`` is, so that a null raises an error."""
    zero = None if field.nullable else _ZEROS.get(type(field.dataType))
    if zero is None:
        return key
    message = F.lit(f"Partition column {field.name} is NOT NULL, but a partition has no value.")
    checked = F.when(key.isNull(), F.raise_error(message)).otherwise(key)
    # The literal is never returned. It only lets Spark see that the column is not nullable.
    return F.coalesce(checked, F.lit(zero).cast(field.dataType))


def _unused(columns: list[str]) -> str:
    """Return a prefix that no column name starts with."""
    beginning = "__splitlib"
    while any(name.lower().startswith(beginning) for name in columns):
        beginning += "_"
    return beginning


def _padded(column: Column, field: StructField, *, pads: bool) -> Column:
    """Pad a partition column of type CHAR with blanks, if Spark pads the columns in files."""
    length = char_length(field) if pads else None
    if length is None:
        return column
    return F.when(F.length(column) < length, F.rpad(column, length, " ")).otherwise(column)


def verified(
    rows: DataFrame, files: pa.Table, storage: Mapping[str, Mapping[str, Any]], how: str
) -> DataFrame:
    """Return ``rows`` with a check that raises an error if a file has changed since its listing.

    If the same DataFrame is run again, Spark reuses the result of the first check.

    Args:
        rows: Rows of the files.
        files: Columns ``path``, ``size`` in bytes, and ``modified`` in milliseconds since the
            epoch. An unknown time is 0, and is not compared. A path may occur several times.
        storage: Storage options, as in :class:`splitlib.spark.file_scan.FileScan`.
        how: ``auto``, ``pinned`` or ``paths``, as in :func:`splitlib.spark.scan.scan_files`.
    """
    of_each = files.group_by("path").aggregate([("size", "max"), ("modified", "max")])
    if not of_each.num_rows:
        return rows
    path, size, modified = (of_each[c] for c in ("path", "size_max", "modified_max"))
    number = pa.array(range(of_each.num_rows), pa.int64())
    scan = FileScan(
        format=FILE_ITSELF,
        options={},
        data_schema=_COLUMNS,
        partition_schema=StructType(
            [StructField(_SIZE, LongType()), StructField(_MODIFIED, LongType())]
        ),
        partitions=pa.table({_SIZE: size, _MODIFIED: modified}),
        # Files get the size 1, so that Spark packs many of them into one task. Empty files keep the
        # size 0, because scans skip them.
        files=pa.table([path, pc.min_element_wise(size, 1), modified, number], schema=FILE_SCHEMA),
        storage=storage,
    )
    changed = scan_files(rows.sparkSession, scan, how).where(_is_changed())
    return if_empty(rows, changed)


def _is_changed() -> Column:
    """Return a condition that raises an error for a changed file, and is false for other files."""
    size, listed_size = F.col("length"), F.col(_SIZE)
    time, listed_time = F.unix_millis("modificationTime"), F.col(_MODIFIED)
    # Storage clients round times up or down, and some report only whole seconds.
    same_time = [F.abs(time - listed_time) <= 1, listed_time == 0]
    in_seconds = (time % 1000 == 0) | (listed_time % 1000 == 0)
    same_time.append(in_seconds & (F.floor(time / 1000) == F.floor(listed_time / 1000)))
    return (
        F.when(size != listed_size, _error("size", listed_size, size, " bytes"))
        .when(
            ~reduce(or_, same_time),
            _error(
                "modification time", F.timestamp_millis(listed_time), F.col("modificationTime"), ""
            ),
        )
        .otherwise(F.lit(False))
    )


def _error(what: str, listed: Column, found: Column, unit: str) -> Column:
    message = F.concat(
        F.col("path"),
        F.lit(f" has changed since it was listed: its {what} was "),
        listed.cast("string"),
        F.lit(f"{unit} and is "),
        found.cast("string"),
        F.lit(f"{unit}. Load the table again, or use splitlib.replan."),
    )
    return F.raise_error(message).cast("boolean")


def scan_files(spark: SparkSession, scan: FileScan, how: str = "auto") -> DataFrame:
    """Return a DataFrame of the scan's files: nullable data columns, then the partition columns.

    Paths with the scheme ``s3`` or ``s3n`` are read with the file system for ``s3a``, unless the
    session configures a file system for their own scheme.

    Args:
        spark: Session to read with.
        scan: The files to read.
        how: ``pinned`` requires Spark's internals, and makes no storage request before tasks read
            the files. ``paths`` uses only the public API. ``auto`` uses ``pinned`` if the internals
            are available, or else ``paths``.

    Raises:
        ConfigError: if ``how`` is ``pinned`` and Spark's internals are not available.
    """
    why_not = internals_unavailable(spark, how)
    if how == "pinned" and why_not is not None:
        raise ConfigError(
            f"spark_scan='pinned' is not available: {why_not}.", hint="use spark_scan='auto'."
        )
    scan = replace(scan, files=_with_known_schemes(spark, scan.files))
    return pinned_scan(spark, scan) if why_not is None else paths_scan(spark, scan)


def why_no_field_ids(spark: SparkSession, how: str) -> str | None:
    """Return why :func:`scan_files` cannot find columns by field id, or None if it can."""
    why_not = internals_unavailable(spark, how)
    if why_not is not None:
        return why_not
    # For columns found by field id, Spark 3.5 and 4.0 use the file's types instead of the schema's.
    # They also read a struct as null if the file has none of its fields. The setting was added in
    # the release that handles both cases correctly.
    is_right = setting_of(spark, NULL_STRUCTS) is not None
    return None if is_right else "this Spark version reads them incorrectly"


def _with_known_schemes(spark: SparkSession, files: pa.Table) -> pa.Table:
    paths = files["path"]
    for scheme in ("s3", "s3n"):
        old = pc.starts_with(paths, f"{scheme}:")
        if pc.any(old).as_py() and not _has_file_system(spark, scheme):
            paths = pc.replace_substring_regex(paths, f"^{scheme}:", "s3a:")
    return files.set_column(0, FILE_SCHEMA.field("path"), paths)


def _has_file_system(spark: SparkSession, scheme: str) -> bool:
    """Return whether Hadoop's configuration names a file system for a scheme."""
    name = f"fs.{scheme}.impl"
    if internals_unavailable(spark) is None:
        return bool(hadoop_settings(spark, [name]))
    return spark.conf.get(f"spark.hadoop.{name}", None) is not None
