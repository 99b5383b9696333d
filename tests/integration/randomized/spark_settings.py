"""Spark settings for random queries: settings that save time, and settings drawn at random."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
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

_OTHER_SUBJECTS: Final = re.compile(
    r"^spark\.sql\.(streaming|thriftServer|ui|debug|repl|cli|pyspark|planChange|redaction|udt"
    r"|execution\.pyspark|variable|artifact|scripting|pipelines|stackTraces"
    r"|legacy\.v1IdentifierNoCatalog)\b"
)
"""Settings that change no results of a query, or with which Spark reads no table of the session."""
_VALUES: Final[Mapping[str, Sequence[str]]] = {
    "spark.sql.analyzer.maxIterations": ("30",),
    "spark.sql.autoBroadcastJoinThreshold": ("-1", "1"),
    "spark.sql.files.maxPartitionBytes": ("100", "1000"),  # 1 makes a task of each byte
    "spark.sql.files.minPartitionNum": ("1", "7"),
    "spark.sql.files.openCostInBytes": ("0",),
    "spark.sql.hive.metastorePartitionPruningInSetThreshold": ("1", "3"),
    "spark.sql.legacy.ctePrecedencePolicy": ("LEGACY", "CORRECTED"),
    "spark.sql.legacy.timeParserPolicy": ("LEGACY", "CORRECTED"),
    "spark.sql.mapKeyDedupPolicy": ("LAST_WIN",),
    "spark.sql.maxPlanStringLength": ("0", "100"),
    "spark.sql.optimizer.expressionProjectionCandidateLimit": ("0",),
    "spark.sql.optimizer.inSetConversionThreshold": ("0", "1", "1000"),
    "spark.sql.optimizer.inSetSwitchThreshold": ("0",),
    "spark.sql.optimizer.maxIterations": ("1", "3"),
    "spark.sql.optimizer.windowGroupLimitThreshold": ("-1",),
    "spark.sql.orc.impl": ("hive",),
    "spark.sql.parquet.datetimeRebaseModeInRead": ("LEGACY", "CORRECTED"),
    "spark.sql.parquet.int96RebaseModeInRead": ("LEGACY", "CORRECTED"),
    "spark.sql.parquet.outputTimestampType": ("TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"),
    "spark.sql.parquet.pushdown.inFilterThreshold": ("0", "1", "1000"),
    "spark.sql.session.timeZone": ("Asia/Kathmandu", "Pacific/Apia", "America/New_York"),
    "spark.sql.sources.parallelPartitionDiscovery.threshold": ("0",),
    "spark.sql.sources.partitionOverwriteMode": ("DYNAMIC",),
    "spark.sql.sources.useV1SourceList": ("", "parquet", "orc"),
    "spark.sql.storeAssignmentPolicy": ("LEGACY", "STRICT"),
    "spark.sql.timestampType": ("TIMESTAMP_NTZ",),
}
"""Values to draw for settings that are neither true nor false."""
_EXCLUDED: Final = "spark.sql.optimizer.excludedRules"


def no_settings(drawn: random.Random) -> Mapping[str, str]:
    """Return no settings. This is the default of functions that draw queries."""
    return {}


def any_of_spark(spark: SparkSession) -> SettingsDraw:
    """Return a function that draws other values of settings and excludes optimizer rules.

    Args:
        spark: Session from which the names of settings and rules are taken.
    """
    settings = sorted(_settings(spark).items())
    rules = _rules(spark)

    def draw(drawn: random.Random) -> Mapping[str, str]:
        found: dict[str, str] = {}
        if drawn.random() >= 0.5:
            for name, values in some_of(drawn, settings, drawn.choice((1, 1, 2, 3, 5))):
                found[name] = drawn.choice(values)
        if drawn.random() >= 0.7:
            found[_EXCLUDED] = ",".join(some_of(drawn, rules, drawn.choice((1, 1, 2, 3))))
        return found

    return draw


def _settings(spark: SparkSession) -> dict[str, Sequence[str]]:
    """Return the settings that a session can change, each with values other than its default.

    ``SET -v`` would not list Spark's internal settings. Most of ``spark.sql.legacy`` is internal.
    """
    opposite = {"true": ("false",), "false": ("true",)}
    package: Any = spark._jvm.org.apache.spark.sql.internal  # type: ignore[union-attr]
    entries = getattr(getattr(package, "SQLConf$"), "MODULE$").getConfigEntries().iterator()
    found: dict[str, Sequence[str]] = {}
    while entries.hasNext():
        entry = entries.next()
        name = str(entry.key())
        values = _VALUES.get(name) or opposite.get(str(entry.defaultValueString()), ())
        if values and not _OTHER_SUBJECTS.match(name) and spark.conf.isModifiable(name):
            found[name] = values
    return found


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
