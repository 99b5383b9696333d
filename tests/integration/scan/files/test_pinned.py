"""A pinned scan has a fixed list of files. Creating it is cheap, and Spark optimizes it well."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as sf

from benchmarks.tpcds.settings import changed
from splitlib.spark.conversion import typed_columns
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.file_index import pinned_index
from splitlib.spark.jvm.gateway import (
    analyzed_plan,
    dataframe_of_relation,
    internal_rows,
    jvm_of,
    session_of,
)
from splitlib.spark.jvm.listing import PATH, file_statuses, list_directories
from splitlib.spark.jvm.pinned_relation import pinned_leaf, pinned_relation
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.scan import pinned_scan, scan_files
from tests.integration.scan.files.given_files import (
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


def test_pinning_looks_at_nothing(spark):
    """Planning a pinned scan starts no job and accesses no file. The files do not even exist."""
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


def test_calls_to_the_jvm_do_not_grow_with_files(spark, jvm_calls):
    def calls_for(count, partitions):
        wanted = scan(
            absent_files(count, partitions),
            {"k": [str(i) for i in range(partitions)]},
            keys("k int"),
        )
        pinned_scan(spark, wanted)
        jvm_calls.clear()
        pinned_scan(spark, wanted)
        return len(jvm_calls)

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


def test_a_pruned_scan_keeps_its_storage(spark):
    """Hadoop's settings have case-sensitive names."""
    files = absent_files(1, 1).set_column(0, "path", [["s3a://bucket/t/f.parquet"]])
    storage = {"s3": {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:1"}}
    schema, values = keys("k int"), pa.table({"k": pa.array([1], pa.int32())})
    with_storage = replace(scan(files, {"k": ["1"]}, schema), storage=storage)
    relation = pinned_relation(spark, with_storage)
    leaf = analyzed_plan(dataframe_of_relation(spark, relation))
    rows = internal_rows(typed_columns(spark, values, schema))
    pruned = pinned_leaf(Catalyst(spark), leaf, files, values, rows).relation()
    state: Any = session_of(spark).sessionState()
    before, after = (
        state.newHadoopConfWithOptions(one.options()).getPropsWithPrefix("fs.")
        for one in (relation, pruned)
    )
    assert before == after
    assert any("linkFallback" in name for name in after)


def test_listings_with_and_without_block_locations(spark, tmp_path):
    """Some ways of listing return the locations of blocks, and a scan may use files of several."""
    made = [write(tmp_path / f"k={i}" / "f.parquet", a=[i]) for i in (0, 1)]
    catalyst = Catalyst(spark)
    scala, session = catalyst.scala, session_of(spark)
    conf = session.sessionState().newHadoopConf()
    known = []
    for path, ignored in zip(made, ("false", "true"), strict=True):
        with changed(spark, {"spark.sql.sources.ignoreDataLocality": ignored}):
            directories = catalyst.relations.directories_at([path.parent.as_uri()])
            known.append(list_directories(scala, session, conf, directories, 1).statuses)
    files, schema = files_table(*zip(made, (0, 1), strict=True)), keys("k int")
    values = pa.table({"k": pa.array([0, 1], pa.int32())})
    kind, rows = (
        session.parseDataType(schema.json()),
        internal_rows(typed_columns(spark, values, schema)),
    )
    index = pinned_index(scala, session, files, kind, rows, "mixed", scala.joined(*known))
    assert index.allFiles().size() == 2


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
    # the message of PySpark 3.5 is None
    with pytest.raises(Exception, match=r"pinned-by-splitlib|^None$"):
        spark.catalog.refreshTable("pinned_view")
    assert rows(spark.table("pinned_view")) == [(0, 0), (1, 1), (2, 2)]
    frame.cache()
    try:
        frame.count()
        # A write to a path makes Spark refresh cached plans that read below this path.
        frame.write.mode("append").parquet(str(tmp_path / "copy"))
        spark.catalog.refreshByPath(str(tmp_path))
        assert rows(frame) == [(0, 0), (1, 1), (2, 2)]
    finally:
        frame.unpersist()
        spark.catalog.dropTempView("pinned_view")


def test_pinned_is_the_choice_where_it_works(spark):
    assert internals_unavailable(spark) is None
    absent = scan(absent_files(2, 2), {"k": ["0", "1"]}, keys("k int"))
    assert "pinned-by-splitlib" in scan_files(spark, absent)._jdf.queryExecution().toString()


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
    jvm = jvm_of(spark)
    statuses = file_statuses(jvm, pa.Table.from_pylist(files))
    for status, file in zip(statuses, files, strict=True):
        assert not status.isDirectory()
        assert status.getPath().equals(jvm.class_(PATH)(file["path"]))
        assert status.getLen() == file["size"]
        assert status.getModificationTime() == file["modified"]
        assert status.getOwner() == str(file["partition"])
