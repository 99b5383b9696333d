"""Compare ``format("splitlib")`` with the native scan and with pyarrow without Spark.

All contenders read all columns of the same Parquet files. The result is rows per second of CPU
time, summed over this process, the JVM and Spark's Python workers. Contenders on Spark convert
batches to rows, as in most queries, and then discard the rows. Contenders without Spark discard the
batches. One contender is a data source that does nothing but read the files. It shows the cost of
passing batches from Python to Spark.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import splitlib
from benchmarks.cpu import cpu_time_of
from benchmarks.measure import Contender, Sample, in_turns
from benchmarks.results import Comparison, Result, within
from benchmarks.session import spark_session
from benchmarks.sizes import Sizes
from splitlib.reading.reader import BATCH_ROWS, read_split

ALONE, READER = "pyarrow alone", "splitlib's reader alone"
PLAIN, OURS, NATIVE = "pyarrow in a data source", "splitlib's data source", "splitlib's native scan"
_FILES = 4
_LEAST = 0.6
_OPTIONS = {"connector": "files", "partition_schema": "k int"}


def run(sizes: Sizes, directory: Path) -> Result:
    root = directory / f"rows-{sizes.rows}"
    _build(root, sizes.rows)
    # Spark's Python workers must find the same modules as this process.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, sys.path))
    with spark_session(directory, {"spark.master": "local[1]"}) as spark:
        spark.dataSource.register(splitlib.SplitlibDataSource)
        spark.dataSource.register(PlainDataSource)
        rows = sizes.rows
        contenders = [
            _counting(ALONE, rows, lambda: _plain(root)),
            _counting(READER, rows, lambda: _splits(root)),
            _through_spark(PLAIN, rows, lambda: spark.read.format("plain").load(str(root))),
            _through_spark(OURS, rows, lambda: _ours(spark, root)),
            _through_spark(NATIVE, rows, lambda: _native(spark, root)),
        ]
        in_turns("warming up", contenders, min(sizes.warm_up, 2))
        comparison = Comparison(
            f"{rows:,} rows of {len(_columns(0, 1)) + 1} columns",
            "rows per second of CPU",
            ALONE,
            in_turns("data source", contenders, sizes.repeat),
        )
    targets = [
        within(f"{peer} in proportion to {name}", comparison[peer], comparison[name], 1 / _LEAST)
        for peer, name in ((ALONE, READER), (PLAIN, OURS), (ALONE, OURS))
    ]
    return Result("datasource", [comparison], targets)


def _build(root: Path, rows: int) -> None:
    if root.exists():
        return
    temporary = root.with_suffix(".part")
    for k in range(_FILES):
        file = temporary / f"k={k}" / "rows.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        first, end = k * rows // _FILES, (k + 1) * rows // _FILES
        pq.write_table(pa.table(_columns(first, end)), file)
    temporary.rename(root)


def _columns(first: int, end: int) -> dict[str, pa.Array]:
    numbers = pa.array(range(first, end), pa.int64())
    small = pa.array((n % 1000 for n in range(first, end)), pa.int32())
    return {
        "id": numbers,
        "i": small,
        "d": pc.multiply(numbers.cast(pa.float64()), 0.5),
        "s": pa.array([f"name-{n % 5000}" for n in range(first, end)]),
        "m": small.cast(pa.decimal128(10, 0)).cast(pa.decimal128(12, 2)),
        "day": small.cast(pa.date32()),
        "t": pc.multiply(numbers, 1_000_000).cast(pa.timestamp("us", "UTC")),
    }


def _plain(root: Path) -> Iterator[pa.RecordBatch]:
    for file in sorted(root.glob("k=*/*.parquet")):
        yield from pq.ParquetFile(file).iter_batches(BATCH_ROWS, use_threads=False)


def _splits(root: Path) -> Iterator[pa.RecordBatch]:
    with splitlib.load_table(str(root), "files", partition_schema="k int") as table:
        for split in splitlib.DynamicFileEnumerator(table).enumerate_splits():
            yield from read_split(split, table.schema)


def _ours(spark: SparkSession, root: Path) -> DataFrame:
    return spark.read.format("splitlib").options(**_OPTIONS).load(str(root))


def _native(spark: SparkSession, root: Path) -> DataFrame:
    reader = splitlib.read(spark).table(str(root), "files", partition_schema="k int")
    return reader.load()


class PlainDataSource(DataSource):
    """A data source that reads all files below a directory in one task."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "plain"

    def schema(self) -> str:
        """Return all columns except the partition key."""
        return "id long, i int, d double, s string, m decimal(12,2), day date, t timestamp"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader with a single task."""
        del schema
        return _PlainReader(Path(self.options["path"]))


class _PlainReader(DataSourceReader):
    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, partition: InputPartition) -> Iterator[Any]:
        del partition
        yield from _plain(self._root)


def _counting(name: str, rows: int, batches: Callable[[], Iterator[pa.RecordBatch]]) -> Contender:
    def run() -> Sample:
        read: list[int] = []
        seconds = cpu_time_of(lambda: read.extend(batch.num_rows for batch in batches()))
        return Sample(rows / seconds, {"rows": sum(read)})

    return Contender(name, run)


def _through_spark(name: str, rows: int, load: Callable[[], DataFrame]) -> Contender:
    def run() -> Sample:
        loaded = load()
        writer = loaded.write.format("noop").mode("overwrite")
        return Sample(rows / cpu_time_of(writer.save), counts)

    # The digest covers every value, but not the order of rows. It leaves out the partition key,
    # because the plain data source does not return it.
    columns = "xxhash64(id, i, d, s, m, day, t) AS h"
    found = load().selectExpr(columns).selectExpr("count(*)", "CAST(sum(h % 1000003) AS long)")
    count, digest = found.collect()[0]
    counts = {"rows": count, "digest": digest}
    return Contender(name, run)
