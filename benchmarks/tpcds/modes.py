"""The ways to run a query: without dynamic pruning, with Spark's, and with splitlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

import splitlib

DPP = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


@dataclass(frozen=True, slots=True)
class Mode:
    """How a query is run."""

    name: str
    run: Callable[[SparkSession, str], DataFrame]
    settings: Mapping[str, str]
    once: bool = False
    """Whether one cold run is enough: with its listings each takes most of an hour."""


# few tasks list the many small directories; as shipped it is one for each
_LISTING = {LISTING_TASKS: "4"}

BASELINE = Mode("Spark without DPP, tuned", SparkSession.sql, {DPP: "false", **_LISTING}, once=True)
SHIPPED = Mode("Spark DPP as shipped", SparkSession.sql, {DPP: "true"}, once=True)
TUNED = Mode("Spark DPP tuned", SparkSession.sql, {DPP: "true", **_LISTING})
SPLITLIB = Mode("splitlib", splitlib.sql, {DPP: "true"}, once=True)
# tables that splitlib leaves to Spark are listed by Spark, as the session has it
SPLITLIB_TUNED = Mode("splitlib, session tuned", splitlib.sql, {DPP: "true", **_LISTING})
MODES = (BASELINE, SHIPPED, TUNED, SPLITLIB, SPLITLIB_TUNED)
