"""Spark reads exactly the files it is given, pinned and by paths alike."""

import gzip
import json
import os
import subprocess
import sys
import textwrap
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StringType, StructField, StructType

from benchmarks.tpcds.settings import changed
from splitlib.errors import ConfigError
from splitlib.spark.file_scan import FileScan
from splitlib.spark.jvm import pinned_relation as pinned_module
from splitlib.spark.jvm.pinned_relation import encode_statuses
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.scan.files import scan_files
from splitlib.spark.scan.paths import _attach, paths_scan
from splitlib.spark.scan.pinned import pinned_scan

pytestmark = [
    pytest.mark.spark,
    # PySpark's remark on pandas, which it imports when it makes a DataFrame of Arrow data
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

A = StructType([StructField("a", LongType())])
NASTY = [
    "a b", "k=x%20y", "k=x%2Fy", "50%", "é", "☃", "a=b#c?d", "[x]", "{y}", "*", "'\"", "dot.",
    "a:b", "a+b", "x,y;z", "tab\tx", "back\\slash", "\u00a0", "_hidden", ".hidden", "^|`", "k=",
]  # fmt: skip


@pytest.fixture(scope="module")
def spark(spark):
    """The session of all tests, in a time zone with summer time, with Spark's own pruning."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "true")
    yield spark
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "false")
    spark.conf.unset("spark.sql.session.timeZone")


@pytest.fixture(params=["pinned", "paths"])
def how(request):
    return request.param


def keys(*names_and_types):
    return StructType.fromDDL(", ".join(names_and_types)) if names_and_types else StructType([])


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
    """Files that exist nowhere: whoever looks for one fails."""
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
    """Partition k=i holds the one row a=i."""
    paths = [(write(tmp_path / f"k={i}" / "f.parquet", a=[i]), i) for i in range(count)]
    return scan(files_table(*paths), {"k": [str(i) for i in range(count)]}, keys("k int")), paths


def rows(frame):
    return sorted((tuple(row) for row in frame.collect()), key=repr)


# --- the same rows both ways


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


def test_text_becomes_the_type_of_the_key(spark, how, tmp_path):
    path = write(tmp_path / "f.parquet", a=[1])
    given_values = {
        "s": ["01", None, ""],
        "i": ["01", None, "one"],
        "d": ["2024-02-29", None, "2023-02-29"],
        "t": ["2024-07-01 12:30:00.5", None, "noon"],
        "n": ["1.50", None, "1,5"],
        "f": ["NaN", None, "-0.25"],
        "b": ["true", None, "maybe"],
        "x": ["é", None, "\x00"],
    }
    schema = keys(
        "s string", "i int", "d date", "t timestamp", "n decimal(6,2)", "f double", "b boolean",
        "x binary",
    )  # fmt: skip
    files = files_table((path, 0), (path, 1), (path, 2))
    frame = scan_files(spark, scan(files, given_values, schema), how)
    assert frame.schema.names == ["a", *given_values]
    assert all(field.nullable for field in frame.schema)
    noon = datetime(2024, 7, 1, 12, 30, 0, 500_000, ZoneInfo("America/New_York"))
    noon = noon.astimezone().replace(tzinfo=None)
    shown = frame.select("s", "i", "d", "t", "n", "b", sf.hex("x"), sf.col("f").cast("string"))
    assert rows(shown) == [
        ("", None, None, None, None, None, "00", "-0.25"),
        ("01", 1, date(2024, 2, 29), noon, Decimal("1.50"), True, "C3A9", "NaN"),
        (None,) * 8,
    ]  # fmt: skip


def test_typed_values_are_taken_as_they_are(spark, how, tmp_path):
    path = write(tmp_path / "f.parquet", a=[1])
    moment = datetime(2024, 7, 1, 16, 30, tzinfo=ZoneInfo("UTC"))
    values = {
        "i": pa.array([7, None], pa.int32()),
        "d": pa.array([date(2024, 2, 29), None]),
        "t": pa.array([moment, None], pa.timestamp("us", "UTC")),
        "s": pa.array(["x", None], pa.large_string()),
        "v": pa.nulls(2),
    }
    schema = keys("i int", "d date", "t timestamp", "s string", "v bigint")
    frame = scan_files(spark, scan(files_table((path, 0), (path, 1)), values, schema), how)
    local = moment.astimezone().replace(tzinfo=None)
    assert rows(frame) == [(1, 7, date(2024, 2, 29), local, "x", None), (1, *[None] * 5)]


def test_values_of_another_type_are_refused(spark, how, tmp_path):
    path = write(tmp_path / "f.parquet", a=[1])
    wrong = scan(files_table((path, 0)), {"k": pa.array([1], pa.int64())}, keys("k int"))
    with pytest.raises(ValueError, match="Partition values of 'k'"):
        scan_files(spark, wrong, how)


@pytest.mark.parametrize("threshold", ["48MB", "1b"])
def test_values_keep_their_order(spark, how, tmp_path, threshold):
    """Also when there are so many that Spark sends them through a job."""
    paths = [(write(tmp_path / f"{i}.parquet", a=[i]), 36 - i) for i in range(37)]
    many = scan(files_table(*paths), {"k.`K": [str(i) for i in range(37)]}, keys("`k.``K` int"))
    spark.conf.set("spark.sql.execution.arrow.localRelationThreshold", threshold)
    try:
        assert rows(scan_files(spark, many, how)) == sorted(
            ((i, 36 - i) for i in range(37)), key=repr
        )
    finally:
        spark.conf.unset("spark.sql.execution.arrow.localRelationThreshold")


def test_directories_mean_nothing(spark, how, tmp_path):
    """One holds files of several partitions, one lies within it, a file is in two partitions."""
    one, two, both, nested = (
        write(tmp_path / name, a=[i])
        for i, name in enumerate(["one.parquet", "two.parquet", "both.parquet", "k=9/deep.parquet"])
    )
    files = files_table((one, 0), (two, 1), (both, 0), (both, 1), (nested, 2))
    frame = scan_files(spark, scan(files, {"k": ["x", "y", "z"]}, keys("k string")), how)
    assert rows(frame) == [(0, "x"), (1, "y"), (2, "x"), (2, "y"), (3, "z")]
    assert rows(frame.where("k = 'y'")) == [(1, "y"), (2, "y")]
    assert frame.count() == 5


def test_partitions_may_share_a_directory_and_a_value(spark, how, tmp_path):
    one, two = (write(tmp_path / name / "f.parquet", a=[1]) for name in ("k=1", "k=01"))
    files = files_table((one, 0), (one, 1), (two, 2))
    frame = scan_files(spark, scan(files, {"k": ["1", "7", "01"]}, keys("k int")), how)
    assert rows(frame) == [(1, 1), (1, 1), (1, 7)]


def test_without_partitions(spark, how, tmp_path):
    paths = [(write(tmp_path / f"k={i}" / "f.parquet", a=[i]), 0) for i in range(3)]
    write(tmp_path / "k=0" / "other.parquet", a=[9])
    frame = scan_files(spark, scan(files_table(*paths)), how)
    assert frame.columns == ["a"]
    assert rows(frame) == [(0,), (1,), (2,)]


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
        {"pc": ["long", "x"], "pv": [None, "x"]},  # as if another engine had not padded
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


def test_a_partition_value_wins_over_a_column_in_the_file(spark, how, tmp_path):
    path = write(tmp_path / "f.parquet", k=[100], a=[1])
    frame = scan_files(spark, scan(files_table((path, 0)), {"k": ["7"]}, keys("k int")), how)
    assert rows(frame) == [(1, 7)]


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


def test_a_file_that_vanished_is_an_error(spark, how, tmp_path):
    pinned, paths = by_number(tmp_path)
    frame = scan_files(spark, pinned, how)
    paths[1][0].unlink()
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
        frame.collect()


def test_a_file_that_is_not_there_is_an_error_by_paths(spark):
    with pytest.raises(Exception, match="PATH_NOT_FOUND"):
        paths_scan(spark, scan(absent_files(1, 1), {"k": ["0"]}, keys("k int")))


# --- input that is refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": ["file:/x/a", "file:/x//a"], "partition": [1, 1]}, "more than once"),
        ({"partition": [0, 2]}, "not among the 2"),
        ({"partition": [0, -1]}, "not among the 2"),
        ({"size": [1, -1]}, "negative"),
        ({"path": ["x/a", "file:/x/b"]}, "not absolute"),
        ({"path": ["file:/x/../a", "file:/x/b"]}, "not normal"),
        ({"path": ["file:/x/./a", "file:/x/b"]}, "not normal"),
        ({"path": ["file:/x/", "file:/x/b"]}, "not normal"),
        ({"path": ["file:/x/_a", "file:/x/b"]}, "skips"),
        ({"path": ["file:/x/.a", "file:/x/b"]}, "skips"),
        ({"path": ["file:/x/a._COPYING_", "file:/x/b"]}, "skips"),
        ({"size": [1, None]}, "null"),
    ],
)
def test_files_that_cannot_be_read_as_given(change, message):
    good = {
        "path": ["file:/x/_a=1", "file:/_x/b"],
        "size": [1, 1],
        "modified": [0, 0],
        "partition": [0, 1],
    }
    scan(pa.table(good), {"k": ["1", "2"]}, keys("k int"))
    with pytest.raises(ValueError, match=message):
        scan(pa.table(good | change), {"k": ["1", "2"]}, keys("k int"))


def test_columns_that_contradict_each_other():
    none = absent_files(0, 1)
    none = none.cast(
        pa.schema([("path", "string"), *((n, "int64") for n in none.column_names[1:])])
    )
    with pytest.raises(ValueError, match="are not the keys"):
        scan(none, {"j": ["1"]}, keys("k int"))
    with pytest.raises(ValueError, match="both in the data schema"):
        scan(none, {"A": ["1"]}, keys("A int"))


# --- pinned: what it costs and how it sits in Spark's plans


def test_pinning_looks_at_nothing(spark):
    """The files exist nowhere, so that looking for one would fail."""
    metrics = spark._jvm.org.apache.spark.metrics.source.HiveCatalogMetrics

    def counts():
        return (
            spark._jsc.sc().dagScheduler().numTotalJobs(),
            metrics.METRIC_FILES_DISCOVERED().getCount(),
            metrics.METRIC_PARTITIONS_FETCHED().getCount(),
            metrics.METRIC_PARALLEL_LISTING_JOB_COUNT().getCount(),
        )

    before = counts()
    absent = scan(absent_files(500, 50), {"k": [str(i) for i in range(50)]}, keys("k int"))
    frame = scan_files(spark, absent)
    plan = frame.where("k < 10")._jdf.queryExecution()
    assert plan.optimizedPlan().stats().sizeInBytes() == 500_000
    assert "PartitionFilters: [isnotnull(k" in plan.executedPlan().toString()
    assert counts() == before


def test_calls_to_the_jvm_do_not_grow_with_files(spark, monkeypatch):
    client = spark.sparkContext._gateway._gateway_client
    calls: list[int] = []
    send = client.send_command

    def counted(command, *args, **kwargs):
        # objects of the JVM are released whenever Python's collector gets to them
        if not command.startswith(MEMORY_COMMAND_NAME):
            calls.append(1)
        return send(command, *args, **kwargs)

    monkeypatch.setattr(client, "send_command", counted)

    def calls_for(count, partitions):
        wanted = scan(
            absent_files(count, partitions),
            {"k": [str(i) for i in range(partitions)]},
            keys("k int"),
        )
        pinned_scan(spark, wanted)
        calls.clear()
        pinned_scan(spark, wanted)
        return len(calls)

    few, many = calls_for(3, 1), calls_for(5000, 500)
    assert many < few * 1.5


def test_what_is_pruned_is_not_opened(spark, tmp_path):
    pinned, paths = by_number(tmp_path)
    frame = pinned_scan(spark, pinned)
    paths[2][0].unlink()
    assert rows(frame.where("k < 2")) == [(0, 0), (1, 1)]
    dates = spark.range(3).selectExpr("id AS d", "id % 2 AS odd")
    dates.write.parquet(str(tmp_path / "dates"))
    dates = spark.read.parquet(str(tmp_path / "dates")).where("odd = 1")
    joined = frame.join(sf.broadcast(dates), frame.k == dates.d)
    plan = joined._jdf.queryExecution().executedPlan().toString()
    assert "dynamicpruningexpression(cast(k" in plan
    assert rows(joined) == [(1, 1, 1, 1)]


def test_filters_and_columns_are_pushed_down(spark, tmp_path):
    path = write(tmp_path / "f.parquet", a=[1, 2], b=[3, 4])
    data = keys("a bigint", "b bigint")
    frame = pinned_scan(spark, scan(files_table((path, 0)), {"k": ["1"]}, keys("k int"), data))
    found = frame.where("a = 2").select("a", "k")
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "EqualTo(a,2)" in plan
    assert "ReadSchema: struct<a:bigint>" in plan
    assert rows(found) == [(2, 1)]


def test_equal_subplans_are_run_once(spark, tmp_path):
    pinned, _ = by_number(tmp_path)
    other, _ = by_number(tmp_path)
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:

        def reused(left, right):
            sums = [frame.groupBy("a").agg(sf.sum("k")) for frame in (left, right)]
            return "ReusedExchange" in sums[0].union(sums[1])._jdf.queryExecution().toString()

        frame = pinned_scan(spark, pinned)
        assert reused(frame, frame)
        assert not reused(frame, pinned_scan(spark, other))
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.parametrize(("size", "join"), [(1000, "BroadcastHashJoin"), (10**9, "SortMergeJoin")])
def test_sizes_decide_on_broadcasts(spark, size, join):
    sized = scan(absent_files(2, 2, size), {"k": ["0", "1"]}, keys("k int"))
    large = scan(absent_files(2, 2, 10**10), {"k": ["0", "1"]}, keys("k int"))
    joined = pinned_scan(spark, sized).join(pinned_scan(spark, large), "a")
    assert join in joined._jdf.queryExecution().executedPlan().toString()


def test_refreshing_does_not_unpin(spark, tmp_path):
    pinned, _ = by_number(tmp_path)
    frame = pinned_scan(spark, pinned)
    frame.createOrReplaceTempView("pinned_view")
    with pytest.raises(Exception, match="pinned-by-splitlib"):
        spark.catalog.refreshTable("pinned_view")
    assert rows(spark.table("pinned_view")) == [(0, 0), (1, 1), (2, 2)]
    frame.cache()
    try:
        frame.count()
        frame.write.mode("append").parquet(str(tmp_path / "copy"))  # refreshes what reads there
        spark.catalog.refreshByPath(str(tmp_path))
        assert rows(frame) == [(0, 0), (1, 1), (2, 2)]
    finally:
        frame.unpersist()


def test_pinned_is_the_choice_where_it_works(spark):
    assert internals_unavailable(spark) is None
    absent = scan(absent_files(2, 2), {"k": ["0", "1"]}, keys("k int"))
    assert "pinned-by-splitlib" in scan_files(spark, absent)._jdf.queryExecution().toString()


def test_sources_that_do_not_tell_files_apart(spark):
    absent = scan(absent_files(2, 2), {"k": ["0", "1"]}, keys("k int"))
    with changed(spark, {"spark.sql.sources.useV1SourceList": "json,csv"}):
        with pytest.raises(ConfigError, match="add parquet to it"):
            scan_files(spark, absent, "paths")
        assert "k" in scan_files(spark, absent).columns


SEGMENTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1
).filter(lambda text: text not in (".", ".."))
FILES = st.lists(
    st.fixed_dictionaries(
        {
            "path": st.lists(SEGMENTS, min_size=1, max_size=3).map(
                lambda s: "s3a://b/" + "/".join(s)
            ),
            "size": st.integers(0, 2**63 - 1),
            "modified": st.integers(-(2**63), 2**63 - 1),
            "partition": st.integers(0, 2**63 - 1),
        }
    ),
    min_size=1,
    max_size=4,
)


@given(FILES)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_hadoop_reads_the_statuses_back(spark, files):
    jvm = pinned_module._jvm(spark.sparkContext._gateway)
    statuses = jvm.statuses(encode_statuses(pa.Table.from_pylist(files)), len(files))
    for status, file in zip(statuses, files, strict=True):
        assert status.isFile()
        assert status.getPath().equals(jvm.Path(file["path"]))
        assert status.getLen() == file["size"]
        assert status.getModificationTime() == file["modified"]
        assert status.getOwner() == str(file["partition"])


# --- paths: what only it has to get right


def test_rows_of_a_file_without_a_partition_are_an_error(spark, tmp_path):
    given_scan, paths = by_number(tmp_path)
    read = spark.read.schema(A).parquet(*(str(path) for path, _ in paths))
    known = [(f"file:{path}", k) for path, k in paths[:2]]
    mapped = spark.createDataFrame([(k, path) for path, k in known], "k int, file string")
    frame = _attach(read, mapped, given_scan.partition_schema)
    for query in (
        frame,
        frame.select("a"),
        frame.select("k"),
        frame.where("k = 1"),
        frame.groupBy().count(),
    ):
        with pytest.raises(Exception, match="no partition for file"):
            query.collect()


def test_spark_connect_reads_by_paths(spark, tmp_path):
    """In a process of its own, since a process has either kind of session."""
    paths = [(write(tmp_path / d / f"{i} f%20.parquet", a=[i]), i) for i, d in enumerate(NASTY)]
    nasty = scan(
        files_table(*paths),
        {"d": NASTY, "n": [str(i) for i in range(len(NASTY))]},
        keys("d string", "n int"),
    )
    pq.write_table(nasty.files, tmp_path / "files.parquet")
    pq.write_table(nasty.partitions, tmp_path / "partitions.parquet")
    script = textwrap.dedent(
        """
        import json, sys
        import pyarrow.parquet as pq
        from pyspark.sql import SparkSession
        from pyspark.sql.types import StructType
        from splitlib.errors import ConfigError
        from splitlib.spark.file_scan import FileScan
        from splitlib.spark.scan.files import scan_files

        spark = (
            SparkSession.builder.remote("local[2]")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
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
        print(json.dumps({"kind": type(spark).__module__, "refused": refused, "rows": rows}))
        spark.stop()
        """
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert "connect" in result["kind"]
    assert "Spark Connect" in result["refused"]
    assert sorted(map(tuple, result["rows"]), key=repr) == rows(scan_files(spark, nasty))
    assert len(result["rows"]) == len(NASTY)
