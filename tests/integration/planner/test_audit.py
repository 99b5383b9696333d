"""``splitlib.audit``: joins of a workload, without reading the tables that they prune."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import splitlib
from splitlib import ConfigError
from splitlib.spark.audit import Audit, AuditedQuery, AuditedTable
from tests.integration.planner.tables import INNER, TWICE, explained, planner_tables

pytestmark = pytest.mark.spark

JOIN = "SELECT f.v FROM p_sales f JOIN p_days d ON"
PRUNED = {
    "inner": INNER,
    "interval": f"{JOIN} f.day BETWEEN d.id AND d.id + 1 WHERE d.name = 'n3'",
    "expression": f"{JOIN} f.day % 7 = d.id WHERE d.week = 1",
    "two keys": "SELECT f.v FROM p_two f JOIN p_days d ON f.d = d.d WHERE d.week = 1 AND k = 'k1'",
    "semi": "SELECT v FROM p_sales WHERE day IN (SELECT id FROM p_days WHERE week = 1)",
    "scalar": "SELECT v FROM p_sales WHERE day > (SELECT max(id) - 14 FROM p_days)",
}
# The joins that do not prune: part of the condition, of the reason, and of what to do.
OTHERS = {
    f"{JOIN} f.s = d.id WHERE d.week = 1": ("f.s =", "not by s", "Partition or cluster it by s"),
    f"{JOIN} f.day = d.id OR f.v = d.week": ("OR", "not a supported join", "UNION"),
    "SELECT f.v FROM p_sales f JOIN (SELECT id FROM p_days UNION ALL SELECT week FROM p_weeks) d "
    "ON f.day = d.id": ("f.day = d.id", "no condition that drops", "Add a condition"),
    f"{JOIN} f.day = d.id WHERE d.week >= 0": ("f.day", "match every partition", "narrower"),
    f"{JOIN} f.day + f.v = d.id WHERE d.week = 1": ("+ f.v", "combines the part", "alone"),
    "SELECT f.v, d.name FROM p_sales f FULL JOIN p_days d ON f.day = d.id AND d.week = 1": (
        "f.day = d.id", "FULL OUTER JOIN keeps", "INNER JOIN"
    ),
    "SELECT f.v FROM (SELECT * FROM p_sales LIMIT 5) f JOIN p_days d ON f.day = d.id "
    "WHERE d.week = 1": ("f.day = d.id", "below LIMIT", "Join the dimension before LIMIT"),
    "SELECT v FROM p_sales WHERE day NOT IN (SELECT id FROM p_days WHERE week = 1 AND id > 0)": (
        "day", "NOT IN", "add a condition on it"
    ),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    with planner_tables(spark):
        yield


def of(spark: SparkSession, sql: str, **options: bool) -> AuditedTable:
    (query,) = splitlib.audit(spark, sql, **options).queries
    assert query.reason is None, query.reason
    (table,) = query.tables
    return table


@pytest.mark.parametrize("sql", PRUNED.values(), ids=PRUNED)
def test_the_counts_are_those_of_the_planned_query(spark: SparkSession, sql: str) -> None:
    (scan,) = explained(splitlib.sql(spark, sql)).scans
    audited = of(spark, sql)
    assert audited.table == scan.table
    assert audited.can_be_pruned
    assert audited.partitions.matched == scan.partitions.matched
    assert any("its keys prune" in join.reason for join in audited.joins)
    listed = of(spark, sql, files=True)
    assert listed.files.matched == scan.files.matched
    assert listed.nbytes.matched == scan.nbytes.matched


@pytest.mark.parametrize("sql", OTHERS)
def test_joins_that_do_not_prune(spark: SparkSession, sql: str) -> None:
    condition, reason, remedy = OTHERS[sql]
    audited = of(spark, sql)
    assert not audited.can_be_pruned
    assert any(
        condition in join.condition and reason in join.reason and remedy in join.reason
        for join in audited.joins
    ), audited.joins


def test_explain_quotes_the_condition_and_names_the_columns(spark: SparkSession) -> None:
    for sql, (condition, reason, remedy) in OTHERS.items():
        if "not by" not in reason:
            (scan,) = explained(splitlib.sql(spark, sql)).scans
            text = str(scan)
            assert reason in text
            assert remedy in text
            assert condition in text
    (scan,) = explained(splitlib.sql(spark, f"{JOIN} f.s = d.id WHERE d.week = 1")).scans
    (reason,) = scan.reasons
    assert reason.startswith("f.s = ")
    assert reason.endswith(
        ": the join compares s, and not the partition columns (day). Partition or cluster the "
        "table by s, or join it by the partition columns too."
    )


def test_a_limit_that_is_exceeded_names_its_setting(spark: SparkSession) -> None:
    spark.conf.set("spark.splitlib.plannerDimensionBytes", "10")
    try:
        for text in (of(spark, INNER).joins[0].reason, str(explained(splitlib.sql(spark, INNER)))):
            assert "more than spark.splitlib.plannerDimensionBytes (10 B). Raise this" in text
    finally:
        spark.conf.unset("spark.splitlib.plannerDimensionBytes")
    spark.conf.set("spark.splitlib.plannerSmallFactPartitions", "21")
    try:
        limit = "only 21 partitions (spark.splitlib.plannerSmallFactPartitions is 21). Reading all"
        assert limit in of(spark, INNER).joins[0].reason
    finally:
        spark.conf.unset("spark.splitlib.plannerSmallFactPartitions")


def test_the_fact_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    """The audit works on a fact table whose files cannot be read, and estimates its bytes."""
    where = tmp_path / "facts"
    spark.sql(
        f"CREATE TABLE a_facts USING parquet PARTITIONED BY (day) LOCATION '{where}' AS "
        "SELECT id AS v, CAST(id % 20 AS int) AS day FROM range(200)"
    )
    try:
        spark.sql("ANALYZE TABLE a_facts COMPUTE STATISTICS")
        size = sum(file.stat().st_size for file in where.glob("*/*.parquet"))
        for file in where.glob("*/*.parquet"):
            file.write_bytes(b"no parquet")
        sql = "SELECT f.v FROM a_facts f JOIN p_days d ON f.day = d.id WHERE d.week = 1"
        with pytest.raises(Exception, match="parquet"):
            spark.sql(sql).collect()
        audited = of(spark, sql)
        assert audited.partitions == (4, 20)
        assert audited.is_estimated
        assert audited.nbytes == (size // 5, size)
    finally:
        spark.sql("DROP TABLE a_facts")


def test_keys_of_a_partitioned_table_are_not_collected(spark: SparkSession) -> None:
    sql = "SELECT r.v FROM p_returns r JOIN p_sales f ON r.day = f.s WHERE f.v < 3"
    spark.sql("ANALYZE TABLE p_sales COMPUTE STATISTICS")
    before = spark.sparkContext.statusTracker().getJobIdsForGroup(None)
    audited = splitlib.audit(spark, sql)
    assert spark.sparkContext.statusTracker().getJobIdsForGroup(None) == before
    assert "which the audit does not read" in str(audited)
    assert audited.tables[0].can_be_pruned
    assert audited.tables[0].partitions == (None, 15)


def queries_of(spark: SparkSession) -> Audit:
    return splitlib.audit(
        spark,
        {
            "twice": TWICE,
            "other": next(iter(OTHERS)),
            "command": "DROP TABLE p_days",
            "no table": "SELECT * FROM p_nope",
            "no SQL": "SELEC 1",
            "no join": "SELECT v FROM p_sales WHERE day = 1",
            "frame": spark.sql(INNER),
        },
    )


def test_a_workload(spark: SparkSession) -> None:
    audit = queries_of(spark)
    by_name: dict[str, AuditedQuery] = {query.name: query for query in audit.queries}
    assert [t.partitions for t in by_name["twice"].tables] == [(4, 20), (1, 20)]
    assert "a command" in (by_name["command"].reason or "")
    assert spark.catalog.tableExists("p_days")  # the command did not run
    assert [n for n, query in by_name.items() if query.is_error] == ["no table", "no SQL"]
    assert "p_nope" in (by_name["no table"].reason or "")
    assert "no join" in (by_name["no join"].reason or "")
    assert by_name["frame"].tables[0].partitions == (1, 20)
    assert audit.fixes == {("spark_catalog.default.p_sales", "s"): 1}
    assert 0 < audit.pruned_percent < 100
    assert json.loads(json.dumps(audit.to_dict())) == audit.to_dict()
    assert audit._repr_html_().count("<tr>") == 9


def test_wrong_arguments(spark: SparkSession) -> None:
    wrong: tuple[object, ...] = (3, [3], {"a": 3}, None)
    for queries in wrong:
        with pytest.raises(ConfigError, match="is not a query"):
            splitlib.audit(spark, queries)  # type: ignore[arg-type]
