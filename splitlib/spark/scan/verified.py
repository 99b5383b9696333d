"""Rows of files that are compared, when a query reads them, with what they were when listed.

Spark's source ``binaryFile`` asks the filesystem for the size and the time of each file in the
tasks, with the credentials of the scan. A scalar subquery over it ends before the scan that it
stands in begins, whatever the query filters; a condition that fails on rows would say nothing of
a file that has none any more.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from splitlib.model import FILE_SCHEMA
from splitlib.spark.file_scan import FILE_ITSELF, FileScan
from splitlib.spark.scan.files import scan_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

_COLUMNS: Final = StructType(
    [
        StructField("path", StringType()),
        StructField("modificationTime", TimestampType()),
        StructField("length", LongType()),
        StructField("content", BinaryType()),  # which is not read, as nobody asks for it
    ]
)
_SIZE: Final = "__splitlib_size"
_MODIFIED: Final = "__splitlib_modified"


def verified(
    rows: DataFrame, files: pa.Table, storage: Mapping[str, Mapping[str, Any]], how: str
) -> DataFrame:
    """The rows, and an error when a query reads them if a file is not what it was.

    A query that is run again, as by collecting the same DataFrame twice, keeps its first answer.

    Args:
        rows: Of the files.
        files: ``path``, ``size`` in bytes, ``modified`` in milliseconds since the epoch, where 0 is
            unknown, and not compared. A path may be there more than once.
        storage: As of :class:`splitlib.spark.file_scan.FileScan`.
        how: As for :func:`splitlib.spark.scan.files.scan_files`.
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
        # as small, so that a task looks at many; empty ones are left out of every scan
        files=pa.table([path, pc.min_element_wise(size, 1), modified, number], schema=FILE_SCHEMA),
        storage=storage,
    )
    changed = scan_files(rows.sparkSession, scan, how).where(_is_changed())
    return rows.where(changed.agg(F.count(F.lit(1))).scalar() == 0)


def _is_changed() -> Column:
    """Never true: an error instead."""
    size, listed_size = F.col("length"), F.col(_SIZE)
    time, listed_time = F.unix_millis("modificationTime"), F.col(_MODIFIED)
    # clients round up or down, and an object store may tell seconds of one object
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
    said = F.concat(
        F.col("path"),
        F.lit(f" has changed since it was listed: its {what} was "),
        listed.cast("string"),
        F.lit(f"{unit} and is "),
        found.cast("string"),
        F.lit(f"{unit}. Read it again, or plan anew with splitlib.replan."),
    )
    return F.raise_error(said).cast("boolean")
