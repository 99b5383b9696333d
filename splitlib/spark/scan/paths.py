"""Read explicit files with Spark's public API only, for Spark Connect and any Spark version."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf
from pyspark.sql.types import (
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
    TimestampNTZType,
    TimestampType,
)

from splitlib.errors import ConfigError
from splitlib.spark.file_scan import FILE_ITSELF, canonical_paths
from splitlib.spark.local_rows import typed_columns
from splitlib.spark.schema import char_length
from splitlib.spark.sql_text import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

    from splitlib.spark.file_scan import FileScan

_FILE: Final = "__splitlib_file"
# A literal per type that Spark can cast to the type without producing null.
_ZEROS: Final[dict[type, bool | int | str | date | Decimal]] = {
    **dict.fromkeys((ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType), 0),
    BooleanType: False,
    DateType: date(1970, 1, 1),
    DecimalType: Decimal(0),
    StringType: "",
    TimestampNTZType: date(1970, 1, 1),
    TimestampType: date(1970, 1, 1),
}
# Setting: formats that Spark reads through its v1 interface, which provides `_metadata`.
_OLDER_SOURCES: Final = "spark.sql.sources.useV1SourceList"


def paths_scan(spark: SparkSession, scan: FileScan) -> DataFrame:
    """Return the rows of the scan, read from a list of paths.

    Spark stats and lists every path during this call. Partition values are joined by file path. A
    row from a file without a partition fails the query.

    Raises:
        ConfigError: if Spark reads the format without the hidden column that names the file.
        RuntimeError: if Spark would read other files than the given ones.
        ValueError: for a scan that finds columns by field id.
    """
    if scan.by_field_id:
        raise ValueError("Spark's public reader finds columns by name")
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
            f"Spark cannot show the file of a row, because {_OLDER_SOURCES} lacks {scan.format}.",
            hint=f"add {scan.format} to it, or set spark_scan to 'auto' on a classic session.",
        )


def with_row_index(rows: DataFrame, name: str) -> DataFrame:
    """Add a column with the position of each row in its file."""
    return rows.withColumn(name, rows.metadataColumn("_metadata")["row_index"])


def without_globs(paths: pa.Array) -> list[str]:
    """Escape glob characters in paths, because Spark's readers expand globs."""
    # The option `__globPaths__=false` would also work, but not on Spark Connect.
    literal: list[str] = pc.replace_substring_regex(paths, r"([\[\]{}*?\\])", r"\\\1").to_pylist()
    return literal


def _as_spark_spells(rows: DataFrame, paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the URI-encoded form of each path, as in Spark's ``_metadata.file_path``."""
    # inputFiles has `file:///`, the metadata column has `file:/`.
    encoded = canonical_paths(pa.array(rows.inputFiles(), pa.string()))
    read = [unquote(uri) for uri in encoded.to_pylist()]
    if differing := set(read) ^ set(paths.to_pylist()):
        msg = f"Spark would not read exactly the given files; they differ in {min(differing)!r}"
        raise RuntimeError(msg)
    return encoded.take(pc.index_in(paths, pa.array(read, pa.string())))


def with_partition_columns(
    rows: DataFrame, keys: DataFrame, schema: StructType, row_index: str | None = None
) -> DataFrame:
    """Join rows with their partition columns. A row whose file has no partition fails the query.

    Args:
        rows: Rows of files, with Spark's hidden metadata column.
        keys: Partition columns, then the file's encoded path. A file in several partitions has
            several rows.
        schema: The partition columns.
        row_index: Name of a last column with the position of each row in its file; None = no
            such column.
    """
    columns = rows.columns
    file_path = rows.metadataColumn("_metadata")["file_path"]
    own = _unused(columns)
    file, row_file = f"{own}_file", f"{own}_row_file"
    numbered = [f"{own}_key{i}" for i in range(len(schema))]
    keys = keys.toDF(*numbered, file)
    if row_index is not None:
        rows = with_row_index(rows, row_index)
    joined = rows.withColumn(row_file, file_path).join(
        sf.broadcast(keys), sf.col(row_file) == sf.col(file), "left"
    )

    def known(value: Column) -> Column:
        message = sf.concat(sf.lit("splitlib has no partition for file "), sf.col(row_file))
        return sf.when(sf.col(file).isNotNull(), value).otherwise(sf.raise_error(message))

    # Both checks are needed. Without the filter, a query of data columns only would not check.
    # With plain keys, a condition on a key would let Spark turn this into an inner join.
    return joined.where(known(sf.lit(True))).select(
        *(sf.col(quoted(name)) for name in columns),
        *(
            _declared(known(_padded(sf.col(name), field)), field).alias(
                field.name, metadata=field.metadata
            )
            for name, field in zip(numbered, schema, strict=True)
        ),
        *([] if row_index is None else [row_index]),
    )


def _declared(key: Column, field: StructField) -> Column:
    """Make a key NOT NULL if the table declares it so. A null then fails the query."""
    zero = None if field.nullable else _ZEROS.get(type(field.dataType))
    if zero is None:
        return key
    message = sf.lit(f"Partition column {field.name} is NOT NULL, but a partition has no value.")
    checked = sf.when(key.isNull(), sf.raise_error(message)).otherwise(key)
    # This literal is never used. It only makes the column non-nullable for Spark.
    return sf.coalesce(checked, sf.lit(zero).cast(field.dataType))


def _unused(columns: list[str]) -> str:
    """Return a prefix that no column name starts with."""
    beginning = "__splitlib"
    while any(name.lower().startswith(beginning) for name in columns):
        beginning += "_"
    return beginning


def _padded(column: Column, field: StructField) -> Column:
    """Pad a key of type CHAR, as Spark pads the columns of files."""
    length = char_length(field)
    if length is None:
        return column
    return sf.when(sf.length(column) < length, sf.rpad(column, length, " ")).otherwise(column)
