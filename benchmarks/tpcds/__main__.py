"""Measure what pruning saves on TPC-DS queries, and write JSON, Markdown and SVG."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.environment import describe_environment
from benchmarks.session import spark_session
from benchmarks.tpcds.catalog import create_tables
from benchmarks.tpcds.chart import draw
from benchmarks.tpcds.data import Data, prepare
from benchmarks.tpcds.left_alone import count_left_alone
from benchmarks.tpcds.on_s3 import S3Benchmark, S3QueryRuns, running_lake
from benchmarks.tpcds.overhead import measure_overhead
from benchmarks.tpcds.pruning import NUMBERS, PruningBenchmark, QueryRuns
from benchmarks.tpcds.queries import Query, load_queries
from benchmarks.tpcds.results import Results
from benchmarks.tpcds.s3_results import S3Results
from benchmarks.tpcds.settings import SESSION
from splitlib.testing import HiveMetastore

_DATABASE = "tpcds"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="splitlib-tpcds-") as temporary:
        directory = (options.directory or Path(temporary)).absolute()
        results = run_on_s3(directory, options) if options.s3 else run(directory, options)
    print(results.markdown())
    missed = [target.text for target in results.targets if not target.reached]
    if missed and options.gate:
        sys.exit(f"not reached: {'; '.join(missed)}")


def run_on_s3(directory: Path, options: argparse.Namespace) -> S3Results:
    """Run the queries on an S3 server, with Spark's pruning and with splitlib."""
    data, chosen = _prepared(directory, options)
    with running_lake(data, options.jars, options.slots, options.versitygw, _DATABASE) as lake:
        delay = options.delay_milliseconds
        benchmark = S3Benchmark(lake, list(data.tables), options.slots, delay / 1000)
        benchmark.warm_up(chosen[0], options.warm_up)
        runs: list[S3QueryRuns] = []
        sizes = (options.scale, options.rounds, options.slots, delay)
        results = S3Results(*sizes, lake.server, describe_environment(), runs)
        for query in chosen:
            runs.append(benchmark.run(query, options.rounds))
            _write_texts(options.output.absolute(), "tpcds-s3", results)
    return results


def run(directory: Path, options: argparse.Namespace) -> Results:
    """Run all benchmarks on local files: queries, kinds of joins, and planning overhead."""
    data, chosen = _prepared(directory, options)
    with (
        HiveMetastore(heap_megabytes=1024) as metastore,
        tempfile.TemporaryDirectory(prefix="splitlib-tpcds-spark-") as scratch,
        spark_session(Path(scratch), {**metastore.spark_conf(), **SESSION}) as spark,
    ):
        print("registering tables ...", file=sys.stderr)
        create_tables(spark, metastore, data, _DATABASE)
        spark.catalog.setCurrentDatabase(_DATABASE)
        environment = describe_environment()
        runs: list[QueryRuns] = []
        joins = count_left_alone(spark, len(data.tables["store_sales"].keys))
        benchmark = PruningBenchmark(spark, list(data.tables))
        benchmark.warm_up(chosen[0], options.warm_up)
        overheads = measure_overhead(spark)
        results = Results(options.scale, options.rounds, environment, runs, joins, overheads)
        for query in chosen:
            runs.append(benchmark.run(query, options.rounds))
            # Written after each query, so that a later failure loses no results.
            _write(options.output.absolute(), results)
    return results


def _write(output: Path, results: Results) -> None:
    _write_texts(output, "tpcds", results)
    draw(results.queries, output / "tpcds.svg")


def _write_texts(output: Path, name: str, results: Results | S3Results) -> None:
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{name}.json").write_text(json.dumps(results.to_dict(), indent=2) + "\n")
    (output / f"{name}.md").write_text(results.markdown())


def _prepared(directory: Path, options: argparse.Namespace) -> tuple[Data, list[Query]]:
    data = prepare(directory, options.scale, options.one_week_of, by_item=options.by_item)
    with data.duckdb() as duckdb:
        queries = load_queries(duckdb)
    return data, [queries[number] for number in options.queries]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tpcds", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-DS scale factor (1)")
    parser.add_argument(
        "--by-item", action="store_true", help="sort each day of facts by item, in small row groups"
    )
    parser.add_argument(
        "--one-week-of", type=int, default=1, metavar="N", help="keep one in N weeks of facts (1)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="each runs every mode (3)")
    parser.add_argument("--warm-up", type=int, default=1, help="rounds of the first query (1)")
    parser.add_argument(
        "--queries",
        type=int,
        nargs="+",
        default=NUMBERS,
        metavar="N",
        help=f"numbers; by default the {len(NUMBERS)} that may gain",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="where data is kept, by scale (a temporary one)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("bench-results"),
        metavar="DIR",
        help="for tpcds.json, tpcds.md and tpcds.svg, or tpcds-s3.* (bench-results)",
    )
    s3 = parser.add_argument_group("on S3", "Spark's dynamic pruning, tuned, and splitlib, cold")
    s3.add_argument("--s3", action="store_true", help="tables on an S3 server; tpcds-s3.*")
    s3.add_argument("--delay-milliseconds", type=int, default=20, help="of a request (20)")
    s3.add_argument("--slots", type=int, default=8, help="Spark's tasks at once (8)")
    s3.add_argument(
        "--jars",
        type=Path,
        default=Path(".venv-interop/jars/s3"),
        metavar="DIR",
        help="with which Spark reaches S3 (.venv-interop/jars/s3)",
    )
    s3.add_argument(
        "--versitygw", default="versitygw", help="its program; moto is taken if there is none"
    )
    parser.add_argument("--gate", action="store_true", help="fail if a target is not reached")
    return parser


if __name__ == "__main__":
    main()
