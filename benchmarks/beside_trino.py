"""Run joins in Trino, Spark and splitlib on the same tables: ``make bench-trino``.

One join is by the partition key of the star of ``first_row``, the other by the data column of
``data_keys``. Trino runs with its default settings, and with a scan that waits for the filter.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import trino

from benchmarks import data_keys
from benchmarks.measure import Contender, Sample, in_turns
from benchmarks.metastore_tables import DATABASE, create_table, open_metastore
from benchmarks.queries import BY_HAND, FLOOR, JOIN_KEYS, TUNED, StarQueries
from benchmarks.results import Comparison
from benchmarks.session import spark_session
from benchmarks.sizes import Sizes
from benchmarks.star import Star, build_stars

_WAITS: Mapping[str, Mapping[str, str]] = {
    "Trino": {},
    "Trino, its scan waits for the filter": {"hive.dynamic_filtering_wait_timeout": "5s"},
}
"""Session properties of Trino, by contender name."""
_START_SECONDS = 180


@dataclass(frozen=True)
class Trino:
    """A running Trino server."""

    port: int
    splits: dict[str, set[int]] = field(default_factory=dict)
    """Numbers of splits of all stages that Trino made, by contender. They differ between runs."""
    rows: dict[str, set[int]] = field(default_factory=dict)
    """Numbers of rows that Trino read, by contender."""

    def contender(self, name: str, query: str, expected: int) -> Contender:
        """Return a contender that runs a query, and checks the first value of the first row."""
        properties = dict(_WAITS[name])

        def run() -> Sample:
            started = time.perf_counter()
            with contextlib.closing(self._connect(properties)) as connection:
                cursor = connection.cursor()
                value = cursor.execute(query).fetchone()[0]
                seconds = time.perf_counter() - started
                cursor.fetchall()
                if value != expected:
                    raise RuntimeError(f"Trino answers {value}, {expected} expected")
                self.splits.setdefault(name, set()).add(cursor.stats["totalSplits"])
                self.rows.setdefault(name, set()).add(cursor.stats["processedRows"])
            return Sample(seconds, {"answer": value})

        return Contender(name, run, properties)

    def _connect(self, properties: Mapping[str, str]) -> Any:
        return trino.dbapi.connect(
            host="127.0.0.1",
            port=self.port,
            user="benchmarks",
            catalog="hive",
            schema=DATABASE,
            session_properties=properties,
        )

    def lines(self) -> Iterator[str]:
        """Yield the counts of all runs so far, and forget them."""
        for name in self.splits:
            splits, rows = self.splits[name], self.rows[name]
            yield (
                f"  {name}: {min(splits):,} to {max(splits):,} splits of all stages, "
                f"{min(rows):,} to {max(rows):,} rows read"
            )
        self.splits.clear()
        self.rows.clear()


@contextlib.contextmanager
def running(server: Path, java_home: str, directory: Path, metastore: str) -> Iterator[Trino]:
    """Run a Trino server for the ``with`` block.

    Args:
        server: The directory of an unpacked ``trino-server`` archive.
        java_home: A Java 23 or newer.
        directory: For the server's configuration, data and log.
        metastore: The address of the metastore.

    Raises:
        RuntimeError: The server did not start. Its log is in the message.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _configure(directory / "etc", port, metastore)
    command = [str(server / "bin/launcher"), "--etc-dir", str(directory / "etc")]
    command += ["--data-dir", str(directory / "data"), "run"]
    log = directory / "trino.log"
    environment = {**os.environ, "JAVA_HOME": java_home}
    environment["PATH"] = f"{java_home}/bin:{environment['PATH']}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        _wait(port, process, log)
        yield Trino(port)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _configure(etc: Path, port: int, metastore: str) -> None:
    files = {
        "node.properties": ["node.environment=benchmarks", "node.id=one"],
        "jvm.config": ["-Xmx3G", "-Djdk.attach.allowAttachSelf=true"],
        "config.properties": [
            "coordinator=true",
            "node-scheduler.include-coordinator=true",
            f"http-server.http.port={port}",
            f"discovery.uri=http://127.0.0.1:{port}",
            "query.max-memory-per-node=1GB",
        ],
        "catalog/hive.properties": [
            "connector.name=hive",
            f"hive.metastore.uri={metastore}",
            "fs.hadoop.enabled=true",
        ],
    }
    for name, lines in files.items():
        path = etc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if _is_ready(port):
            return
        time.sleep(0.5)
    raise RuntimeError(f"Trino did not start:\n{log.read_text()[-3000:]}")


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/v1/info", timeout=5) as answer:
            return json.load(answer)["starting"] is False
    except (URLError, ConnectionError):
        return False


