"""``splitlib plan``: list the splits that match filters. Other commands share its functions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from splitlib.cli import progress
from splitlib.cli.arguments import (
    config_of,
    enumerator_of,
    output_options,
    setting_options,
    table_of,
    table_options,
)
from splitlib.cli.plan_formats import lines_of, write_parquet
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.errors import ConfigError


def options() -> list[argparse.ArgumentParser]:
    """Return the parent parsers of a command that enumerates a table."""
    return [table_options(), setting_options(), output_options()]


@contextmanager
def enumerating(
    args: argparse.Namespace,
) -> Iterator[tuple[DynamicFileEnumerator, progress.Progress]]:
    """Open the table, and yield an enumerator with its filters and a progress line."""
    config = config_of(args)
    with table_of(args, config) as table:
        enumerator = enumerator_of(args, table, config)
        with progress.for_command(lambda: _so_far(enumerator), json=args.json) as out:
            yield enumerator, out


def _so_far(enumerator: DynamicFileEnumerator) -> str:
    m = enumerator.metrics
    return (
        f"{m.partitions_matched:,} of {m.partitions_total:,} partitions, {m.files_listed:,} files"
    )


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "plan",
        parents=options(),
        help="list the splits to read",
        description="Prints one line per split: id, path, first byte, bytes, partition, separated "
        "by tabs; with --json, one object per line.",
    )
    parser.add_argument(
        "--format",
        choices=["text", "paths", "json", "csv", "parquet"],
        help="paths: each file once, one per line; json: as --json; csv: with a header; parquet: a "
        "file, to redirect",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.json and args.format not in (None, "json"):
        raise ConfigError(f"--json and --format {args.format} contradict each other.")
    form = args.format or ("json" if args.json else "text")
    args.json = form not in ("text", "paths")  # no progress line beside output for a program
    with enumerating(args) as (enumerator, out):
        if form == "parquet":
            write_parquet(enumerator.enumerate_splits())
        else:
            for line in lines_of(enumerator.enumerate_splits(), form):
                out.print(line)
    return 0
