"""Run the joins of ``benchmarks.data_keys`` on S3, and count requests.

Start it with ``python -m benchmarks.object_store.data_keys``. A proxy counts the requests, and
answers each of them after a delay. A cold run of splitlib has no statistics of the files, so it
reads their footers.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import obstore

from benchmarks import data_keys
from benchmarks.measure import Contender, Sample, in_turns
from benchmarks.object_store.proxy import Behaviour, Counts, RunningProxy, running_proxy
from benchmarks.object_store.servers import BUCKET, obstore_of, running_server, s3a_settings
from benchmarks.results import Comparison
from benchmarks.session import spark_session
from benchmarks.sizes import Sizes
from splitlib.statistics import known
from splitlib.statistics.store import StatisticsStore

_TABLES = {
    data_keys.SALES: "sales",
    data_keys.ITEMS: "items",
    data_keys.WEEKS: "weeks",
}
# Hadoop's default stream keeps parts of files in memory, so later runs would not read them again.
_STREAM = {"spark.hadoop.fs.s3a.input.stream.type": "classic"}
_COLD = "splitlib, no statistics yet"


def run(options: argparse.Namespace, directory: Path) -> Iterator[str]:
    """Upload the tables, run all contenders in turns, and yield the lines of a table."""
    root = data_keys.build(directory, options.rows)
    scratch = tempfile.TemporaryDirectory(prefix="splitlib-data-keys-s3-")
    with (
        scratch,
        running_server({}, Path(scratch.name), options.versitygw) as server,
        running_proxy(server.address) as proxy,
        spark_session(
            directory, {**s3a_settings(proxy.endpoint, options.jars), **_STREAM}, options.slots
        ) as spark,
    ):
        _upload(root, f"http://{server.address}")
        for table, name in _TABLES.items():
            spark.read.parquet(f"s3a://{BUCKET}/{name}").createOrReplaceTempView(table)
        yield f"{server.name}, {options.delay_milliseconds} ms a request, {options.slots} tasks"
        behaviour = Behaviour(options.delay_milliseconds / 1000)
        for by_day in (False, True):
            for clusters in data_keys.CLUSTERS:
                days = "a week" if by_day else "all days"
                title = f"{options.rows:,} rows on S3, {clusters} clusters of keys, {days}"
                items = options.rows // data_keys.DAYS
                plain = data_keys.contenders_of(spark, items, clusters, by_day)
                seen: dict[str, list[Counts]] = {}
                contenders = [
                    _counted(each, proxy, behaviour, seen.setdefault(each.name, []))
                    for each in (*plain, _cold(plain[-1]))
                ]
                plain[-1].run()  # learns the statistics
                found = in_turns(title, contenders, options.rounds)
                yield from Comparison(title, "seconds", plain[-1].name, found).lines()
                for each in found:
                    yield f"  {each.name}: {dict(each.counts)}, {_ranges(seen[each.name])}"


def _ranges(seen: Sequence[Counts]) -> str:
    counts = {
        "GET": [each.reads for each in seen],
        "HEAD": [each.heads for each in seen],
        "listings": [each.listings for each in seen],
        "MB": [each.bytes_sent // 10**6 for each in seen],
    }
    return ", ".join(f"{min(n):,} to {max(n):,} {what}" for what, n in counts.items())


def _cold(ours: Contender) -> Contender:
    def run() -> Sample:
        with patch.object(known, "LEARNED", StatisticsStore()):
            return ours.run()

    return Contender(_COLD, run)


def _counted(
    contender: Contender, proxy: RunningProxy, behaviour: Behaviour, seen: list[Counts]
) -> Contender:
    def run() -> Sample:
        proxy.begin(behaviour)
        sample = contender.run()
        seen.append(proxy.counts())
        return sample

    return Contender(contender.name, run)


def _upload(root: Path, endpoint: str) -> None:
    store = obstore_of(endpoint)

    def put(path: Path) -> None:
        obstore.put(store, str(path.relative_to(root)), path)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(put, root.rglob("*.parquet")))  # raises the errors of the uploads


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.object_store.data_keys", description=__doc__
    )
    parser.add_argument("--rows", type=int, default=Sizes().clustered, help="of the fact table")
    parser.add_argument("--rounds", type=int, default=3, help="each runs every contender (3)")
    parser.add_argument("--delay-milliseconds", type=int, default=20, help="of a request (20)")
    parser.add_argument("--slots", type=int, default=8, help="Spark's tasks at once (8)")
    parser.add_argument("--jars", type=Path, default=Path(".venv-interop/jars/s3"))
    parser.add_argument("--versitygw", default="versitygw", help="else moto is taken")
    parser.add_argument("--directory", type=Path, help="where tables are built, and kept")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="splitlib-benchmarks-") as temporary:
        for line in run(options, (options.directory or Path(temporary)).absolute()):
            print(line, flush=True)


if __name__ == "__main__":
    main()
