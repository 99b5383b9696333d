"""Read the footers of many Parquet files in a Spark job, for ``splitlib.analyze``.

Executors need only PyArrow: the functions that they run are sent to them by value. They open files
with PyArrow's own filesystems, which look for credentials on the executor. The driver reads the
footers that the executors could not read.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from splitlib.arrow import utf8
from splitlib.arrow.parquet_footer import footer, parse_footer
from splitlib.enumeration.footer_reads import Rows
from splitlib.redaction import get_logger
from splitlib.spark.compat import dataframe_of_arrow, to_arrow
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.statistics.footers import GroupRow, rows_of_groups
from splitlib.storage import located

_log = get_logger(__name__)
LEAST_FILES: Final = 1_000
"""Minimum number of files for a Spark job. The footers of fewer files are read on the driver."""
_FILES_OF_TASK: Final = 500
_THREADS: Final = 8
"""Number of footers that one task reads at the same time."""
_FILES: Final = StructType(
    [
        StructField("row", LongType()),
        StructField("path", StringType()),
        StructField("size", LongType()),
        StructField("modified", LongType()),
    ]
)
_FOUND: Final = "row long, groups binary"
_registry: Final[Any] = cloudpickle  # cloudpickle has no type hints
_registry_lock: Final = threading.Lock()


class FooterJobs:
    """Reads footers in Spark jobs. After a job has failed, no further job is started.

    Args:
        spark: The session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._has_failed = False

    def read(self, columns: Sequence[pa.Field], files: pa.RecordBatch) -> list[Rows | None]:
        """Return the statistics of each file, or None for files that the executors did not read.

        Args:
            columns: Columns whose statistics are returned; at least one.
            files: Files, with the columns of :data:`splitlib.model.FILE_SCHEMA`.
        """
        found: list[Rows | None] = [None] * files.num_rows
        if self._has_failed or files.num_rows < LEAST_FILES:
            return found
        rows = pa.array(range(files.num_rows), pa.int64())
        listed = pa.table(
            [
                rows,
                pa.array(map(_uri, files["path"].to_pylist())),
                files["size"],
                files["modified"],
            ],
            names=_FILES.names,
        )
        try:
            for row, groups in self._run(columns, listed):
                found[row] = [[GroupRow(*one) for one in column] for column in groups]
        except JVM_ERRORS as error:
            self._has_failed = True
            _log.warning("The Spark job failed, so the driver reads the footers: %s", error)
        if left := found.count(None):
            _log.info("Executors could not read %d of %d footers.", left, len(found))
        return found

    def _run(self, columns: Sequence[pa.Field], files: pa.Table) -> Iterator[tuple[int, Any]]:
        names = pa.schema(list(columns)).serialize().to_pybytes()
        read = by_value(FooterReader(names))

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from pickle.loads(read)(batches)

        tasks = -(-files.num_rows // _FILES_OF_TASK)
        given = dataframe_of_arrow(self._spark, files, _FILES).repartition(tasks)
        for batch in to_arrow(given.mapInArrow(run, _FOUND)).to_batches():
            for row, groups in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                yield row, pickle.loads(groups)


class FooterReader:
    """Reads footers on an executor, which needs only PyArrow.

    Args:
        columns: The serialized Arrow schema of the columns.
    """

    def __init__(self, columns: bytes) -> None:
        self._columns = columns
        self._filesystems: dict[str, tuple[Any, str]] = {}

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches with the row number and the pickled statistics of each readable file."""
        from concurrent.futures import ThreadPoolExecutor

        columns = list(pa.ipc.read_schema(pa.py_buffer(self._columns)))
        with ThreadPoolExecutor(_THREADS) as pool:
            for batch in batches:
                files = batch.to_pylist()
                read = pool.map(lambda file: self._groups(file, columns), files)
                known = [(f["row"], r) for f, r in zip(files, read, strict=True) if r is not None]
                rows = pa.array([row for row, _ in known], pa.int64())
                groups = pa.array([groups for _, groups in known], pa.binary())
                yield pa.RecordBatch.from_arrays([rows, groups], names=["row", "groups"])

    def _groups(self, file: dict[str, Any], columns: list[pa.Field]) -> bytes | None:
        try:
            found = rows_of_groups(parse_footer(self._end_of(file)), columns)
        except Exception:
            # The footer may be damaged, credentials missing, or the filesystem not supported. Then
            # the driver reads the footer.
            return None
        return pickle.dumps([[tuple(row) for row in column] for column in found])

    def _end_of(self, file: dict[str, Any]) -> bytes:
        """Return the last bytes of a file, which include its footer."""
        scheme, _, rest = file["path"].partition("://")
        authority, slash, path = rest.partition("/")
        root = f"{scheme}://{authority}/"
        if root not in self._filesystems:
            from pyarrow.fs import FileSystem

            self._filesystems[root] = FileSystem.from_uri(root)
        fs, base = self._filesystems[root]
        full = base.rstrip("/") + slash + path
        info, size, modified = fs.get_file_info(full), file["size"], file["modified"]
        known = None if info.mtime_ns is None else info.mtime_ns // 1_000_000
        # Allow a difference of 1 ms, because filesystems round times up or down to milliseconds.
        is_other = known is not None and modified != 0 and abs(known - modified) > 1
        if info.size != size or is_other:
            raise OSError("The file has changed.")
        with fs.open_input_file(full) as opened:

            def last(length: int) -> bytes:
                return bytes(opened.read_at(length, size - length))

            return footer(size, last)


def _uri(path: str) -> str:
    """Return a location as a URI that PyArrow's filesystems accept, without percent-encoding."""
    place = located(path)
    if place.protocol == "file":
        return f"file://{place.path}"
    return place.path


def by_value(function: Callable[..., Any]) -> bytes:
    """Pickle a callable of this module so that processes without splitlib can load it."""
    modules = [utf8, *(sys.modules[one.__module__] for one in (function, footer, rows_of_groups))]
    with _registry_lock:
        for module in modules:
            _registry.register_pickle_by_value(module)
        try:
            return bytes(_registry.dumps(function))
        finally:
            for module in modules:
                _registry.unregister_pickle_by_value(module)
