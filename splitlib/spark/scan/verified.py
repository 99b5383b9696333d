"""Check that files have not changed since they were listed, when a query reads them.

Spark's source ``binaryFile`` returns the size and modification time of each file. It runs in the
tasks, with the credentials of the scan. The check is a scalar subquery, so it finishes before the
scan starts, and does not depend on filters. A condition that fails per row would miss files whose
rows are all gone.
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
        StructField("content", BinaryType()),  # not read, because the query does not use it
    ]
)
_SIZE: Final = "__splitlib_size"
_MODIFIED: Final = "__splitlib_modified"


def verified(
    rows: DataFrame, files: pa.Table, storage: Mapping[str, Mapping[str, Any]], how: str
) -> DataFrame:
    """Return ``rows`` with a check that fails the query if a file has changed.

    If the same DataFrame is run again, Spark reuses the result of the first check.

    Args:
        rows: Rows of the files.
        files: Columns ``path``, ``size`` in bytes, and ``modified`` in milliseconds since the
            epoch. A time of 0 is unknown and not compared. Paths may repeat.
        storage: Storage options, as in :class:`splitlib.spark.file_scan.FileScan`.
        how: Access to Spark's internals, see :func:`splitlib.spark.scan.files.scan_files`.
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
        # Small sizes make Spark pack many files into a task. Scans skip files of size 0.
        files=pa.table([path, pc.min_element_wise(size, 1), modified, number], schema=FILE_SCHEMA),
        storage=storage,
    )
    changed = scan_files(rows.sparkSession, scan, how).where(_is_changed())
    return rows.where(changed.agg(F.count(F.lit(1))).scalar() == 0)


def _is_changed() -> Column:
    """Return a condition that is false if the file is unchanged, and else raises."""
    size, listed_size = F.col("length"), F.col(_SIZE)
    time, listed_time = F.unix_millis("modificationTime"), F.col(_MODIFIED)
    # Clients round times up or down, and some report only whole seconds for an object.
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
        F.lit(f"{unit}. Load the table again, or use splitlib.replan."),
    )
    return F.raise_error(said).cast("boolean")
