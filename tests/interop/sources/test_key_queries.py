"""Queries that collect join keys from tables of Iceberg and Delta, some at the same time."""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.filtering.data import DynamicFilteringData
from splitlib.spark.keys import collect_distinct
from splitlib.spark.planner import keys
from tests.interop.sources.conftest import created
from tests.support.delta_log import add, commit, field, metadata, protocol

PRUNED_BY_SPARK = "dynamicpruning"


def test_scans_that_queries_share_are_not_changed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Key queries do not use scan objects that other threads may use.

    At run time, Iceberg adds Spark's dynamic filters to the scan object and thus changes it.
    """
    spark.sql(
        "CREATE TABLE ice.db.bridge USING iceberg PARTITIONED BY (day) AS "
        "SELECT id % 30 AS day, id % 7 AS a, id % 5 AS b FROM RANGE(300)"
    )
    spark.sql(
        # The rows of a table without partitions would be kept, and not be read by key queries.
        "CREATE TABLE ice.db.chosen USING iceberg PARTITIONED BY (bucket(2, day)) AS "
        "SELECT id AS day, id % 5 AS grp FROM RANGE(20)"
    )
    for name in ("a", "b"):
        spark.sql(
            f"CREATE TABLE fact_{name} USING parquet PARTITIONED BY ({name}) AS "
            f"SELECT id AS n, id % 40 AS {name} FROM RANGE(400)"
        )
    query = (
        "SELECT fact_a.n, fact_b.n FROM ice.db.bridge "
        "JOIN ice.db.chosen USING (day) JOIN fact_a USING (a) JOIN fact_b USING (b) "
        "WHERE grp = 3"
    )
    plans: list[str] = []

    def noting(rows: DataFrame, *rest: object, **named: bool) -> DynamicFilteringData:
        plans.append(rows._jdf.queryExecution().toString())
        return collect_distinct(rows, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(keys, "collect_distinct", noting)
    expected = spark.sql(query)
    assert PRUNED_BY_SPARK in expected._jdf.queryExecution().toString()
    planned = splitlib.sql(spark, query)
    both = [plan for plan in plans if "chosen" in plan]
    assert len(both) > 1
    assert not any(PRUNED_BY_SPARK in plan for plan in both)
    assert sorted(planned.collect()) == sorted(expected.collect())
    for name in ("fact_a", "fact_b", "ice.db.bridge", "ice.db.chosen"):
        spark.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize(("digits", "is_pruned"), [(15, True), (38, False)])
def test_decimals_with_bounds_that_delta_rs_rounds(
    spark: SparkSession, tmp_path: Path, digits: int, is_pruned: bool
) -> None:
    """delta-rs converts bounds to doubles. Delta skips files by these bounds."""
    value = Decimal("1538.070000000000123456")
    scale = 18 if digits == 38 else 2
    with localcontext(prec=digits):
        value = value.quantize(Decimal(1).scaleb(-scale))
    rows = pa.table({"k": pa.array([value], pa.decimal128(digits, scale)), "v": [1]})
    pq.write_table(rows, tmp_path / "f.parquet")
    known = {"minValues": {"k": 1538.07, "v": 1}, "maxValues": {"k": 1538.07, "v": 1}}
    columns = [field("k", f"decimal({digits},{scale})"), field("v", "long")]
    size = (tmp_path / "f.parquet").stat().st_size
    stats = json.dumps({"numRecords": 1, "nullCount": {"k": 0, "v": 0}, **known})
    commit(tmp_path, [protocol(), metadata(columns), add("f.parquet", size=size, stats=stats)])
    spark.sql(
        f"SELECT * FROM VALUES (CAST('{value}' AS DECIMAL({digits}, {scale})), 1), (NULL, 2) "
        "AS t(k, g)"
    ).createOrReplaceTempView("rounded")
    query = f"SELECT f.v FROM delta.`{tmp_path}` f JOIN rounded d ON f.k = d.k WHERE d.g = 1"
    planned = splitlib.sql(spark, query)
    assert [row.v for row in spark.sql(query).collect()] == [1]
    assert [row.v for row in planned.collect()] == [1]
    assert ("added condition" in str(splitlib.explain(planned))) is is_pruned
    spark.catalog.dropTempView("rounded")


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_timestamps_in_a_time_zone(spark: SparkSession, zone: str) -> None:
    """East of Greenwich, Delta fails on a condition with a timestamp that the query lacks."""
    at = "timestamp_seconds(1704067200 + 86400 * id)"
    with changed(spark, {"spark.sql.session.timeZone": zone}):
        fact = created(spark, "delta", f"SELECT {at} AS at, id, id % 2 AS day FROM range(40)")
        days = created(spark, "delta", f"SELECT {at} AS at, id % 9 AS v, 1 AS day FROM range(40)")
        query = f"SELECT f.id FROM {fact} f JOIN {days} d ON f.at = d.at WHERE d.v = 3"
        found = splitlib.sql(spark, query)
        assert sorted(found.collect()) == sorted(spark.sql(query).collect())
        has_condition = "added condition" in str(splitlib.explain(found))
        assert has_condition == (zone == "America/New_York")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT d.k, count(f.id) FROM {dim} d LEFT JOIN {fact} f ON f.day = d.k WHERE d.g = 1 "
        "GROUP BY d.k",
        "SELECT d.k FROM {dim} d WHERE d.g = 1 AND NOT EXISTS "
        "(SELECT 1 FROM {fact} f WHERE f.day = d.k)",
        "SELECT d.k, d.name, f.id FROM {dim} d JOIN {fact} f ON f.day = d.k WHERE d.g = 1",
        "SELECT f.id FROM {fact} f WHERE f.day > (SELECT max(k) - 2 FROM {dim} WHERE g = 1)",
        "SELECT f.id FROM {fact} f JOIN (SELECT k FROM {dim} WHERE g = 1 ORDER BY k LIMIT 2) d "
        "ON f.day = d.k",
        # Iceberg evaluates a condition on a partition column itself.
        "SELECT f.id FROM {fact} f WHERE f.day = (SELECT max(k) FROM {dim} WHERE region = 'EU')",
        "SELECT f.id FROM {fact} f JOIN (SELECT k FROM {dim} WHERE region = 'EU' AND g = 1 "
        "GROUP BY k HAVING count(*) = 1) d ON f.day = d.k",
        # Only some fields of a struct are read.
        "SELECT f.id FROM {fact} f JOIN {dim} d ON f.day = d.info.k WHERE d.info.flag = 'Y'",
        # Spark copies the left side of a lateral join, and gives the copy the same ids.
        "SELECT f.id FROM {fact} f JOIN (SELECT DISTINCT d.k FROM {dim} d, LATERAL "
        "(SELECT count(*) n FROM {dim} e WHERE e.other < d.other) t WHERE d.g = 1 AND n > 0) x "
        "ON f.day = x.k",
        "SELECT f.id FROM {fact} f JOIN (SELECT DISTINCT k FROM {dim} WHERE g >= 1) d "
        "ON f.day = d.k JOIN {dim} e ON e.k = d.k AND e.g < 2",
    ],
)
@pytest.mark.parametrize("partitioned_by", ["", "region"])
def test_rows_of_a_dimension_are_those_of_planning(
    spark: SparkSession, format_: str, query: str, partitioned_by: str
) -> None:
    """The keys and the join use the same rows, even if the dimension is changed in between."""
    fact = created(spark, format_, "SELECT id, int(id % 20) AS day FROM range(40)")
    info = "named_struct('id', id, 'name', 'x', 'k', int(id), 'flag', if(id < 2, 'Y', 'N'))"
    rows = (
        f"int(id) AS k, int(1) AS g, string(id) AS name, id AS other, {info} AS info, 'EU' region"
    )
    dim = created(spark, format_, f"SELECT {rows} FROM range(3)", partitioned_by)
    more = f"int({{0}}) + id, int({{1}}), 'new', {{0}} + id, {info}, '{{2}}'"
    spark.sql(f"INSERT INTO {dim} SELECT {more.format(2, 2, 'US')} FROM range(9)")
    text = query.format(dim=dim, fact=fact)
    before = sorted(spark.sql(text).collect())
    planned = splitlib.sql(spark, text)
    assert not splitlib.explain(planned).reasons
    assert sorted(planned.collect()) == before
    spark.sql(f"INSERT INTO {dim} SELECT {more.format(15, 1, 'EU')} FROM range(2)")
    is_kept = not any(part in query for part in ("LIMIT", "LATERAL", "info.", "max("))
    if is_kept and (format_ == "delta" or not partitioned_by):
        assert sorted(planned.select("*").collect()) == before
    assert sorted(splitlib.replan(planned).collect()) == sorted(spark.sql(text).collect())
