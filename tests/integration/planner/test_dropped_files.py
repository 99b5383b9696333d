"""Files whose footers exclude all join keys are dropped before Spark plans tasks for them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.jvm import hadoop
from splitlib.spark.planner.scan_sites import prunable
from splitlib.spark.session_catalog import relation
from splitlib.statistics import known
from splitlib.statistics.store import StatisticsStore

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

FILES, EACH = 12, 100


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    monkeypatch.setattr(prunable, "LEAST_BYTES", 1)
    monkeypatch.setattr(known, "LEARNED", StatisticsStore())


@pytest.fixture(scope="module")
def facts(spark, tmp_path_factory):
    """Register a partitioned and an unpartitioned table, whose files have distinct items."""
    root = tmp_path_factory.mktemp("dropped_files")
    for number in range(FILES):
        items = range(number * EACH, (number + 1) * EACH)
        table = pa.table({"item": items, "amount": [i % 7 for i in items]})
        for place in (f"parts/day={number % 6}", "whole"):
            (root / place).mkdir(parents=True, exist_ok=True)
            pq.write_table(table, root / place / f"{number:02}.parquet")
    for name in ("parts", "whole"):
        spark.read.parquet(str(root / name)).createOrReplaceTempView(f"dropped_{name}")
    items = spark.range(FILES * EACH).selectExpr("id", "id DIV 10 AS brand")
    items.write.parquet(str(root / "items"))
    spark.read.parquet(str(root / "items")).createOrReplaceTempView("dropped_items")
    yield root
    for name in ("parts", "whole", "items"):
        spark.catalog.dropTempView(f"dropped_{name}")


def read(df):
    """Return the names of the files of facts that a query reads."""
    return {Path(path).name for path in df.inputFiles() if "part-" not in path}


@pytest.mark.parametrize("fact", ["parts", "whole"])
@pytest.mark.parametrize(
    ("join", "files"),
    [
        ("JOIN dropped_items d ON f.item = d.id WHERE d.brand IN (3, 70)", 2),
        ("JOIN dropped_items d ON f.item <=> d.id WHERE d.brand IN (3, 70)", 2),
        ("JOIN dropped_items d ON f.item > d.id AND f.item < d.id + 5.5 WHERE d.brand = 70", 5),
        ("LEFT SEMI JOIN (SELECT * FROM dropped_items WHERE brand = 5) d ON f.item = d.id", 1),
        ("LEFT ANTI JOIN (SELECT * FROM dropped_items WHERE brand = 5) d ON f.item = d.id", FILES),
        (
            "RIGHT JOIN (SELECT * FROM dropped_items WHERE brand = 5) d "
            "ON f.item = d.id AND f.amount = d.id % 7",
            1,
        ),
    ],
)
def test_rows_are_those_of_spark(spark, facts, fact, join, files):
    query = f"SELECT f.item, f.amount FROM dropped_{fact} f {join}"
    for _ in range(2):
        df = splitlib.sql(spark, query)
        assert sorted(df.collect()) == sorted(spark.sql(query).collect())
        assert len(read(df)) == files
        if files < FILES:
            (scan,) = (s for s in splitlib.explain(df).scans if s.row_groups.total)
            assert (scan.files, scan.row_groups) == ((files, FILES), (files, FILES))
            assert f"files {files} of {FILES}, row groups" in str(splitlib.explain(df))


@pytest.mark.parametrize("modified", [None, 1_600_000_000])
def test_a_query_reads_a_footer_once(spark, tmp_path, monkeypatch, modified):
    """The planner reads a sample, and the enumerator reads only the other footers."""
    for number in range(3 * FILES):
        table = pa.table({"item": range(number * 10, number * 10 + 10)})
        table = table.append_column("note", [[f"{i:0400}" for i in range(10)]])
        path = tmp_path / f"{number:02}.parquet"
        pq.write_table(table, path, compression="none", use_dictionary=False)
        if modified is not None:
            os.utime(path, (modified, modified))
    reads = []
    for module in (relation, hadoop):
        read_end = module.read_end

        def counted(jvm, conf, path, size, length, read_end=read_end):
            reads.append(Path(path).name)
            return read_end(jvm, conf, path, size, length)

        monkeypatch.setattr(module, "read_end", counted)
    fact = spark.read.parquet(str(tmp_path))
    dimension = spark.range(1000).where("id IN (15, 203)")
    df = splitlib.optimize(fact.join(dimension, fact.item == dimension.id))
    assert sorted(row.item for row in df.collect()) == [15, 203]
    assert sorted(reads) == [f"{number:02}.parquet" for number in range(3 * FILES)]
    (scan,) = (s for s in splitlib.explain(df).scans if s.filters)
    assert scan.storage_requests == 3 * FILES
    assert scan.files == (2, 3 * FILES)


def replaced(directory, first, modified):
    """Write four files of 100 items each. Another call writes files of the same names and sizes."""
    for number in range(4):
        path = directory / f"day={number % 2}" / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        items = range(first + number * EACH, first + (number + 1) * EACH)
        table = pa.table({"item": items, "note": [f"{item:0200}" for item in items]})
        pq.write_table(table, path, compression="none", use_dictionary=False)
        os.utime(path, (modified, modified))


@pytest.mark.parametrize("directory", ["t", "t/day=0"])
@pytest.mark.parametrize("where", ["true", "day = 0"])
def test_files_that_were_replaced_are_read(spark, tmp_path, directory, where):
    """Spark keeps its list of files, and reads the files as they are now."""
    replaced(tmp_path / "t", 0, 1_600_000_000)
    fact = spark.read.option("basePath", str(tmp_path / "t")).parquet(str(tmp_path / directory))
    dimension = spark.range(2000).where("id IN (5, 1205)")
    joined = fact.where(where).join(dimension, fact.item == dimension.id).select("item")
    for _ in range(2):
        df = splitlib.optimize(joined)
        assert [row.item for row in df.collect()] == [5]
        assert read(df) == {"0.parquet"}
    # The directories of the files that earlier statistics drop were listed again.
    (scan,) = (s for s in splitlib.explain(df).scans if s.filters)
    assert scan.storage_requests == (2 if directory == "t" and where == "true" else 1)
    replaced(tmp_path / "t", 1000, 1_600_000_500)
    assert [row.item for row in joined.collect()] == [1205]
    assert [row.item for row in splitlib.optimize(joined).collect()] == [1205]


def test_files_of_a_catalog_table_that_were_replaced_are_read(spark, tmp_path):
    replaced(tmp_path / "t", 0, 1_600_000_000)
    spark.sql(f"CREATE TABLE replaced_files USING parquet LOCATION '{tmp_path / 't/day=0'}'")
    query = """SELECT item FROM replaced_files JOIN
        (SELECT * FROM VALUES (5), (1205) AS v(id) WHERE id > 0) ON item = id"""
    try:
        assert read(splitlib.sql(spark, query)) == {"0.parquet"}
        replaced(tmp_path / "t", 1000, 1_600_000_500)
        assert [row.item for row in splitlib.sql(spark, query).collect()] == [1205]
    finally:
        spark.sql("DROP TABLE replaced_files")


def test_saved_statistics_are_those_of_the_table(spark, facts, tmp_path, monkeypatch):
    for number in range(FILES):
        path = tmp_path / f"t/day={number % 6}/{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        items = range(number * EACH, (number + 1) * EACH)
        # Keys are only collected from a table that is small in comparison with the facts.
        table = pa.table({"item": items, "note": [f"{item:0200}" for item in items]})
        pq.write_table(table, path, compression="none", use_dictionary=False)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    spark.read.parquet(str(tmp_path / "t")).createOrReplaceTempView("dropped_saved")
    spark.conf.set("spark.splitlib.statisticsLocation", str(tmp_path / "statistics"))
    try:
        for days in ("0, 1, 2", "3, 4, 5"):
            monkeypatch.setattr(known, "LEARNED", StatisticsStore())
            df = splitlib.sql(
                spark,
                f"""SELECT f.item FROM dropped_saved f JOIN dropped_items d ON f.item = d.id
                JOIN (SELECT * FROM VALUES {days} AS v(day)) v ON f.day = v.day
                WHERE d.brand IN (3, 33)""",
            )
            assert len(read(df)) == 1
    finally:
        spark.conf.unset("spark.splitlib.statisticsLocation")
        spark.catalog.dropTempView("dropped_saved")
    columns = {file.parent for file in (tmp_path / "statistics").rglob("*.parquet")}
    assert len(columns) == 1


def test_switched_off(spark, facts):
    query = "SELECT f.item FROM dropped_whole f JOIN dropped_items d ON f.item = d.id"
    spark.conf.set("spark.splitlib.learnStatistics", "false")
    try:
        assert len(read(splitlib.sql(spark, f"{query} WHERE d.brand = 3"))) == FILES
    finally:
        spark.conf.unset("spark.splitlib.learnStatistics")


@pytest.mark.parametrize("chosen", ["amount = 5", "amount % 3 = 2"])
@pytest.mark.parametrize("form", ["parquet", "orc"])
@pytest.mark.parametrize(
    "item",
    [
        # Row 5 has a day that Java's old calendar does not have, or a minute that clocks in the
        # time zone of the JVM showed twice.
        "date_add(DATE'1582-10-02', int(id))",
        "TIMESTAMP_LTZ'1883-11-18 11:56:00' + make_dt_interval(0, 0, int(id))",
    ],
)
def test_values_that_java_converts_to_others(spark, tmp_path, item, form, chosen):
    """Spark's readers would skip the files with these values, if they got them as a condition."""
    rows = spark.range(0, 400, 1, 10).selectExpr(f"{item} AS item", "id AS amount")
    writing = {
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    }
    with changed(spark, writing):
        rows.write.format(form).save(str(tmp_path / "t"))
        rows.where(chosen).select("item").write.parquet(str(tmp_path / "d"))
    fact = spark.read.format(form).load(str(tmp_path / "t"))
    keys = spark.read.parquet(str(tmp_path / "d"))
    joined = fact.join(keys, "item").select("amount")
    expected = sorted(joined.collect())
    if form == "parquet":  # The ORC writer itself converts the values.
        assert expected == sorted(fact.where(chosen).select("amount").collect())
    planned = splitlib.optimize(joined)
    assert sorted(planned.collect()) == expected
    read = splitlib.read(spark).table(str(tmp_path / "t"), connector="files", format=form)
    found = read.filtered_by(keys, on={"item": "item"}).load()
    assert sorted(found.join(keys, "item").select("amount").collect()) == expected
