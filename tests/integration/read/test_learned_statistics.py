"""Files without join keys are dropped before Spark sees them, for every type that Spark writes."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib import DynamicFilteringData
from splitlib.enumeration import analyze, footer_reads, learning
from splitlib.errors import InvalidFilter
from splitlib.spark import footer_job
from splitlib.statistics import known
from splitlib.statistics.store import StatisticsStore
from tests.support.abilities import register_data_source

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

FILES, EACH = 8, 4
# By name: SQL of a value from a number, and whether its bounds are trusted.
COLUMNS = {
    "tiny": ("CAST(n AS TINYINT)", True),
    "whole": ("CAST(n AS INT)", True),
    "large": ("CAST(n AS BIGINT)", True),
    "price": ("CAST(n AS DECIMAL(7, 2))", True),
    "amount": ("CAST(n AS DECIMAL(30, 2))", True),
    "share": ("CASE WHEN n = 2 THEN double('NaN') ELSE CAST(n AS DOUBLE) END", True),
    "day": ("date_add(DATE '2000-01-01', n)", True),
    "ancient": ("date_add(DATE '1400-01-01', n)", False),
    "moment": ("timestamp_micros(n * 86400000000L)", True),
    "local": ("CAST(date_add(DATE '2000-01-01', n) AS TIMESTAMP_NTZ)", True),
    "name": ("concat('é', lpad(n, 3, '0'))", True),
    "code": ("CAST(concat('é', n) AS CHAR(7))", True),
    "raw": ("CAST(lpad(n, 3, '0') AS BINARY)", True),
}


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch):
    monkeypatch.setattr(known, "LEARNED", StatisticsStore())


@pytest.fixture(
    scope="module",
    params=[
        {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"},
        {"spark.sql.parquet.outputTimestampType": "INT96"},
        {
            "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
            "spark.sql.parquet.writeLegacyFormat": "true",
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
        },
    ],
    ids=["plain", "int96", "legacy"],
)
def table(request, spark):
    """Return the name of a table of Spark's own files, and the settings that wrote them."""
    name = f"learned_{sum(map(ord, str(request.param)))}"
    columns = ", ".join(f"{sql} AS {column}" for column, (sql, _) in COLUMNS.items())
    for key, value in request.param.items():
        spark.conf.set(key, value)
    try:
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        kinds = spark.sql(f"SELECT {columns} FROM VALUES (1) AS v(n)").dtypes
        declared = ", ".join(f"{c} {'char(7)' if c == 'code' else kind}" for c, kind in kinds)
        spark.sql(f"CREATE TABLE {name} ({declared}) USING parquet")
        for number in range(FILES):
            first = number * EACH
            rows = f"SELECT CAST(id AS INT) AS n FROM range({first}, {first + EACH}, 1, 1)"
            spark.sql(f"INSERT INTO {name} SELECT {columns} FROM ({rows})")
            spark.sql(f"INSERT INTO {name} SELECT {', '.join(['NULL'] * len(COLUMNS))}")
    finally:
        for key in request.param:
            spark.conf.unset(key)
    yield name, request.param
    spark.sql(f"DROP TABLE {name}")


def files_of(df: Any) -> list[str]:
    return sorted(Path(path).name for path in df.inputFiles())


