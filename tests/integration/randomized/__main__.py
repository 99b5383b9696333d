"""Run random queries with plain Spark and with splitlib, and compare the results.

Run it with ``python -m tests.integration.randomized``. If the results of a query differ, the
program simplifies the query and prints it as a test.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore
from tests.integration.randomized.choices import Choices, smallest
from tests.integration.randomized.programs import Program, Verdict
from tests.integration.randomized.read_runner import ReadRunner
from tests.integration.randomized.read_trials import Trial
from tests.integration.randomized.spark_settings import SettingsDraw, any_of_spark
from tests.integration.randomized.star_runner import StarRunner
from tests.spark_session import small_session

_ATTEMPTS = 200
_PROGRESS = 50
_FILES = {"Program": "test_star_joins.py", "Trial": "test_reads.py"}


class Runner(Protocol):
    """Draws random queries of one kind, and compares the results of plain Spark and splitlib."""

    verdicts: Counter[str]
    pruned: int

    def draw(self, seed: int, drawn: Choices, more: SettingsDraw) -> Program | Trial:
        """Draw the query for a seed. Take all random choices from ``drawn``."""

    def verdict(self, drawn: Any, /) -> Verdict:
        """Run the query with plain Spark and with splitlib, and compare the results."""


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.jobs > 1:
        sys.exit(_in_processes(options))
    # PySpark logs every error of a query. Random queries often fail, which is not a problem here.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    with (
        tempfile.TemporaryDirectory(prefix="splitlib-differential-") as directory,
        HiveMetastore(Path(directory) / "metastore") as metastore,
        small_session(metastore, Path(directory)) as spark,
    ):
        different = _run(options, spark, metastore)
    sys.exit(1 if different else 0)


def _run(options: argparse.Namespace, spark: SparkSession, metastore: HiveMetastore) -> int:
    """Draw, run and compare one query per seed.

    Returns:
        The number of queries whose results differ.
    """
    more = any_of_spark(spark)
    with ExitStack() as stack:
        runners: list[Runner] = [
            stack.enter_context(StarRunner.on_tables(spark, metastore)),
            stack.enter_context(ReadRunner.on_tables(spark, metastore)),
        ]
        started, different = time.monotonic(), 0
        for number in range(options.number):
            seed = options.seed + number
            runner = runners[seed % len(runners)]
            choices = Choices(seed)
            drawn = runner.draw(seed, choices, more)
            verdict = runner.verdict(drawn)
            if verdict.kind == "different":
                different += 1
                print(f"\nseed {seed}: {verdict.text}\n{drawn}\n", flush=True)
                print(_as_test(_shrunk(runner, seed, choices.made, more)), flush=True)
            if (number + 1) % _PROGRESS == 0 or number + 1 == options.number:
                counts = sum((runner.verdicts for runner in runners), Counter[str]())
                print(
                    f"{number + 1:,} of {options.number:,} from seed {options.seed}: "
                    f"{different} different; all that ran: {dict(counts)}, "
                    f"{sum(runner.pruned for runner in runners):,} pruned; "
                    f"{time.monotonic() - started:.0f} s",
                    flush=True,
                )
    return different


def _shrunk(
    runner: Runner, seed: int, made: Sequence[float], more: SettingsDraw
) -> Program | Trial:
    """Simplify a query as long as its results still differ."""

    def differs(choices: Sequence[float]) -> bool:
        return runner.verdict(runner.draw(seed, Choices(seed, choices), more)).kind == "different"

    return runner.draw(seed, Choices(seed, smallest(made, differs, _ATTEMPTS)), more)


def _as_test(drawn: Program | Trial) -> str:
    name = type(drawn).__name__
    return (
        f"# in {_FILES[name]}, with {name} imported\n"
        f"def test_found_at_random(runner):\n"
        f"    drawn = {drawn!r}\n"
        f'    assert runner.verdict(drawn).kind != "different"\n'
    )


def _in_processes(options: argparse.Namespace) -> int:
    """Divide the seeds among several processes. Return 0 if no results differ."""
    share = -(-options.number // options.jobs)
    processes = []
    for first in range(0, options.number, share):
        number = min(share, options.number - first)
        command = [sys.executable, "-m", __package__, "--jobs", "1", "--number", str(number)]
        processes.append(subprocess.Popen([*command, "--seed", str(options.seed + first)]))
    return max([process.wait() for process in processes])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="of the first (the time)"
    )
    parser.add_argument("--number", type=int, default=1000, help="how many queries (1000)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    return parser


if __name__ == "__main__":
    main()
