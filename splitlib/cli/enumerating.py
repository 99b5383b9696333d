"""Options and progress line of commands that enumerate a table."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from splitlib.cli import progress
from splitlib.cli.arguments import (
    config_of,
    enumerator_of,
    output_options,
    setting_options,
    table_of,
    table_options,
)
from splitlib.enumeration.enumerator import DynamicFileEnumerator


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