def _star_query(star: Star, first_row: bool) -> str:
    columns = "1, item, amount, day, d_name" if first_row else "count(*)"
    join = f"{star.sales} JOIN {star.dates} ON day = d_day WHERE few = 1"
    return f"SELECT {columns} FROM {join}" + (" LIMIT 1" if first_row else "")


def _by_partition_key(spark: Any, server: Trino, uri: str, star: Star, first: bool) -> Any:
    queries = StarQueries(spark, uri, star, "few", first, {})
    expected = 1 if first else star.rows
    yield from (server.contender(name, _star_query(star, first), expected) for name in _WAITS)
    yield from (queries.contender(name, queries.shipped, conf) for name, conf in TUNED.items())
    yield queries.contender(BY_HAND, queries.by_hand)
    yield queries.contender(JOIN_KEYS, queries.join_keys)
    yield queries.contender(FLOOR, queries.least, TUNED["Spark DPP, listing on the driver"])


def run(sizes: Sizes, directory: Path, server: Path, java_home: str) -> Iterator[str]:
    """Build the tables, run all contenders, and yield the lines of the tables of results."""
    scratch = tempfile.TemporaryDirectory(prefix="splitlib-trino-")
    with scratch, open_metastore(directory) as metastore, contextlib.ExitStack() as opened:
        star, small = build_stars(metastore, directory, sizes, sizes.partitions)
        _build_clustered(metastore, directory, sizes.clustered)
        trino_server = opened.enter_context(
            running(server, java_home, Path(scratch.name), metastore.uri)
        )
        spark = opened.enter_context(spark_session(directory, metastore.spark_conf()))

        def compared(title: str, warm: list[Contender], contenders: list[Contender]) -> list[str]:
            in_turns("warming up", warm, sizes.warm_up)
            in_turns("warming up", contenders, min(1, sizes.warm_up))
            list(trino_server.lines())
            found = in_turns(title, contenders, sizes.repeat)
            ours = contenders[-2 if contenders[-1].name == FLOOR else -1].name
            table = Comparison(title, "seconds", ours, found)
            counts = [f"  {each.name}: {dict(each.counts)}" for each in found if each.counts]
            return [*table.lines(), *trino_server.lines(), *counts]

        for what, first in (("first row", True), ("count(*)", False)):
            title = f"{what}, {star.partitions:,} partitions, {star.files_needed} files needed"
            warm, contenders = (
                list(_by_partition_key(spark, trino_server, metastore.uri, each, first))
                for each in (small, star)
            )
            yield from compared(title, warm, contenders)
        items = sizes.clustered // data_keys.DAYS
        for clusters in data_keys.CLUSTERS:
            title = f"{sizes.clustered:,} rows sorted by item, {clusters} clusters of keys"
            theirs = data_keys.join_of(items, clusters)
            expected = data_keys.DAYS * len(data_keys.keys_of(items, clusters))
            contenders = [trino_server.contender(name, theirs, expected) for name in _WAITS]
            contenders += data_keys.contenders_of(spark, items, clusters)
            yield from compared(title, [], contenders)


def _build_clustered(metastore: Any, directory: Path, rows: int) -> None:
    root = data_keys.build(directory, rows)
    numbers = [(name, "double") for name in ("amount", "cost", "price")]
    days = [str(day) for day in range(data_keys.DAYS)]
    create_table(
        metastore,
        data_keys.SALES,
        root / "sales",
        [("item", "bigint"), *numbers],
        [("day", "int")],
        days,
    )
    create_table(
        metastore, data_keys.ITEMS, root / "items", [("id", "bigint"), ("brand", "bigint")]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside_trino", description=__doc__)
    parser.add_argument("--server", type=Path, required=True, help="unpacked trino-server archive")
    parser.add_argument("--java-home", required=True, help="a Java 23 or newer, for Trino")
    parser.add_argument("--directory", type=Path, help="where tables are built, and kept")
    parser.add_argument("--quick", action="store_true", help="small, to see that all of it works")
    Sizes.add_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="splitlib-benchmarks-") as temporary:
        directory = (options.directory or Path(temporary)).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        for line in run(Sizes.of(options), directory, options.server, options.java_home):
            print(line)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
