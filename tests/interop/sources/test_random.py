"""Random star joins over Delta tables, Iceberg tables, a database and files."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import cycle

import pytest
from pyspark.sql import SparkSession

from benchmarks.tpcds.settings import changed
from tests.integration.randomized import star_tables
from tests.integration.randomized.programs import Optimizing, Program, Step, compare, plain, run
from tests.integration.randomized.spark_settings import QUICK
from tests.integration.randomized.star_queries import StarQueries
from tests.interop.sources.conftest import FORMATS
from tests.support.abilities import without_collations

QUERIES = int(os.environ.get("RANDOM_QUERIES", "40"))
SEED = int(os.environ.get("RANDOM_SEED", "20201161"))
_AT_A_TIME = 10
# These tables are not converted. Two use collations, which Iceberg does not support. The other two
# test unusual directories.
_AS_FILES = ("r_case", "r_group", "r_root", "r_glob")
_HIVE = re.compile(r"\((.*)\) PARTITIONED BY \((\w+) (\w+)\) STORED AS textfile")


@pytest.fixture(scope="module")
def session(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """Create the tables of the random queries, alternately in Delta and Iceberg."""
    formats = dict(zip(star_tables.NAMES, cycle(["delta", "iceberg"]), strict=False))
    for statement in map(without_collations, star_tables.STATEMENTS):
        table = statement.split()[2]
        format_ = "parquet" if table in _AS_FILES else formats[table]
        name = table if format_ == "parquet" else f"{FORMATS[format_]}.{table}"
        # This session has no Hive support, so text tables become Parquet tables.
        text = _HIVE.sub(r"(\1, \2 \3) USING parquet PARTITIONED BY (\2)", statement)
        text = re.sub(r"USING (parquet|orc)", f"USING {format_}", text)
        spark.sql(re.sub(rf"\b{table}\b", name, text, count=1))
        if name != table and format_ == "iceberg":
            spark.table(name).createOrReplaceTempView(table)
    directories = [tmp_path_factory.mktemp("random") / table for table in ("r_int", "r_two")]
    for path, keys in zip(directories, (["k"], ["s", "k"]), strict=True):
        spark.table(path.name).write.partitionBy(*keys).parquet(str(path))
    star_tables.create_views(spark, *directories)
    with changed(spark, QUICK):
        yield spark
    for name in (*star_tables.VIEWS, *star_tables.NAMES):
        spark.catalog.dropTempView(name)


@pytest.fixture(scope="module")
def handed_over() -> Counter[str]:
    """Return a counter of the conditions that sources received from splitlib, by table."""
    return Counter()


@pytest.mark.parametrize("start", range(0, QUERIES, _AT_A_TIME))
def test_same_rows(session: SparkSession, handed_over: Counter[str], start: int) -> None:
    for seed in range(SEED + start, SEED + min(start + _AT_A_TIME, QUERIES)):
        drawn = random.Random(seed)
        ansi = drawn.choice(("true", "false"))
        text = StarQueries(drawn).draw()
        program = Program(seed, (Step("rows", text),), {"spark.sql.ansi.enabled": ansi}, how="sql")
        optimizing = Optimizing(session, "sql")
        verdict = compare(
            run(session, program, plain(session, ["none"])), run(session, program, optimizing)
        )
        assert verdict.kind != "different", f"{verdict.text}\n{program}"
        assert not optimizing.given_up(), f"{optimizing.given_up()}\n{program}"
        scans = (scan for report in optimizing.reports for scan in report.scans)
        handed_over.update(scan.table for scan in scans if scan.condition)


@pytest.mark.skipif(QUERIES < 40, reason="too few queries to reach every kind of table")
def test_every_kind_of_table_was_reached(handed_over: Counter[str]) -> None:
    """Every kind of table received conditions. Otherwise equal rows would prove nothing."""
    kinds = {"delta": "default.r_", "iceberg": "ice.db.r_", "database": star_tables.DATABASE}
    reached = {kind for kind, part in kinds.items() if any(part in t for t in handed_over)}
    assert reached == set(kinds), handed_over
