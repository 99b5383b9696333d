"""The choice of how Spark reads exactly these files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import ConfigError
from splitlib.model import FILE_SCHEMA
from splitlib.spark.file_scan import FileScan
from splitlib.spark.jvm.pinned_relation import has_file_system
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.scan.paths import paths_scan
from splitlib.spark.scan.pinned import pinned_scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def scan_files(spark: SparkSession, scan: FileScan, how: str = "auto") -> DataFrame:
    """Return the rows of the scan: data columns, then partition columns, all nullable.

    Of paths that begin with `s3:` or `s3n:` and no file system of the session is for those, the
    one for `s3a:` reads the files.

    Args:
        spark: Session to read with.
        scan: What to read.
        how: `pinned` never lists or stats a file but needs Spark's internals; `paths` uses the
            public API only; `auto` takes `pinned` where it is known to work.

    Raises:
        ConfigError: `pinned` was asked for where it is not available.
    """
    why_not = None if how == "paths" else internals_unavailable(spark)
    if how == "pinned" and why_not:
        raise ConfigError(f"Files cannot be pinned: {why_not}.", hint="set spark_scan to 'auto'.")
    scan = replace(scan, files=_with_known_schemes(spark, scan.files))
    return paths_scan(spark, scan) if how == "paths" or why_not else pinned_scan(spark, scan)


def why_no_field_ids(spark: SparkSession, how: str) -> str | None:
    """Return why `scan_files` cannot find columns by identifier, None if it can."""
    why_not = "files are read by path" if how == "paths" else internals_unavailable(spark)
    # Spark 4.0 takes the types of columns found so from the file, and a struct none of whose
    # fields is in the file for null
    return why_not or ("Spark 4.0 reads them wrong" if spark.version.startswith("4.0.") else None)


def _with_known_schemes(spark: SparkSession, files: pa.Table) -> pa.Table:
    paths = files["path"]
    for scheme in ("s3", "s3n"):
        old = pc.starts_with(paths, f"{scheme}:")
        if pc.any(old).as_py() and not has_file_system(spark, scheme):
            paths = pc.replace_substring_regex(paths, f"^{scheme}:", "s3a:")
    return files.set_column(0, FILE_SCHEMA.field("path"), paths)
