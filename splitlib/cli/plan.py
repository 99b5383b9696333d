"""``splitlib plan``: list the splits that match filters. Other commands share its functions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from splitlib.cli import jsonlines, progress
from splitlib.cli.arguments import (
    config_of,
    enumerator_of,
    output_options,
    setting_options,
    table_of,
    table_options,
)
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.hive.partition_values import partition_name
from splitlib.model import FileSplit
from splitlib.redaction import redact


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
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    with enumerating(args) as (enumerator, out):
        for split in enumerator.enumerate_splits():
            out.print(_json(split) if args.json else _text(split))
    return 0


def _text(split: FileSplit) -> str:
    texts = [None if v is None else str(v) for v in split.partition_values.values()]
    name = partition_name(split.partition_values, texts)
    return f"{split.split_id}\t{redact(split.path)}\t{split.start}\t{split.length}\t{name}"


def _json(split: FileSplit) -> str:
    return jsonlines.dump(
        {
            "split_id": split.split_id,
            "path": redact(split.path),
            "start": split.start,
            "length": split.length,
            "file_size": split.file_size,
            "format": split.read_format.name,
            "partition_values": jsonlines.plain(split.partition_values),
        }
    )
