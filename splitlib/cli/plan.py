"""``splitlib plan``: list the splits that match filters. Other commands share its functions."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from splitlib.cli import output
from splitlib.cli.arguments import (
    config_of,
    enumerator_of,
    output_options,
    setting_options,
    table_of,
    table_options,
)
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.errors import ConfigError
from splitlib.hive.partition_values import partition_name
from splitlib.model import FileSplit
from splitlib.progress import Progress
from splitlib.redaction import redact

_COLUMNS: Final = pa.schema(
    [
        ("split_id", pa.string()),
        ("path", pa.string()),
        ("start", pa.int64()),
        ("length", pa.int64()),
        ("file_size", pa.int64()),
        ("format", pa.string()),
        ("partition", pa.string()),
    ]
)
_ROWS: Final = 10_000
"""Number of splits in one row group of Parquet."""


def lines_of(splits: Iterable[FileSplit], form: str) -> Iterator[str]:
    """Yield the lines of a plan in a format of text: ``text``, ``paths``, ``json`` or ``csv``."""
    if form == "paths":
        last: dict[str, None] = {}
        for split in splits:
            path = redact(split.path)
            if path not in last:
                last[path] = None
                yield path
        return
    if form == "csv":
        yield _csv(_COLUMNS.names)
    format_: Callable[[FileSplit], str] = {"csv": _csv_row, "json": _json, "text": _text}[form]
    yield from map(format_, splits)


def write_parquet(splits: Iterable[FileSplit]) -> None:
    """Write a plan to standard output as a Parquet file.

    Raises:
        ConfigError: if standard output is a terminal.
    """
    if sys.stdout.isatty():
        raise ConfigError(
            "Parquet is not written to a terminal.", hint="redirect the output: > plan.parquet"
        )
    from pyarrow import parquet  # imported here because few commands write Parquet

    rows = iter(splits)
    with parquet.ParquetWriter(sys.stdout.buffer, _COLUMNS) as writer:
        while batch := [_row(split) for split in islice(rows, _ROWS)]:
            writer.write_table(pa.Table.from_pylist(batch, _COLUMNS))


def _name(split: FileSplit) -> str:
    texts = [None if v is None else str(v) for v in split.partition_values.values()]
    return partition_name(split.partition_values, texts)


def _row(split: FileSplit) -> dict[str, Any]:
    return {
        "split_id": split.split_id,
        "path": redact(split.path),
        "start": split.start,
        "length": split.length,
        "file_size": split.file_size,
        "format": split.read_format.name,
        "partition": _name(split),
    }


def _text(split: FileSplit) -> str:
    path = redact(split.path)
    return f"{split.split_id}\t{path}\t{split.start}\t{split.length}\t{_name(split)}"


def _json(split: FileSplit) -> str:
    row = _row(split)
    del row["partition"]
    return output.dump({**row, "partition_values": output.plain(split.partition_values)})


def _csv_row(split: FileSplit) -> str:
    return _csv([str(value) for value in _row(split).values()])


def _csv(values: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def options() -> list[argparse.ArgumentParser]:
    """Return the parent parsers of a command that enumerates a table."""
    return [table_options(), setting_options(), output_options()]


@contextmanager
def enumerating(
    args: argparse.Namespace,
) -> Iterator[tuple[DynamicFileEnumerator, Progress]]:
    """Open the table, and yield an enumerator with its filters and a progress line."""
    config = config_of(args)
    with table_of(args, config) as table:
        enumerator = enumerator_of(args, table, config)
        with output.for_command(enumerator.so_far, config, json=args.json) as out:
            yield enumerator, out


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
