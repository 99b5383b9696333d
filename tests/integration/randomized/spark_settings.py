"""Spark settings for random queries: settings that save time, and settings drawn at random."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from tests.integration.randomized.choices import some_of

# Most of these settings save time. On few rows, compiling and replanning take longer than running.
QUICK: Final = {
    "spark.splitlib.plannerSmallFactPartitions": "0",
    "spark.splitlib.runtimeFilterBytes": "0",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # If Spark pushes the result of a subquery to the ORC reader, a null result fails the query.
    "spark.sql.orc.filterPushdown": "false",
}

SettingsDraw = Callable[[random.Random], Mapping[str, str]]
"""Function that draws Spark settings with a random generator, and returns them by name."""

_OF_PLANS: Final = re.compile(
    r"^spark\.sql\.(optimizer|adaptive|codegen|cbo|execution|exchange|join|statistics|parquet|orc"
    r"|sources|hive|files|constraintPropagation|planner|requireAllClusterKeys|legacy|bucketing"
    r"|columnVector|inMemoryColumnarStorage|shuffle|runtime|subexpression)"
)
_EXCLUDED: Final = "spark.sql.optimizer.excludedRules"


def no_settings(drawn: random.Random) -> Mapping[str, str]:
    """Return no settings. This is the default of functions that draw queries."""
    return {}


def any_of_spark(spark: SparkSession) -> SettingsDraw:
    """Return a function that inverts random planner flags and excludes random optimizer rules.

    Args:
        spark: Session from which the names of flags and rules are taken.
    """
    flags = _flags(spark)
    rules = _rules(spark)

    def draw(drawn: random.Random) -> Mapping[str, str]:
        found: dict[str, str] = {}
        if drawn.random() >= 0.5:
            found.update(some_of(drawn, sorted(flags.items()), drawn.choice((1, 1, 2, 3, 5))))
        if drawn.random() >= 0.7:
            found[_EXCLUDED] = ",".join(some_of(drawn, rules, drawn.choice((1, 1, 2, 3))))
        return found

    return draw


def _flags(spark: SparkSession) -> dict[str, str]:
    """Return the planner flags that a session can change, each with its inverted value."""
    opposite = {"true": "false", "false": "true"}
    listed = spark.sql("SET -v").collect()
    return {
        row.key: opposite[row.value]
        for row in listed
        if row.value in opposite and _OF_PLANS.match(row.key) and spark.conf.isModifiable(row.key)
    }


def _rules(spark: SparkSession) -> list[str]:
    """Return the names of the optimizer rules that Spark allows to exclude."""
    optimizer: Any = spark._jsparkSession.sessionState().optimizer()
    batches = optimizer.defaultBatches()
    named = {
        str(batch.rules().apply(i).ruleName())
        for batch in (batches.apply(n) for n in range(batches.size()))
        for i in range(batch.rules().size())
    }
    needed = optimizer.nonExcludableRules()
    return sorted(named - {str(needed.apply(i)) for i in range(needed.size())})
