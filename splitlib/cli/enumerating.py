"""What commands have in common that enumerate a table: their options, and a line of progress."""

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
    """The parents of such a command's parser."""
    return [table_options(), setting_options(), output_options()]


@contextmanager
def enumerating(
    args: argparse.Namespace,
) -> Iterator[tuple[DynamicFileEnumerator, progress.Progress]]:
    """An enumerator of the table that has the filters, and what to print with meanwhile."""
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
