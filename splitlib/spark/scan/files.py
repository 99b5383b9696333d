"""Choose how Spark reads exactly the given files: pinned, or by their paths."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import ConfigError
from splitlib.model import FILE_SCHEMA
from splitlib.spark.file_scan import FileScan
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.session_settings import hadoop_settings
from splitlib.spark.scan.paths import paths_scan
from splitlib.spark.scan.pinned import pinned_scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def scan_files(spark: SparkSession, scan: FileScan, how: str = "auto") -> DataFrame:
    """Return the rows of the scan: nullable data columns, then the partition columns as given.

    Paths with scheme ``s3`` or ``s3n`` are read with the file system for ``s3a``, unless the
    session configures one for them.

    Args:
        spark: Session to read with.
        scan: The files to read.
        how: ``pinned`` never lists or stats a file but needs Spark's internals. ``paths`` uses
            the public API only. ``auto`` uses ``pinned`` if the internals are available.

    Raises:
        ConfigError: for ``pinned`` without Spark's internals.
    """
    why_not = internals_unavailable(spark, how)
    if how == "pinned" and why_not is not None:
        raise ConfigError(f"Files cannot be pinned: {why_not}.", hint="set spark_scan to 'auto'.")
    scan = replace(scan, files=_with_known_schemes(spark, scan.files))
    return pinned_scan(spark, scan) if why_not is None else paths_scan(spark, scan)


def why_no_field_ids(spark: SparkSession, how: str) -> str | None:
    """Return why :func:`scan_files` cannot find columns by field id; None if it can."""
    why_not = internals_unavailable(spark, how)
    # For columns found by field id, Spark 4.0 uses the types of the file instead of the schema. It
    # also reads a struct as null if the file has none of its fields.
    return why_not or (
        "Spark 4.0 reads them incorrectly" if spark.version.startswith("4.0.") else None
    )


def _with_known_schemes(spark: SparkSession, files: pa.Table) -> pa.Table:
    paths = files["path"]
    for scheme in ("s3", "s3n"):
        old = pc.starts_with(paths, f"{scheme}:")
        if pc.any(old).as_py() and not _has_file_system(spark, scheme):
            paths = pc.replace_substring_regex(paths, f"^{scheme}:", "s3a:")
    return files.set_column(0, FILE_SCHEMA.field("path"), paths)


def _has_file_system(spark: SparkSession, scheme: str) -> bool:
    """Whether Hadoop's configuration names a file system for a scheme."""
    name = f"fs.{scheme}.impl"
    if internals_unavailable(spark) is None:
        return bool(hadoop_settings(spark, [name]))
    return spark.conf.get(f"spark.hadoop.{name}", None) is not None
