"""Measure how long the driver needs to make a DataFrame from a list of known files.

``spark.read`` checks every path, and starts a job for more than 32 paths. splitlib passes the known
sizes and modification times to Spark and checks no path. So most of the files need not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from benchmarks.measure import Contender, in_turns, timed
from benchmarks.results import Comparison, Result
from benchmarks.session import spark_session
from benchmarks.sizes import Sizes
from splitlib.spark.file_scan import FileScan
from splitlib.spark.scan import scan_files

_DATA = StructType([StructField("x", IntegerType())])
_KEYS = StructType([StructField("day", IntegerType())])
_FEW = 30
_FILES_OF_A_PARTITION = 2


def run(sizes: Sizes, directory: Path) -> Result:
    real = _real_files(directory / f"paths_{sizes.paths}", sizes.paths)
    comparisons = []
    with spark_session(directory, {}) as spark:
        in_turns("warming up", _contenders(spark, real[:_FEW], with_paths=True), sizes.warm_up)
        for count in (_FEW, sizes.paths, sizes.pinned):
            with_paths = count <= len(real)
            files = real[:count] if with_paths else [f"/nowhere/{i}.parquet" for i in range(count)]
            contenders = _contenders(spark, files, with_paths=with_paths)
            comparison = Comparison(
                f"a DataFrame of {count:,} files",
                "seconds on the driver",
                contenders[0].name,
                in_turns(f"{count} files", contenders, sizes.repeat),
            )
            comparisons.append(comparison)
    return Result("pinning", comparisons)


def _contenders(spark: SparkSession, files: list[str], *, with_paths: bool) -> list[Contender]:
    given = pa.table(
        {
            "path": files,
            "size": pa.repeat(1000, len(files)),
            "modified": pa.repeat(0, len(files)),
            "partition": [i // _FILES_OF_A_PARTITION for i in range(len(files))],
        }
    )
    days = [str(day) for day in range(-(-len(files) // _FILES_OF_A_PARTITION))]
    partitions = pa.table({"day": days})

    def pinned() -> DataFrame:
        return scan_files(spark, FileScan("parquet", {}, _DATA, _KEYS, partitions, given), "pinned")

    def by_paths() -> DataFrame:
        return spark.read.schema(_DATA).parquet(*files)

    calls: dict[str, Callable[[], DataFrame]] = {"splitlib, pinned": pinned}
    if with_paths:
        calls["spark.read.parquet(*files)"] = by_paths
    return [Contender(name, partial(timed, call)) for name, call in calls.items()]


def _real_files(directory: Path, count: int) -> list[str]:
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"{i:06}.parquet" for i in range(count)]
    pq.write_table(pa.table({"x": pa.array([1], pa.int32())}), paths[0])
    content = paths[0].read_bytes()
    for path in paths[1:]:
        path.write_bytes(content)
    return [str(path) for path in paths]
