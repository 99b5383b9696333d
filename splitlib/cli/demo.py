"""``splitlib demo``: run a query with Spark, with and without its pruning, and with splitlib."""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from splitlib.cli import output
from splitlib.cli.arguments import output_options
from splitlib.demo.run import QUERY, DemoData, Run, Steps, generate, report, run_all, session, wrong
from splitlib.errors import ConfigError, ConnectorNotInstalled, SplitlibError
from splitlib.testing import HiveMetastore

_PACKAGES = ("pyspark", "hmsclient", "duckdb", "duckdb_extension_tpcds")

# DuckDB's generator does not terminate below this scale.
_SMALLEST_SCALE = 0.01


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "demo",
        parents=[output_options()],
        help="run a TPC-DS query with Spark, with and without its pruning, and splitlib",
        description="Generates TPC-DS data, registers it in a local Hive metastore, and measures a "
        "join with the days after holidays. Needs Java; downloads nothing. With --json, prints "
        "one object. Exits with 1 if a result is wrong.",
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=0.1,
        metavar="FACTOR",
        help="TPC-DS scale factor; 0.1 or more has sales on nearly every day of five years",
    )
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where to create the data")
    parser.add_argument("--keep", action="store_true", help="do not remove the data afterwards")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if not args.scale >= _SMALLEST_SCALE:
        raise ConfigError(f"--scale must be at least {_SMALLEST_SCALE}, not {args.scale}.")
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise ConnectorNotInstalled(
                f"The demo needs the package {package}.", hint="pip install 'splitlib[demo]'"
            )
    if args.directory is not None:
        args.directory.mkdir(parents=True, exist_ok=True)
    # Always create a new directory, which can be removed safely.
    directory = Path(tempfile.mkdtemp(prefix="splitlib-demo-", dir=args.directory)).absolute()
    try:
        return _demo(args, directory)
    finally:
        if args.keep:
            print(f"The data is in {directory}.", file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _demo(args: argparse.Namespace, directory: Path) -> int:
    steps = Steps()
    with ExitStack() as stack:
        with steps.step("starting a Hive metastore"):
            metastore = _started(directory / "metastore")
            stack.callback(metastore.stop)
        with steps.step(f"generating TPC-DS at scale {args.scale:g}"):
            data = generate(directory, args.scale)
        spark = stack.enter_context(session(metastore, data, directory, steps))
        runs = run_all(spark, metastore.uri, steps)
    if args.json:
        print(output.dump(_plain(args, data, runs, steps)))
    else:
        print(report(data, runs))
    return 1 if wrong(data, runs) else 0


def _started(directory: Path) -> HiveMetastore:
    metastore = HiveMetastore(directory)
    try:
        metastore.start()
    except RuntimeError as error:  # its message names the missing part, such as Java
        raise SplitlibError(f"The demo could not start a metastore: {error}") from error
    return metastore


def _plain(
    args: argparse.Namespace, data: DemoData, runs: list[Run], steps: Steps
) -> dict[str, Any]:
    return {
        "scale": args.scale,
        "query": QUERY,
        "partitions": len(data.keys),
        "expected": {"count": data.expected_count, "partitions": sorted(data.expected_keys)},
        "runs": [asdict(run) for run in runs],
        "steps": steps.seconds,
    }
