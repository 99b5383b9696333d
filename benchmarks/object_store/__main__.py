"""Measure requests, seconds and CPU time of S3 listings, and write JSON and Markdown."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.environment import describe_environment
from benchmarks.object_store.listing import BareListing, Enumeration
from benchmarks.object_store.peers import PEERS, Peer
from benchmarks.object_store.proxy import Behaviour, RunningProxy, running_proxy
from benchmarks.object_store.results import CaseResult, Runs, markdown
from benchmarks.object_store.servers import running_server
from benchmarks.object_store.spark_peers import spark_peers
from benchmarks.object_store.tables import FILES, Case, cases, first_of_pages, objects_of
from splitlib.config import SplitConfig

BARE = "obstore alone"
STATISTICS = "splitlib, statistics"
NO_STATISTICS = "splitlib, no statistics"
_OPENED_AT_MOST = 300


class Contender(NamedTuple):
    """A way to list files, to be measured."""

    prepare: Callable[[], Callable[[], None]]
    """Function that returns the call to measure. Its own time is not measured."""
    cpu_seconds: Callable[[], float] = time.process_time
    """Function that returns the CPU seconds used so far."""


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    output = options.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    objects = objects_of(options.partitions)
    with (
        tempfile.TemporaryDirectory(prefix="splitlib-s3-") as directory,
        running_server(objects, Path(directory), options.versitygw) as server,
        running_proxy(server.address) as proxy,
        _peers(proxy, options) as peers,
    ):
        results = []
        for case in cases(options.partitions, options.cases):
            results.append(_measured(case, proxy, options, peers))
            # Written after each case, so that a later failure loses no results.
            _write(
                output,
                results,
                {**vars(options), "server": server.name, "output": None, "jars": None},
            )
    print(f"{server.name}, {options.delay_milliseconds} ms a request")
    print(markdown(results, BARE))


@contextmanager
def _peers(proxy: RunningProxy, options: argparse.Namespace) -> Iterator[tuple[Peer, ...]]:
    """Yield the libraries to compare with. Spark is one of them if there are jars for S3."""
    if not options.peers:
        yield ()
    elif options.jars is None:
        yield PEERS
    else:
        with spark_peers(proxy.endpoint, options.jars, SplitConfig().listing_threads) as of_spark:
            yield (*PEERS, *of_spark)


def _measured(
    case: Case, proxy: RunningProxy, options: argparse.Namespace, peers: Sequence[Peer]
) -> CaseResult:
    """Measure the contenders in turns. The first round only fills the proxy's cache."""
    delay = options.delay_milliseconds / 1000
    threads = SplitConfig().listing_threads
    contenders = _contenders(case, proxy, options, peers)
    runs = {name: Runs() for name in contenders}
    for turn in range(-1, options.repeat):
        for name, contender in list(contenders.items())[:: 1 if turn % 2 else -1]:
            if runs[name].error is None:
                _run(contender, proxy, delay, runs[name] if turn >= 0 else Runs(), runs[name])
        print(f"{case.name}, round {turn + 1} of {options.repeat}", file=sys.stderr)
    least = len(first_of_pages(case.matching))
    return CaseResult(case.name, len(case.matching), least, threads, delay, runs)


def _contenders(
    case: Case, proxy: RunningProxy, options: argparse.Namespace, peers: Sequence[Peer]
) -> Mapping[str, Contender]:
    """Return the contenders of a case by name."""
    endpoint, matching = proxy.endpoint, case.matching

    def ours(files_each: float) -> Callable[[], None]:
        return Enumeration(endpoint, options.partitions, matching, files_each).run

    def bare() -> Callable[[], None]:
        return BareListing(endpoint, matching, SplitConfig().listing_threads).run

    found = {
        BARE: Contender(bare),
        STATISTICS: Contender(partial(ours, FILES)),
        NO_STATISTICS: Contender(partial(ours, 0)),
    }
    for peer in peers:
        if len(matching) <= _OPENED_AT_MOST or not peer.opens_files:
            ready = partial(peer.ready, proxy.address, matching)
            found[peer.name] = Contender(ready, peer.cpu_seconds)
    return found


def _run(
    contender: Contender,
    proxy: RunningProxy,
    delay: float,
    into: Runs,
    failed: Runs,
) -> None:
    try:
        run = contender.prepare()
        proxy.begin(Behaviour(delay))
        started, cpu = time.perf_counter(), contender.cpu_seconds()
        run()
        into.seconds.append(time.perf_counter() - started)
        into.cpu_seconds.append(contender.cpu_seconds() - cpu)
    except Exception as error:  # Another tool may raise any exception.
        failed.error = f"{type(error).__name__}: {error}".partition("\n")[0]
        return
    counts = proxy.counts()
    into.requests.append(counts.listings)
    into.others.append(counts.others)
    into.in_flight.append(counts.most_in_flight)
    answered = counts.listings + counts.others - counts.refused
    into.answer_seconds.append(counts.served_seconds / max(answered, 1))


def _write(output: Path, results: Sequence[CaseResult], options: Mapping[str, Any]) -> None:
    document = {
        "environment": describe_environment(),
        "options": {key: value for key, value in options.items() if value is not None},
        "cases": [result.to_dict() for result in results],
    }
    (output / "object_store.json").write_text(json.dumps(document, indent=2) + "\n")
    (output / "object_store.md").write_text(markdown(results, BARE))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.object_store", description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000, help="of the table (10,000)")
    parser.add_argument("--cases", default="", help="only those with this in their name")
    parser.add_argument("--repeat", type=int, default=5, help="rounds (5)")
    parser.add_argument("--delay-milliseconds", type=int, default=50, help="of a request (50)")
    parser.add_argument(
        "--versitygw", default="versitygw", help="its program; moto is taken if there is none"
    )
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without others")
    parser.add_argument(
        "--output", type=Path, default=Path("bench-results"), metavar="DIR", help="(bench-results)"
    )
    parser.add_argument(
        "--jars", type=Path, metavar="DIR", help="with which Spark reaches S3; none: without Spark"
    )
    return parser


if __name__ == "__main__":
    main()
