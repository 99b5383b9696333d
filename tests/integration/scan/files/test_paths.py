"""Tests that concern only scans that read files by path (``spark_scan="paths"``)."""

import json

import pyarrow.parquet as pq
import pytest

from splitlib.spark.scan import paths_scan, scan_files, with_partition_columns
from tests.integration.scan.files.given_files import (
    NASTY,
    A,
    absent_files,
    by_number,
    files_table,
    keys,
    rows,
    scan,
    write,
)

pytestmark = [
    pytest.mark.spark,
    # PySpark imports pandas to create a DataFrame from Arrow data, and then emits this warning.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def test_a_file_that_is_not_there_is_an_error_by_paths(spark):
    with pytest.raises(Exception, match="PATH_NOT_FOUND"):
        paths_scan(spark, scan(absent_files(1, 1), {"k": ["0"]}, keys("k int")))


def test_rows_of_a_file_without_a_partition_are_an_error(spark, tmp_path):
    given_scan, paths = by_number(tmp_path)
    read = spark.read.schema(A).parquet(*(str(path) for path, _ in paths))
    known = [(f"file:{path}", k) for path, k in paths[:2]]
    mapped = spark.createDataFrame([(k, path) for path, k in known], "k int, file string")
    frame = with_partition_columns(read, mapped, given_scan.partition_schema)
    for query in (
        frame,
        frame.select("a"),
        frame.select("k"),
        frame.where("k = 1"),
        frame.groupBy().count(),
    ):
        with pytest.raises(Exception, match="no partition for file"):
            query.collect()


def test_spark_connect_reads_by_paths(spark, over_connect, tmp_path):
    """The script runs in another process, because a process can have only one kind of session."""
    paths = [(write(tmp_path / d / f"{i} f%20.parquet", a=[i]), i) for i, d in enumerate(NASTY)]
    nasty = scan(
        files_table(*paths),
        {"d": NASTY, "n": [str(i) for i in range(len(NASTY))]},
        keys("d string", "n int"),
    )
    pq.write_table(nasty.files, tmp_path / "files.parquet")
    pq.write_table(nasty.partitions, tmp_path / "partitions.parquet")
    result = tmp_path / "result.json"
    over_connect(
        """
        import json
        import pyarrow.parquet as pq
        from pyspark.sql.types import StructType
        from splitlib.errors import ConfigError
        from splitlib.spark.file_scan import FileScan
        from splitlib.spark.scan import scan_files

        scan = FileScan(
            "parquet", {}, StructType.fromDDL("a bigint"), StructType.fromDDL("d string, n int"),
            pq.read_table(sys.argv[1] + "/partitions.parquet"),
            pq.read_table(sys.argv[1] + "/files.parquet"),
        )
        try:
            scan_files(spark, scan, "pinned")
        except ConfigError as error:
            refused = str(error)
        rows = [list(row) for row in scan_files(spark, scan).collect()]
        with open(sys.argv[2], "w") as found:
            json.dump({"refused": refused, "rows": rows}, found)
        """,
        tmp_path,
        result,
    )
    found = json.loads(result.read_text())
    assert "Spark Connect" in found["refused"]
    assert sorted(map(tuple, found["rows"]), key=repr) == rows(scan_files(spark, nasty))
    assert len(found["rows"]) == len(NASTY)
