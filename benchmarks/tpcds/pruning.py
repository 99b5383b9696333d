"""Run queries that can be pruned by day, in all modes in turns.

A cold run has no cached listings from Spark. A warm run repeats the query right after a cold one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import splitlib
from benchmarks.tpcds.answers import difference
from benchmarks.tpcds.metering import Cost, Meter
from benchmarks.tpcds.modes import MODES, SPLITLIB, SPLITLIB_TUNED, TUNED, Mode
from benchmarks.tpcds.queries import Query
from benchmarks.tpcds.settings import changed
from splitlib.report import Report

# fmt: off
NUMBERS = (
    1, 4, 5, 7, 8, 11, 17, 18, 25, 27, 29, 31, 32, 33, 35, 36, 38,
    40, 46, 48, 49, 50, 54, 56, 60, 61, 66, 69, 71, 74, 75, 77, 80, 85,
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one query."""

    mode: str
    warm: bool
    """Whether the same query ran in this mode just before. If not, Spark has no cached listings."""
    cost: Cost


@dataclass(frozen=True, slots=True)
class QueryRuns:
    """All runs of one query."""

    name: str
    rows: int
    runs: tuple[Run, ...]
    report: Report
    """splitlib's report on the query."""

    def costs(self, mode: Mode, *, warm: bool) -> list[Cost]:
        """Return the costs of one mode, one for each round."""
        return [run.cost for run in self.runs if run.mode == mode.name and run.warm == warm]


class PruningBenchmark:
    """Runs queries in all modes on tables of the session's current database."""

    def __init__(self, spark: SparkSession, tables: Sequence[str]) -> None:
        self._spark = spark
        self._tables = tables
        self._meter = Meter(spark)

    def run(self, query: Query, rounds: int) -> QueryRuns:
        """Run a query in every mode, first cold and then warm.

        The order of the modes is reversed in every second round. Modes with ``once`` run only in
        the first round, and only cold.

        Raises:
            RuntimeError: Two modes return different rows.
        """
        # Spark caches the code compiled for a query. A first run in each mode fills this cache.
        for mode in (TUNED, SPLITLIB_TUNED):
            self.measure(mode, query)
        runs: list[Run] = []
        expected: list[Any] = []
        report = Report()
        for turn in range(rounds):
            modes = [mode for mode in MODES if turn == 0 or not mode.once]
            for mode in modes if turn % 2 == 0 else reversed(modes):
                self.forget(query)
                for warm in (False,) if mode.once else (False, True):
                    cost, df, rows = self.measure(mode, query)
                    runs.append(Run(mode.name, warm, cost))
                    expected = expected or rows
                    if wrong := difference(rows, expected):
                        raise RuntimeError(f"{query.name}, {mode.name}: {wrong}")
                    if mode is SPLITLIB:
                        report = splitlib.explain(df)
                    print(
                        f"{query.name}, round {turn + 1} of {rounds}, {mode.name}, "
                        f"{'warm' if warm else 'cold'}: {cost.seconds:.2f} s",
                        file=sys.stderr,
                    )
        return QueryRuns(query.name, len(expected), tuple(runs), report)

    def warm_up(self, query: Query, times: int) -> None:
        """Run a query several times in all modes, so that later runs do not load classes."""
        for _ in range(times):
            for mode in MODES:
                self.measure(mode, query)

    def measure(self, mode: Mode, query: Query) -> tuple[Cost, DataFrame, list[Any]]:
        """Run a query in one mode, and return its cost, its DataFrame and its rows."""
        with changed(self._spark, mode.settings):
            return self._meter.measure(lambda: mode.run(self._spark, query.spark))

    def forget(self, query: Query) -> None:
        """Drop Spark's cached listings of the query's tables."""
        for table in self._tables:
            if table in query.spark:
                self._spark.catalog.refreshTable(table)
        jvm: Any = self._spark._jvm
        jvm.System.gc()  # Garbage of one mode must not slow the next one.
