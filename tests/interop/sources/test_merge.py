"""MERGE, UPDATE and DELETE through splitlib leave the same rows as with plain Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.planner import optimize
from tests.interop.sources.conftest import FORMATS, created

MATCHED = st.lists(
    st.sampled_from(
        [
            "WHEN MATCHED AND s.v % 3 = 0 THEN DELETE",
            "WHEN MATCHED AND t.v > s.v THEN UPDATE SET v = s.v",
            "WHEN MATCHED AND t.v IS NULL THEN UPDATE SET v = -1, note = 'matched'",
        ]
    ),
    unique=True,
    max_size=3,
).flatmap(
    lambda some: st.sampled_from(
        [
            some,
            [*some, "WHEN MATCHED THEN DELETE"],
            [*some, "WHEN MATCHED THEN UPDATE SET *"],
            [*some, "WHEN MATCHED THEN UPDATE SET note = s.note"],
        ]
    )
)
NOT_MATCHED = st.sampled_from(
    [
        [],
        ["WHEN NOT MATCHED THEN INSERT *"],
        ["WHEN NOT MATCHED AND s.v > 5 THEN INSERT (day, k, v) VALUES (s.day, s.k, s.v)"],
        [
            "WHEN NOT MATCHED AND s.k IS NULL THEN INSERT (day, v) VALUES (s.day, 0)",
            "WHEN NOT MATCHED THEN INSERT *",
        ],
    ]
)
NOT_BY_SOURCE = st.sampled_from(
    [
        [],
        ["WHEN NOT MATCHED BY SOURCE THEN DELETE"],
        ["WHEN NOT MATCHED BY SOURCE AND t.v > 4 THEN UPDATE SET note = 'alone'"],
        [
            "WHEN NOT MATCHED BY SOURCE AND t.v > 4 THEN DELETE",
            "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = t.v + 1",
        ],
    ]
)
ON = [
    "t.day = s.day AND t.k = s.k",
    "t.day = s.day AND t.k = s.k AND t.v < 8",
    "s.k = t.k AND t.day <=> s.day",
    "t.day = s.day AND t.k <= s.k AND t.k >= s.k",
    "t.k = s.k AND t.day + 1 = s.day + 1",
]
SOURCES = [
    "day < 4",
    "day IN (2, 7) OR day IS NULL",
    "day < 0",
    "day = 11 AND k > 1",
]


@pytest.fixture(scope="module")
def source(spark: SparkSession, format_: str) -> Iterator[str]:
    """Create a source table for the commands, with unique keys."""
    name = f"{FORMATS[format_]}.source"
    spark.sql(
        f"CREATE TABLE {name} USING {format_} AS "
        "SELECT IF(id = 40, NULL, CAST(id DIV 3 AS INT)) AS day, "
        "IF(id = 41, NULL, CAST(id % 3 AS INT)) AS k, "
        "CAST(id % 11 AS INT) AS v, CONCAT('new', id) AS note FROM RANGE(42)"
    )
    yield name
    spark.sql(f"DROP TABLE {name}")


TARGET = (
    "SELECT IF(id = 33, NULL, CAST(id DIV 3 AS INT)) AS day, "
    "IF(id = 34, NULL, CAST(id % 3 AS INT)) AS k, "
    "IF(id % 5 = 0, NULL, CAST(id % 9 AS INT)) AS v, CONCAT('old', id) AS note FROM RANGE(35)"
)


def rows_of(spark: SparkSession, table: str) -> Counter[Row]:
    """Return all rows of a table, without their order."""
    return Counter(spark.table(table).collect())


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.tuples(MATCHED, NOT_MATCHED, NOT_BY_SOURCE).filter(any),
    st.sampled_from(ON),
    st.sampled_from(SOURCES),
)
def test_every_combination_of_clauses(
    spark: SparkSession,
    format_: str,
    source: str,
    clauses: tuple[list[str], ...],
    on: str,
    where: str,
) -> None:
    text = " ".join(clause for some in clauses for clause in some)
    merge = f"MERGE INTO {{}} t USING (SELECT * FROM {source} WHERE {where}) s ON {on} {text}"
    tables = [created(spark, format_, TARGET) for _ in range(2)]
    spark.sql(merge.format(tables[0]))
    explained = splitlib.explain(splitlib.sql(spark, merge.format(tables[1])))
    assert rows_of(spark, tables[1]) == rows_of(spark, tables[0]), (merge, str(explained))
    for table in tables:
        spark.sql(f"DROP TABLE {table}")


def test_a_source_that_changes_meanwhile(
    spark: SparkSession, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "SELECT CAST(id AS INT) AS day, id AS k, 0 AS v FROM RANGE({}, {})"
    target = created(spark, format_, rows.format(0, 10))
    source = created(spark, format_, rows.format(2, 4), "k")
    collect = optimize.target_condition

    def and_then_more(*arguments: Any) -> Any:
        found = collect(*arguments)
        spark.sql(f"INSERT INTO {source} {rows.format(7, 9)}")
        return found

    monkeypatch.setattr("splitlib.spark.commands.target_condition", and_then_more)
    returned = splitlib.sql(
        spark,
        f"MERGE INTO {target} t USING {source} s ON t.day = s.day "
        "WHEN MATCHED THEN UPDATE SET v = 1 WHEN NOT MATCHED THEN INSERT *",
    )
    assert "added condition" in str(splitlib.explain(returned))
    assert spark.table(source).count() == 4
    changed = {row.day for row in spark.table(target).where("v = 1").collect()}
    assert spark.table(target).count() == 10
    assert changed in ({2, 3}, {2, 3, 7, 8})


@pytest.mark.parametrize(
    "command",
    [
        "DELETE FROM {t} WHERE day IN (SELECT day FROM {s} WHERE v = 3)",
        "DELETE FROM {t} x WHERE x.day IN (SELECT day FROM {s} WHERE v = 3) AND x.v > 2",
        "DELETE FROM {t} x WHERE EXISTS (SELECT 1 FROM {s} s WHERE s.day = x.day AND s.v = 3)",
        "DELETE FROM {t} WHERE day NOT IN (SELECT day FROM {s} WHERE v = 3 AND day IS NOT NULL)",
        "UPDATE {t} SET v = 100 WHERE day IN (SELECT day FROM {s} WHERE v = 3)",
        "UPDATE {t} AS x SET x.v = x.v + 1, note = 'n' "
        "WHERE EXISTS (SELECT 1 FROM {s} s WHERE s.day = x.day AND s.k = x.k AND s.v < 4)",
        "UPDATE {t} SET v = 100 WHERE v = 2 OR day IN (SELECT day FROM {s} WHERE v = 3)",
        "UPDATE {t} SET v = 100",
        "INSERT INTO {t} SELECT f.* FROM {t} f JOIN {s} s ON f.day = s.day WHERE s.v = 3",
        "INSERT OVERWRITE {t} SELECT f.* FROM {t} f JOIN {s} s ON f.day = s.day WHERE s.v = 3",
        "WITH j AS (SELECT f.* FROM {t} f JOIN {s} s ON f.day = s.day WHERE s.v = 3) "
        "INSERT INTO {t} SELECT * FROM j",
        "INSERT INTO {t} REPLACE WHERE day = 3 "
        "SELECT f.* FROM {t} f JOIN {s} s ON f.day = s.day WHERE s.v = 3 AND f.day = 3",
        "WITH j AS (SELECT * FROM {s} WHERE v = 3) "
        "UPDATE {t} SET note = 'n' WHERE day IN (SELECT day FROM j)",
    ],
)
def test_other_commands(spark: SparkSession, format_: str, source: str, command: str) -> None:
    tables = [created(spark, format_, TARGET) for _ in range(2)]
    changes = command.startswith("DELETE") or "UPDATE" in command
    if format_ == "delta" and changes and "SELECT" in command:
        # Delta does not support subqueries in these commands.
        for run in (SparkSession.sql, splitlib.sql):
            with pytest.raises(AnalysisException, match="DELTA_UNSUPPORTED_SUBQUERY"):
                run(spark, command.format(t=tables[0], s=source))
        return
    spark.sql(command.format(t=tables[0], s=source))
    returned = splitlib.sql(spark, command.format(t=tables[1], s=source))
    assert rows_of(spark, tables[1]) == rows_of(spark, tables[0]), splitlib.explain(returned)
    implies = " OR " not in command and " NOT IN " not in command and "100" not in command[-3:]
    report = splitlib.explain(returned)
    assert ("added condition" in str(report)) is implies, str(report)
    # The command has changed the table, so ``explain`` cannot count the files it had before.
    assert all(scan.files.total is None for scan in report.scans)


def test_what_with_defines_is_no_table(spark: SparkSession) -> None:
    # The commands below must not use this view, because their WITH clause defines the same name.
    spark.sql("SELECT 9 AS day").createOrReplaceTempView("days")
    table = created(spark, "iceberg", TARGET)
    splitlib.sql(
        spark,
        f"WITH days AS (SELECT 5 AS day) DELETE FROM {table} WHERE day IN (SELECT day FROM days)",
    )
    spark.catalog.dropTempView("days")
    left = {row.day for row in spark.table(table).select("day").collect()}
    assert 5 not in left
    assert 9 in left


@pytest.mark.parametrize(
    "merge",
    [
        "MERGE INTO {t} t USING (SELECT x.day AS d, x.k, x.note FROM {s} x WHERE x.v = 3) "
        "ON t.day = d AND t.k = x.k WHEN MATCHED THEN UPDATE SET note = x.note",
        "WITH j AS (SELECT * FROM {s} WHERE v = 3) MERGE INTO {t} t USING j s "
        "ON t.day = s.day AND t.k = s.k WHEN MATCHED THEN UPDATE SET note = s.note",
    ],
)
def test_sources_of_a_merge(spark: SparkSession, format_: str, source: str, merge: str) -> None:
    """Join keys are also collected from a query without an alias and from a WITH clause."""
    tables = [created(spark, format_, TARGET) for _ in range(2)]
    spark.sql(merge.format(t=tables[0], s=source))
    report = splitlib.explain(splitlib.sql(spark, merge.format(t=tables[1], s=source)))
    assert rows_of(spark, tables[1]) == rows_of(spark, tables[0])
    assert "added condition" in str(report)


@pytest.mark.parametrize(
    ("merge", "partitions"),
    [
        ("MERGE INTO {t} t USING (SELECT * FROM {s} WHERE day < 3) s", 3),
        ("MERGE INTO {t} t USING {s} s", 13),
        ("WITH j AS (SELECT * FROM {s} WHERE day < 3) MERGE INTO {t} t USING j s", 0),
    ],
)
def test_a_source_in_a_named_catalog(
    spark: SparkSession, format_: str, merge: str, partitions: int
) -> None:
    """The source reads the matching partitions; a source in a WITH clause reads all of them."""
    source = "default.arrived"
    spark.sql(f"CREATE TABLE {source} USING parquet PARTITIONED BY (day) AS {TARGET} LIMIT 0")
    tables = [created(spark, format_, TARGET) for _ in range(2)]
    clauses = (
        "ON t.day = s.day AND t.k = s.k WHEN MATCHED THEN UPDATE SET note = 'm' "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    try:
        spark.sql(
            f"INSERT INTO {source} (v, note, k, day) SELECT v, 'new', k + 1, day FROM {tables[0]}"
        )
        spark.sql(f"{merge.format(t=tables[0], s=source)} {clauses}")
        with changed(spark, {"spark.splitlib.catalog.own.connector": "session"}):
            text = merge.format(t=tables[1], s=f"own.{source}")
            report = splitlib.explain(splitlib.sql(spark, f"{text} {clauses}"))
        assert rows_of(spark, tables[1]) == rows_of(spark, tables[0])
        of_source = [scan for scan in report.scans if scan.table.endswith("arrived")]
        assert sum(scan.partitions.matched or 0 for scan in of_source) == partitions
    finally:
        spark.sql(f"DROP TABLE {source}")


def test_a_merge_that_reads_metadata_of_its_source(spark: SparkSession) -> None:
    rows = "SELECT CAST(id AS INT) AS day, id AS k, '' AS note FROM RANGE({})"
    target, source = (created(spark, "iceberg", rows.format(n)) for n in (6, 3))
    report = splitlib.explain(
        splitlib.sql(
            spark,
            f"MERGE INTO {target} t USING {source} s ON t.day = s.day AND t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET note = s._file",
        )
    )
    expected = {row[0] for row in spark.sql(f"SELECT _file FROM {source}").collect()}
    found = {row.note for row in spark.table(target).where("k < 3").collect()}
    assert found == expected
    assert "metadata columns" in str(report)


@pytest.mark.parametrize("where", ["day > 100", "day IS NULL"])
def test_a_day_on_which_nothing_arrived(
    spark: SparkSession, format_: str, source: str, where: str
) -> None:
    """A source without keys, or with only null keys, leaves the same rows as plain Spark."""
    arrived = spark.table(source).where(where)
    wanted = splitlib.merge_condition(arrived, {"t.day": "day"})
    merge = (
        f"MERGE INTO {{}} t USING (SELECT * FROM {source} WHERE {where}) s ON t.day = s.day "
        "AND t.k = s.k{} WHEN MATCHED THEN UPDATE SET note = 'n' WHEN NOT MATCHED THEN INSERT *"
    )
    tables = [created(spark, format_, TARGET) for _ in range(3)]
    spark.sql(merge.format(tables[0], ""))
    spark.sql(merge.format(tables[1], f" AND {wanted}"))
    splitlib.sql(spark, merge.format(tables[2], ""))
    assert rows_of(spark, tables[1]) == rows_of(spark, tables[0])
    assert rows_of(spark, tables[2]) == rows_of(spark, tables[0])


def test_a_table_made_of_a_join(spark: SparkSession, format_: str, source: str) -> None:
    fact = created(spark, format_, TARGET)
    query = f"SELECT f.* FROM {fact} f JOIN {source} s ON f.day = s.day WHERE s.v = 3"
    made = f"{FORMATS[format_]}.made"
    returned = splitlib.sql(spark, f"CREATE TABLE {made} USING {format_} AS {query}")
    assert "added condition" in str(splitlib.explain(returned))
    assert rows_of(spark, made) == Counter(spark.sql(query).collect())
    replace = f"CREATE OR REPLACE TABLE {made} USING {format_} AS {query}"
    if format_ == "delta" and spark.version.startswith("3.5."):
        # Delta 3.3.2 does not support this command on Spark 3.5.9, which truncates the new table.
        for run in (SparkSession.sql, splitlib.sql):
            with pytest.raises(AnalysisException, match="does not support truncate"):
                run(spark, replace)
        return
    returned = splitlib.sql(spark, replace)
    assert "added condition" in str(splitlib.explain(returned))
    assert rows_of(spark, made) == Counter(spark.sql(query).collect())


def test_a_command_that_fails_says_what_spark_says(
    spark: SparkSession, format_: str, source: str
) -> None:
    table = created(spark, format_, TARGET)
    for command in (
        f"MERGE INTO {table} t USING {source} s ON t.nope = s.k WHEN MATCHED THEN DELETE",
        f"DELETE FROM {table} WHERE nope IN (SELECT k FROM {source})",
        f"INSERT INTO {table} SELECT k FROM {source}",
        f"UPDATE {table} SET nope = 1 WHERE k IN (SELECT k FROM {source} WHERE v = 3)",
        # The MERGE fails because one row of the target matches two source rows.
        f"MERGE INTO {table} t USING {source} s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v",
    ):
        before = rows_of(spark, table)
        # Spark's and Delta's errors have no common base class other than Exception.
        with pytest.raises(Exception) as plain:  # noqa: PT011
            spark.sql(command)
        with pytest.raises(type(plain.value)):
            splitlib.sql(spark, command)
        assert rows_of(spark, table) == before


def test_a_cache_does_not_hide_the_table_to_overwrite(spark: SparkSession, format_: str) -> None:
    fact = created(spark, format_, "SELECT id AS v, CAST(id % 9 AS INT) AS day FROM RANGE(90)")
    spark.sql("CREATE TABLE to_overwrite USING parquet AS SELECT 1L AS v, 2 AS k")
    command = (
        f"INSERT OVERWRITE to_overwrite SELECT f.v, f.day FROM {fact} f "
        "JOIN to_overwrite t ON f.day = t.k WHERE t.v = 1"
    )
    try:
        spark.table("to_overwrite").cache()
        for run in (type(spark).sql, splitlib.sql):
            with pytest.raises(AnalysisException, match=r"(?i)overwrite"):
                run(spark, command)
        assert spark.table("to_overwrite").count() == 1
    finally:
        spark.sql("DROP TABLE to_overwrite")
