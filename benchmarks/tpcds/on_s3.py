"""Run queries on S3 with Spark's dynamic pruning and with splitlib, and count the requests.

Before each run, Spark's cached listings are dropped.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.object_store.proxy import Behaviour, Counts, RunningProxy, running_proxy
from benchmarks.object_store.servers import running_server, s3a_settings
from benchmarks.session import spark_session
from benchmarks.tpcds.answers import difference
from benchmarks.tpcds.catalog import create_tables
from benchmarks.tpcds.data import Data
from benchmarks.tpcds.metering import Cost
from benchmarks.tpcds.modes import LISTING_TASKS, SPLITLIB_TUNED, TUNED, Mode
from benchmarks.tpcds.pruning import PruningBenchmark
from benchmarks.tpcds.queries import Query
from benchmarks.tpcds.s3_tables import ROOT, upload
from benchmarks.tpcds.settings import SESSION
from splitlib.testing import HiveMetastore


@dataclass(frozen=True, slots=True)
class S3Run:
    """One cold run of one query."""

    mode: str
    round: int
    cost: Cost
    requests: Counts


@dataclass(frozen=True, slots=True)
class S3QueryRuns:
    """All runs of one query."""

    name: str
    rows: int
    runs: tuple[S3Run, ...]


@dataclass(frozen=True, slots=True)
class Lake:
    """The tables on a server, and a session that reads them through a proxy."""

    server: str
    """The server's name."""
    proxy: RunningProxy
    spark: SparkSession


@contextmanager
def running_lake(
    data: Data, jars: Path, slots: int, versitygw: str, database: str
) -> Iterator[Lake]:
    """Run the servers and a session whose current database has the tables.

    Args:
        data: The tables on the local disk.
        jars: Directory with the jars of Hadoop's S3 client.
        slots: Number of concurrent tasks.
        versitygw: Name or path of this S3 server's program. If it does not exist, moto is used.
        database: Name of the new database.
    """
    with (
        tempfile.TemporaryDirectory(prefix="splitlib-tpcds-s3-") as directory,
        running_server({}, Path(directory), versitygw) as server,
        running_proxy(server.address) as proxy,
        HiveMetastore(heap_megabytes=1024) as metastore,
        tempfile.TemporaryDirectory(prefix="splitlib-tpcds-spark-") as scratch,
    ):
        print(f"uploading to {server.name} ...", file=sys.stderr)
        upload(data, f"http://{server.address}")
        settings = {**metastore.spark_conf(), **SESSION, **s3a_settings(proxy.endpoint, jars)}
        with spark_session(Path(scratch), settings, slots) as spark:
            print("registering tables ...", file=sys.stderr)
            create_tables(spark, metastore, data, database, ROOT)
            spark.catalog.setCurrentDatabase(database)
            yield Lake(server.name, proxy, spark)


class S3Benchmark:
    """Runs queries with Spark and with splitlib, each with the best known settings.

    Args:
        lake: The running servers and the session.
        tables: Names of all tables.
        slots: Number of concurrent tasks, and of tasks that list directories.
        delay_seconds: Time from a request to its response, in seconds.
    """

    def __init__(self, lake: Lake, tables: Sequence[str], slots: int, delay_seconds: float) -> None:
        self._proxy = lake.proxy
        self._pruning = PruningBenchmark(lake.spark, tables)
        self._delay_seconds = delay_seconds
        self._turns = 0
        # A listing only waits for responses, so all task slots are used for it.
        listing = {LISTING_TASKS: str(slots)}
        self.modes = tuple(
            replace(mode, settings={**mode.settings, **listing}) for mode in (TUNED, SPLITLIB_TUNED)
        )

    def warm_up(self, query: Query, times: int) -> None:
        """Run a query several times in both modes, without a delay."""
        for _ in range(times):
            for mode in self.modes:
                self._run(query, mode, 0, 0.0)

    def run(self, query: Query, rounds: int) -> S3QueryRuns:
        """Run a query cold in both modes in each round, in alternating order.

        The order alternates because the first run of a query also includes Spark's compilation.

        Raises:
            RuntimeError: The modes return different rows.
        """
        runs: list[S3Run] = []
        expected: list[Any] = []
        for turn in range(rounds):
            self._turns += 1
            for mode in self.modes[:: 1 if self._turns % 2 else -1]:
                run, rows = self._run(query, mode, turn, self._delay_seconds)
                expected = expected or rows
                if wrong := difference(rows, expected):
                    raise RuntimeError(f"{query.name}, {mode.name}: {wrong}")
                runs.append(run)
                print(
                    f"{query.name}, round {turn + 1} of {rounds}, {mode.name}: "
                    f"{run.cost.seconds:.2f} s, {run.requests}",
                    file=sys.stderr,
                )
        return S3QueryRuns(query.name, len(expected), tuple(runs))

    def _run(
        self, query: Query, mode: Mode, turn: int, delay_seconds: float
    ) -> tuple[S3Run, list[Any]]:
        self._pruning.forget(query)
        # The proxy caches only listings, because their CPU time would be spent on other machines in
        # S3. Files are read from the server.
        self._proxy.begin(Behaviour(delay_seconds, remembers_objects=False))
        cost, _, rows = self._pruning.measure(mode, query)
        return S3Run(mode.name, turn, cost, self._proxy.counts()), rows
