"""Run benchmarks, print a table, and write the results as JSON and as a chart."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.chart import draw
from benchmarks.environment import describe_environment
from benchmarks.processes import in_fresh_process
from benchmarks.results import Result
from benchmarks.runner import NAMES, run_benchmark
from benchmarks.sizes import Sizes


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    sizes = Sizes.of(options)
    output = options.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="splitlib-benchmarks-") as temporary:
        directory = (options.directory or Path(temporary)).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        results = []
        for name in dict.fromkeys(options.names or NAMES):
            print(f"{name} ...", file=sys.stderr)
            results.append(in_fresh_process(run_benchmark, name, sizes, directory))
            # Written after each benchmark, so that a later failure loses no results.
            _write(output, sizes, results)
    for result in results:
        print(f"\n{result.name}")
        print(*result.lines(), sep="\n")
    print(f"\nwritten to {output}")


def _write(output: Path, sizes: Sizes, results: Sequence[Result]) -> None:
    document = {
        "environment": describe_environment(),
        "sizes": asdict(sizes),
        "benchmarks": {result.name: result.to_dict() for result in results},
    }
    (output / "benchmarks.json").write_text(json.dumps(document, indent=2) + "\n")
    draw(results, output / "benchmarks.png")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", type=_name, metavar="NAME", help=f"of {', '.join(NAMES)}; or all"
    )
    parser.add_argument("--quick", action="store_true", help="small, to see that all of it works")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("bench-results"),
        metavar="DIR",
        help="for benchmarks.json and benchmarks.png (bench-results)",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="where tables are built, and kept for the next time (a temporary one)",
    )
    Sizes.add_options(parser)
    return parser


def _name(text: str) -> str:
    # argparse's `choices` would reject an empty list of names.
    if text not in NAMES:
        raise argparse.ArgumentTypeError(f"there is no benchmark {text!r}")
    return text


if __name__ == "__main__":
    main()
