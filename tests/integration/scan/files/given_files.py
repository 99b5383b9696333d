"""Helpers that create data files, and scans over given files with given partition values."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StructField, StructType

from splitlib.spark.file_scan import FileScan
from tests.support.abilities import struct_of

A = StructType([StructField("a", LongType())])
NASTY = [
    "a b", "k=x%20y", "k=x%2Fy", "50%", "é", "☃", "a=b#c?d", "[x]", "{y}", "*", "'\"", "dot.",
    "a:b", "a+b", "x,y;z", "tab\tx", "back\\slash", "\u00a0", "_hidden", ".hidden", "^|`", "k=",
]  # fmt: skip


def keys(*names_and_types):
    return struct_of(", ".join(names_and_types)) if names_and_types else StructType([])


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def files_table(*paths_and_partitions):
    paths = [str(path) for path, _ in paths_and_partitions]
    local = [path.removeprefix("file:") for path in paths]
    return pa.table(
        {
            "path": pa.array(paths, pa.string()),
            "size": pa.array([os.path.getsize(path) for path in local], pa.int64()),
            "modified": pa.array(
                [os.stat(path).st_mtime_ns // 10**6 for path in local], pa.int64()
            ),
            "partition": pa.array([partition for _, partition in paths_and_partitions], pa.int64()),
        }
    )


def absent_files(count, partitions, size=1000):
    """Return a list of files that do not exist. An attempt to read one of them fails."""
    return pa.table(
        {
            "path": [f"file:/nowhere/k={i % partitions}/{i}.parquet" for i in range(count)],
            "size": [size] * count,
            "modified": [0] * count,
            "partition": [i % partitions for i in range(count)],
        }
    )


def scan(files, partitions=None, partition_schema=None, data_schema=A, source="parquet", **options):
    return FileScan(
        source,
        options,
        data_schema,
        keys() if partition_schema is None else partition_schema,
        pa.table({}) if partitions is None else pa.table(partitions),
        files,
    )


def by_number(tmp_path, count=3):
    """Create a scan over ``count`` partitions ``k=i``. Each has one row, ``a=i``."""
    paths = [(write(tmp_path / f"k={i}" / "f.parquet", a=[i]), i) for i in range(count)]
    return scan(files_table(*paths), {"k": [str(i) for i in range(count)]}, keys("k int")), paths


def rows(frame):
    return sorted((tuple(row) for row in frame.collect()), key=repr)
