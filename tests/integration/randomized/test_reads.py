"""Random reads with splitlib, joined with their dimensions, return the rows of plain Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore
from tests.integration.randomized import read_tables
from tests.integration.randomized.read_runner import ReadRunner
from tests.integration.randomized.read_trials import EVERY_INGREDIENT, draw_trial

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

QUERIES = int(os.environ.get("RANDOM_QUERIES", "300"))
SEED = int(os.environ.get("RANDOM_SEED", "20210304"))
_AT_A_TIME = 5
_MANY = 3000


@pytest.fixture(scope="module")
def runner(spark: SparkSession, metastore: HiveMetastore) -> Iterator[ReadRunner]:
    with ReadRunner.on_tables(spark, metastore) as found:
        yield found


@pytest.mark.parametrize("start", range(0, QUERIES, _AT_A_TIME))
def test_same_rows(start: int, runner: ReadRunner) -> None:
    trials = [runner.draw(SEED + start + i) for i in range(min(_AT_A_TIME, QUERIES - start))]
    done = [(trial, runner.verdict(trial)) for trial in trials]
    different = [
        "\n".join((v.text, str(trial), *read_tables.statements(trial.table)))
        for trial, v in done
        if v.kind == "different"
    ]
    assert not different, "\n\n".join(different)


@pytest.mark.skipif(QUERIES < 300, reason="too few queries to draw every ingredient")
def test_enough_were_pruned(runner: ReadRunner) -> None:
    """At least a quarter of the reads are pruned. Without pruning, equal rows prove nothing."""
    assert runner.pruned >= QUERIES // 4
    assert runner.verdicts["same"] >= QUERIES * 3 // 4, (runner.verdicts, runner.refused)
    # Each form is a condition on one partition key that excludes most of its values.
    tried = {form for form, count in runner.forms.items() if count >= 4}
    assert tried <= runner.pruning.keys()


@pytest.mark.skipif(QUERIES < 300, reason="too few queries to draw every ingredient")
def test_every_ingredient_was_compared(runner: ReadRunner) -> None:
    """A long run draws every ingredient. A short one may miss a quarter of them."""
    missing = EVERY_INGREDIENT - runner.ingredients.keys()
    assert len(missing) <= (0 if QUERIES >= _MANY else len(EVERY_INGREDIENT) // 4), missing


def test_every_ingredient_can_be_drawn() -> None:
    """Every ingredient occurs in the reads of many seeds. These reads do not run."""
    drawn = {name for seed in range(_MANY) for name in draw_trial(seed).ingredients}
    assert drawn >= EVERY_INGREDIENT
