"""Modes of running a query: without dynamic pruning, with Spark's, and with splitlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

import splitlib

DPP = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


@dataclass(frozen=True, slots=True)
class Mode:
    """A function that runs a query, and the settings for it."""

    name: str
    run: Callable[[SparkSession, str], DataFrame]
    settings: Mapping[str, str]
    once: bool = False
    """Whether the mode runs only once, cold, because its listings take most of an hour."""


# Few tasks list the many small directories. By default Spark starts a task for each directory.
_LISTING = {LISTING_TASKS: "4"}

BASELINE = Mode("Spark without DPP, tuned", SparkSession.sql, {DPP: "false", **_LISTING}, once=True)
SHIPPED = Mode("Spark DPP as shipped", SparkSession.sql, {DPP: "true"}, once=True)
TUNED = Mode("Spark DPP tuned", SparkSession.sql, {DPP: "true", **_LISTING})
SPLITLIB = Mode("splitlib", splitlib.sql, {DPP: "true"}, once=True)
# Spark lists tables that splitlib does not prune, with the settings of the session.
SPLITLIB_TUNED = Mode("splitlib, session tuned", splitlib.sql, {DPP: "true", **_LISTING})
MODES = (BASELINE, SHIPPED, TUNED, SPLITLIB, SPLITLIB_TUNED)
