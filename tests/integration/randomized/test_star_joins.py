"""Programs drawn at random give the same rows with pruning and without it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from benchmarks.tpcds.settings import changed
from splitlib.testing import HiveMetastore
from tests.integration.randomized import star_tables
from tests.integration.randomized.programs import Optimizing, Program, Verdict, compare, plain, run
from tests.integration.randomized.star_programs import (
    CATALOG,
    EVERY_INGREDIENT,
    NAMED,
    draw_program,
)

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

QUERIES = int(os.environ.get("RANDOM_QUERIES", "500"))
SEED = int(os.environ.get("RANDOM_SEED", "20201121"))
_AT_A_TIME = 5
_MANY = 3000
# Queries over so few rows take much longer to compile, and to plan again and again, than to run.
QUICK = {
    "spark.splitlib.plannerSmallFactPartitions": "0",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Spark itself fails where a subquery that is null is pushed down
    "spark.sql.orc.filterPushdown": "false",
}


class Trials:
    """What has been tried so far."""

    def __init__(self) -> None:
        self.ingredients: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.pruned = 0

    def of(self, spark: SparkSession, seed: int) -> tuple[Program, Verdict]:
        """The verdict on a seed's program, run with plain Spark and with splitlib."""
        program = draw_program(seed)
        optimizing = Optimizing(spark, program.how)
        expected = run(spark, program, plain(spark, NAMED))
        found = run(spark, program, optimizing)
        verdict = compare(expected, found)
        if verdict.kind == "different" and program.caches:
            # Spark itself serves what it has cached to some queries after a change
            verdict = compare(run(spark, program.without_caches(), plain(spark, NAMED)), found)
        if verdict.kind == "same" and (reasons := optimizing.given_up()):
            verdict = Verdict("different", f"left to Spark: {reasons}")
        self.verdicts[verdict.kind] += 1
        if verdict.kind == "same":
            self.ingredients.update(program.ingredients)
        self.pruned += optimizing.pruned
        return program, verdict


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, metastore: HiveMetastore) -> Iterator[None]:
    """The tables of the queries, all small, though none too small to be pruned."""
    star_tables.create(spark)
    catalog = {
        f"spark.splitlib.catalog.{CATALOG}.connector": "hive",
        f"spark.splitlib.catalog.{CATALOG}.uri": metastore.uri,
    }
    with changed(spark, {**QUICK, **catalog}):
        yield
    star_tables.drop(spark)


@pytest.fixture(scope="module")
def trials() -> Trials:
    """The trials of all tests here."""
    return Trials()


@pytest.mark.parametrize("start", range(0, QUERIES, _AT_A_TIME))
def test_same_rows(spark: SparkSession, start: int, trials: Trials) -> None:
    """Each program with plain Spark and with splitlib, which gives up on none."""
    done = [trials.of(spark, SEED + start + i) for i in range(min(_AT_A_TIME, QUERIES - start))]
    different = [f"{v.text}\n{program}" for program, v in done if v.kind == "different"]
    assert not different, "\n\n".join(different)


@pytest.mark.skipif(QUERIES < 500, reason="too few queries to draw every ingredient")
def test_enough_were_pruned(trials: Trials) -> None:
    """If nothing were pruned, equal rows would prove nothing."""
    assert trials.pruned >= QUERIES // 5
    assert trials.verdicts["same"] >= QUERIES * 3 // 4, trials.verdicts


@pytest.mark.skipif(QUERIES < 500, reason="too few queries to draw every ingredient")
def test_every_ingredient_was_compared(trials: Trials) -> None:
    """Only a long run has every ingredient."""
    missing = EVERY_INGREDIENT - trials.ingredients.keys()
    assert len(missing) <= (0 if QUERIES >= _MANY else len(EVERY_INGREDIENT) // 4), missing


def test_every_ingredient_can_be_drawn() -> None:
    """Drawn without running any."""
    drawn = {name for seed in range(_MANY) for name in draw_program(seed).ingredients}
    assert drawn >= EVERY_INGREDIENT
