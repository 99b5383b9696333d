"""A scan returns the rows of exactly the files that it is given."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StringType, StructField, StructType

from benchmarks.tpcds.settings import changed
from splitlib.spark.scan import scan_files
from tests.integration.scan.files.given_files import (
    NASTY,
    A,
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


def test_paths_are_taken_literally(spark, how, tmp_path):
    paths = [
        (write(tmp_path / name / f"{i} f%20.parquet", a=[i]), i) for i, name in enumerate(NASTY)
    ]
    nasty = scan(files_table(*paths), {"d": NASTY}, keys("d string"))
    frame = scan_files(spark, nasty, how)
    assert rows(frame) == sorted(((i, d) for i, d in enumerate(NASTY)), key=repr)
    assert rows(frame.where(sf.col("d") == "50%")) == [(3, "50%")]
    assert frame.select("_metadata.file_path").distinct().count() == len(NASTY)


def test_spellings_of_a_local_path(spark, how, tmp_path):
    path = write(tmp_path / "x" / "f.parquet", a=[1])
    for spelling in (path, f"file:{path}", f"file://{path}", f"{tmp_path}//x///f.parquet"):
        files = files_table((path, 0)).set_column(0, "path", [[str(spelling)]])
        assert rows(scan_files(spark, scan(files), how)) == [(1,)]


def test_no_files(spark, how, tmp_path):
    some, _ = by_number(tmp_path)
    nothing = scan(some.files.slice(0, 0), {"k": pa.array([], pa.string())}, keys("k int"))
    frame = scan_files(spark, nothing, how)
    assert frame.schema == scan_files(spark, some, how).schema
    assert frame.collect() == []
    assert scan_files(spark, scan(some.files.slice(0, 0)), how).collect() == []


def test_empty_files_have_no_rows(spark, how, tmp_path):
    (tmp_path / "empty.csv").touch()
    (tmp_path / "full.csv").write_text("1\n")
    files = files_table((tmp_path / "empty.csv", 0), (tmp_path / "full.csv", 0))
    assert rows(scan_files(spark, scan(files, source="csv"), how)) == [(1,)]


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("parquet", {}),
        ("orc", {}),
        ("json", {}),
        ("json", {"compression": "gzip"}),
        ("csv", {"HEADER": "true", "sep": "|", "path": "/elsewhere", "pathGlobFilter": "none"}),
    ],
)
def test_formats_read_as_from_a_directory(spark, how, tmp_path, source, options):
    table = spark.range(40).selectExpr("id % 4 AS k", "id AS a", "concat('é|', id) AS s")
    writing = {name: value for name, value in options.items() if name != "path"}
    table.write.partitionBy("k").options(**writing).format(source).save(str(tmp_path / "t"))
    found = sorted((tmp_path / "t").glob("k=*/part-*"))
    values = sorted({path.parent.name.removeprefix("k=") for path in found})
    files = files_table(*((p, values.index(p.parent.name.removeprefix("k="))) for p in found))
    data = keys("a bigint", "s string")
    laid_out = spark.read.schema("a bigint, s string, k int").options(**writing)
    laid_out.options(pathGlobFilter="part-*")
    expected = laid_out.format(source).load(str(tmp_path / "t"))
    got = scan_files(spark, scan(files, {"k": values}, keys("k int"), data, source, **options), how)
    assert got.schema == expected.schema
    assert rows(got) == rows(expected)
    assert got.count() == 40


def test_gzipped_text(spark, how, tmp_path):
    path = tmp_path / "lines.txt.gz"
    path.write_bytes(gzip.compress("one\ntwo é\n".encode()))
    text = scan(files_table((path, 0)), {"k": ["1"]}, keys("k int"), keys("value string"), "text")
    assert rows(scan_files(spark, text, how)) == [("one", 1), ("two é", 1)]


def test_char_and_varchar_are_those_of_a_table(spark, how):
    spark.sql("DROP TABLE IF EXISTS chars")
    spark.sql(
        "CREATE TABLE chars (c CHAR(5), v VARCHAR(5), pc CHAR(4), pv VARCHAR(4)) "
        "USING parquet PARTITIONED BY (pc, pv)"
    )
    spark.sql("INSERT INTO chars VALUES ('ab', 'ab', 'x', 'x'), (NULL, NULL, 'long', NULL)")
    table = spark.table("chars")

    def declared(*fields):
        return StructType(
            [
                StructField(name, StringType(), True, {"__CHAR_VARCHAR_TYPE_STRING": text})
                for name, text in fields
            ]
        )

    found = sorted(
        Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"), "chars").glob(
            "*/*/part-*"
        )
    )
    assert len(found) == 2
    long_first = found if "long" in str(found[0]) else found[::-1]
    chars = scan(
        files_table(*((path, i) for i, path in enumerate(long_first))),
        # Another engine may write CHAR values without padding, as here.
        {"pc": ["long", "x"], "pv": [None, "x"]},
        declared(("pc", "char(4)"), ("pv", "varchar(4)")),
        declared(("c", "char(5)"), ("v", "varchar(5)")),
    )
    frame = scan_files(spark, chars, how)
    assert frame.schema == table.schema
    assert rows(frame) == rows(table) == [("ab   ", "ab", "x   ", "x"), (None, None, "long", None)]
    assert rows(frame.where("pc = 'x'")) == rows(table.where("pc = 'x'")) != []


def test_a_column_that_files_lack_has_its_default(spark, how, tmp_path):
    old = write(tmp_path / "old.parquet", a=[1])
    new = write(tmp_path / "new.parquet", a=[2], b=[5])
    default = {"EXISTS_DEFAULT": "42", "CURRENT_DEFAULT": "43"}
    data = StructType([*A, StructField("b", LongType(), True, default)])
    frame = scan_files(spark, scan(files_table((old, 0), (new, 0)), data_schema=data), how)
    assert rows(frame) == [(1, 42), (2, 5)]


def test_columns_named_as_spark_names_its_own(spark, how, tmp_path):
    path = write(tmp_path / "f.parquet", **{"_metadata": [1], "x.y": [2], "b`q": [3]})
    data = keys("_metadata bigint", "`x.y` bigint", "`b``q` bigint")
    frame = scan_files(spark, scan(files_table((path, 0)), {"k": ["7"]}, keys("k int"), data), how)
    assert rows(frame) == [(1, 2, 3, 7)]


def test_two_scans_are_not_mixed_up(spark, how, tmp_path):
    everything, _ = by_number(tmp_path, 4)
    halves = [
        scan(everything.files.slice(start, 2), everything.partitions, keys("k int"))
        for start in (0, 2)
    ]
    first, second = (scan_files(spark, half, how) for half in halves)
    first.cache()
    try:
        assert rows(first) == [(0, 0), (1, 1)]
        assert rows(second) == [(2, 2), (3, 3)]
        assert rows(second.cache()) == [(2, 2), (3, 3)]
        assert rows(first.union(second)) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    finally:
        first.unpersist()
        second.unpersist()
    assert rows(first.union(first)) == [(0, 0), (0, 0), (1, 1), (1, 1)]
    grouped = [frame.groupBy("k").agg(sf.sum("a").alias("a")) for frame in (first, second)]
    assert rows(grouped[0].union(grouped[1])) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    joined = grouped[0].join(grouped[1].withColumnsRenamed({"a": "b"}), "k", "full")
    assert rows(joined) == rows(
        spark.sql("VALUES (0, 0, NULL), (1, 1, NULL), (2, NULL, 2), (3, NULL, 3)")
    )


def test_later_files_are_not_read(spark, how, tmp_path):
    pinned, _ = by_number(tmp_path)
    frame = scan_files(spark, pinned, how)
    write(tmp_path / "k=1" / "later.parquet", a=[99])
    assert rows(frame) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("ignored", ["false", "true"])
def test_a_file_that_vanished_is_an_error(spark, how, tmp_path, ignored):
    """A setting that makes Spark ignore missing files does not change this."""
    pinned, paths = by_number(tmp_path)
    with changed(spark, {"spark.sql.files.ignoreMissingFiles": ignored}):
        frame = scan_files(spark, pinned, how)
        paths[1][0].unlink()
        with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
            frame.collect()
