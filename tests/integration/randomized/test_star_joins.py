"""Random programs of star joins return the same rows with splitlib as with plain Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore
from tests.integration.randomized.programs import Program, Step
from tests.integration.randomized.star_programs import EVERY_INGREDIENT, draw_program
from tests.integration.randomized.star_runner import StarRunner

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

QUERIES = int(os.environ.get("RANDOM_QUERIES", "300"))
SEED = int(os.environ.get("RANDOM_SEED", "20201121"))
_AT_A_TIME = 5
_MANY = 3000


@pytest.fixture(scope="module")
def runner(spark: SparkSession, metastore: HiveMetastore) -> Iterator[StarRunner]:
    with StarRunner.on_tables(spark, metastore) as found:
        yield found


@pytest.mark.parametrize("start", range(0, QUERIES, _AT_A_TIME))
def test_same_rows(start: int, runner: StarRunner) -> None:
    """The rows are the same, and no error makes splitlib leave a query to Spark."""
    programs = [runner.draw(SEED + start + i) for i in range(min(_AT_A_TIME, QUERIES - start))]
    done = [(program, runner.verdict(program)) for program in programs]
    different = [f"{v.text}\n{program}" for program, v in done if v.kind == "different"]
    assert not different, "\n\n".join(different)


@pytest.mark.parametrize("condition", ["NOT (f.c = 'g2 ')", "f.c < 'g2 '"])
def test_rows_that_the_metastore_loses(condition: str, runner: StarRunner) -> None:
    """splitlib keeps the partition ``g2``. The metastore ignores the blank, and Spark loses it."""
    query = f"SELECT f.v FROM r_case f JOIN r_group d ON f.c < d.s AND d.id >= 5 WHERE {condition}"
    verdict = runner.verdict(Program(0, (Step("rows", query),)))
    assert verdict.kind == "same", verdict


@pytest.mark.skipif(QUERIES < 300, reason="too few queries to draw every ingredient")
def test_enough_were_pruned(runner: StarRunner) -> None:
    """At least a fifth of the programs are pruned. Without pruning, equal rows prove nothing."""
    assert runner.pruned >= QUERIES // 5
    assert runner.verdicts["same"] >= QUERIES * 3 // 4, runner.verdicts


@pytest.mark.skipif(QUERIES < 300, reason="too few queries to draw every ingredient")
def test_every_ingredient_was_compared(runner: StarRunner) -> None:
    """A long run draws every ingredient. A short one may miss a quarter of them."""
    missing = EVERY_INGREDIENT - runner.ingredients.keys()
    assert len(missing) <= (0 if QUERIES >= _MANY else len(EVERY_INGREDIENT) // 4), missing


def test_every_ingredient_can_be_drawn() -> None:
    """Every ingredient occurs in the programs of many seeds. These programs do not run."""
    drawn = {name for seed in range(_MANY) for name in draw_program(seed).ingredients}
    assert drawn >= EVERY_INGREDIENT