@pytest.fixture
def sorted_files(spark, tmp_path):
    rows = spark.range(0, 1000, 1, 10).selectExpr("id AS item", "id % 2 AS half")
    rows.write.partitionBy("half").parquet(str(tmp_path / "t"))
    for path in (tmp_path / "t").rglob("*.parquet"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    return str(tmp_path / "t")


@pytest.mark.parametrize("scan", ["auto", "paths"])
def test_directories(spark, sorted_files, scan, monkeypatch):
    items = spark.sql("SELECT 7 AS i UNION ALL SELECT 950")
    monkeypatch.setenv("SPLITLIB_SPARK_SCAN", scan)
    for _ in range(2):
        reader = splitlib.read(spark).table(sorted_files, connector="files")
        df = reader.filtered_by(items, on={"item": "i"}).load()
        assert sorted(row.item for row in df.collect()) == [7, 950]
        # One file of each partition may have the value.
        assert splitlib.explain(df).files == (4, 20)
        assert len(files_of(df)) == 4


def test_the_data_source(spark, sorted_files):
    register_data_source(spark)
    data = DynamicFilteringData.from_arrow(pa.table({"item": [7, 950]}))
    df = (
        spark.read.format("splitlib")
        .option("connector", "files")
        .option("filter", base64.b64encode(data.to_bytes()).decode())
        .load(sorted_files)
    )
    assert df.rdd.getNumPartitions() == 1
    assert {7, 950} <= {row.item for row in df.collect()}


@pytest.mark.parametrize("column", COLUMNS)
def test_rows_are_those_of_spark(spark, table, column):
    name, written = table
    keys = spark.table(name).selectExpr(f"{column} AS k").where("k IS NOT NULL").orderBy("k")
    keys = splitlib.freeze(keys.limit(2))
    pruned = splitlib.read(spark).table(name).filtered_by(keys, on={column: "k"}).load()
    on = pruned[column] == keys["k"]
    whole = spark.table(name)
    expected = whole.join(keys, whole[column] == keys["k"], "left_semi")
    assert texts(pruned.join(keys, on, "left_semi")) == texts(expected)
    has_bounds = COLUMNS[column][1] and not (column == "moment" and "INT96" in written.values())
    files = 1 if has_bounds else FILES
    report = splitlib.explain(pruned)
    assert report.files.matched == files, str(report)
    assert len(files_of(pruned)) == files


def test_analyze(spark, sorted_files):
    spark.sql("DROP TABLE IF EXISTS learned_items")
    spark.sql(f"CREATE TABLE learned_items USING parquet LOCATION '{sorted_files}'")
    spark.sql("MSCK REPAIR TABLE learned_items")
    found = splitlib.analyze(spark, "learned_items", ["item"])
    assert (found.columns, found.files, found.learned, found.footers_read) == (
        ("item",),
        20,
        20,
        20,
    )
    keys = spark.sql("SELECT 7L AS k")
    df = splitlib.read(spark).table("learned_items").filtered_by(keys, on={"item": "k"}).load()
    report = splitlib.explain(df)
    assert (report.files, report.metrics.footers_read) == ((2, 20), 0)
    assert splitlib.analyze(spark, sorted_files, connector="files").columns == ("item",)
    spark.sql("DROP TABLE learned_items")


def test_analyze_in_a_job(spark, tmp_path, monkeypatch):
    """The driver reads the footers that executors cannot read, and those of the first files."""
    monkeypatch.setattr(footer_job, "LEAST_FILES", 1)
    monkeypatch.setattr(analyze, "FILES_OF_DRIVER", 2)
    monkeypatch.setattr(analyze, "FILES_TOGETHER", 2)
    on_driver = []
    read = footer_reads.read_rows

    def noted(*arguments):
        on_driver.append(arguments[-1].path)
        return read(*arguments)

    monkeypatch.setattr(footer_reads, "read_rows", noted)
    monkeypatch.setattr(learning, "read_rows", noted)
    place = tmp_path / "a b%20c#d?e"
    rows = ["id % 8 AS day", "id AS item", "CAST(id AS DECIMAL(9, 2)) AS price"]
    frame = spark.range(40).selectExpr(*rows).repartition(1)
    frame.write.partitionBy("day").parquet(str(place))
    damaged = next(place.glob("day=5/*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-4] + b"none")
    files = sorted(map(str, place.glob("*/*.parquet")))
    for file in files:
        os.utime(file, (1e9, 1e9))  # statistics of new files are not kept
    found = splitlib.analyze(spark, str(place), connector="files")
    assert (found.files, found.footers_read, found.learned) == (8, 8, 7)
    assert on_driver == [*files[:2], str(damaged)]
    filters = DynamicFilteringData.from_values({"item": [0], "price": [Decimal(0)]})
    table = splitlib.load_table(str(place), connector="files")
    assert splitlib.paths(table, filters) == [files[0], str(damaged)]
    assert len(on_driver) == 4  # the damaged file's footer has been tried again


def test_executors_need_pyarrow_alone(tmp_path):
    """The function that a job sends to executors imports nothing of splitlib."""
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"item": [3, 1, None]}), path)
    columns = pa.schema([("item", pa.int64())]).serialize().to_pybytes()
    (tmp_path / "reader").write_bytes(footer_job.by_value(footer_job.FooterReader(columns)))
    file = {"row": 7, "path": f"file://{path}", "size": path.stat().st_size, "modified": 0}
    program = f"""
import pickle, sys
sys.modules["splitlib"] = None
import pyarrow as pa
reader = pickle.load(open({str(tmp_path / "reader")!r}, "rb"))
(found,) = reader(iter([pa.RecordBatch.from_pylist([{file!r}])]))
print(found["row"].to_pylist(), pickle.loads(found["groups"][0].as_py())[0][0][:4])
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "[7] (1, 3, True, True)\n", done.stderr


def test_analyze_where(spark, tmp_path):
    """The condition is SQL, and reads partition columns only."""
    rows = ["date_add(DATE'2024-01-01', int(id % 5)) AS day", "id % 2 AS half", "id AS item"]
    spark.range(10).selectExpr(*rows).write.partitionBy("day", "half").parquet(str(tmp_path / "t"))
    path = str(tmp_path / "t")
    where = "day BETWEEN '2024-01-02' AND DATE'2024-01-03' AND half + 1 = 2"
    found = splitlib.analyze(spark, path, ["item"], where=where, connector="files")
    assert (found.files, found.footers_read) == (2, 2)
    with pytest.raises(InvalidFilter, match=r"^item cannot select files .* keys are day, half"):
        splitlib.analyze(spark, path, where="day > '2024-01-02' AND item = 3", connector="files")
    with pytest.raises(
        InvalidFilter,
        match=r"cannot select files to analyze: .*constant\.$",
    ):
        splitlib.analyze(spark, path, where="half < rand()", connector="files")
    command = [sys.executable, "-m", "splitlib", "analyze", path, "-c", "files", "--json"]
    run = subprocess.run([*command, "--where", where], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout)["files"] == 2


def test_a_column_with_a_default_that_old_files_do_not_have(spark):
    spark.sql("DROP TABLE IF EXISTS learned_default")
    spark.sql("CREATE TABLE learned_default (item BIGINT) USING parquet")
    for item in range(3):
        spark.sql(f"INSERT INTO learned_default VALUES ({item})")
    spark.sql("ALTER TABLE learned_default ADD COLUMN half INT DEFAULT 42")
    spark.sql("INSERT INTO learned_default VALUES (7, 1), (8, NULL)")
    keys = spark.sql("SELECT 42 AS k")
    df = splitlib.read(spark).table("learned_default").filtered_by(keys, on={"half": "k"}).load()
    assert sorted(row.item for row in df.where("half = 42").collect()) == [0, 1, 2]
    keys = spark.sql("SELECT 1L AS k")
    df = splitlib.read(spark).table("learned_default").filtered_by(keys, on={"item": "k"}).load()
    assert [(row.item, row.half) for row in df.where("item = 1").collect()] == [(1, 42)]
    assert len(files_of(df)) == 1
    spark.sql("DROP TABLE learned_default")


def texts(df: Any) -> list[str]:
    return sorted(str(row) for row in df.collect())
