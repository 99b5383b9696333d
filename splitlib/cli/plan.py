"""Commands that apply filters to a table: ``plan``, ``explain``, ``partitions``."""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.cli.arguments import (
    config_of,
    dump,
    enumerator_of,
    filters_of,
    for_command,
    output_options,
    plain,
    setting_options,
    settings_typed,
    table_of,
    table_options,
)
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.splitting import typed_values
from splitlib.errors import ConfigError, UnsupportedTable
from splitlib.filtering.predicate import Predicate
from splitlib.hive.partition_values import name_of, partition_name, written
from splitlib.model import FileSplit, PartitionBatch
from splitlib.redaction import redact_path
from splitlib.report import respelled_report
from splitlib.table import Table
from splitlib.telemetry import Progress

_COLUMNS: Final = pa.schema(
    [
        ("split_id", pa.string()),
        ("path", pa.string()),
        ("start", pa.int64()),
        ("length", pa.int64()),
        ("file_size", pa.int64()),
        ("format", pa.string()),
        ("delete_files", pa.int64()),
        ("partition", pa.string()),
    ]
)
_ROWS: Final = 10_000
"""Number of splits per Parquet row group."""


def lines_of(splits: Iterable[FileSplit], form: str) -> Iterator[str]:
    """Yield a plan's lines in the format ``form``: ``text``, ``paths``, ``json`` or ``csv``."""
    if form == "paths":
        last: dict[str, None] = {}
        for split in splits:
            if split.deletes:
                raise UnsupportedTable(
                    f"Some rows of {split.path!r} are deleted. A list of paths cannot show that.",
                    hint="use --format json and apply the deletes, or splitlib export.",
                )
            path = redact_path(split.path)
            if path not in last:
                last[path] = None
                yield path
        return
    if form == "csv":
        yield _csv(_COLUMNS.names)
        yield from (_csv([str(value) for value in _row(split).values()]) for split in splits)
    else:
        yield from map(_json if form == "json" else _text, splits)


def write_parquet(splits: Iterable[FileSplit]) -> None:
    """Write a plan to standard output as a Parquet file.

    Raises:
        ConfigError: if standard output is a terminal.
    """
    if sys.stdout is None:
        raise ConfigError("Standard output is closed.", hint="redirect the output: > plan.parquet")
    if sys.stdout.isatty():
        raise ConfigError(
            "Parquet is not written to a terminal.", hint="redirect the output: > plan.parquet"
        )
    from pyarrow import parquet  # Imported here because few commands write Parquet.

    rows = iter(splits)
    # Write to a temporary file first, so that an incomplete plan is never printed.
    with tempfile.TemporaryFile() as file:
        with parquet.ParquetWriter(file, _COLUMNS) as writer:
            while batch := [_row(split) for split in islice(rows, _ROWS)]:
                writer.write_table(pa.Table.from_pylist(batch, _COLUMNS))
        file.seek(0)
        shutil.copyfileobj(file, sys.stdout.buffer)


def _name(split: FileSplit) -> str:
    return partition_name(split.partition_values, map(written, split.partition_values.values()))


def _row(split: FileSplit) -> dict[str, Any]:
    return {
        "split_id": split.split_id,
        "path": redact_path(split.path),
        "start": split.start,
        "length": split.length,
        "file_size": split.file_size,
        "format": split.read_format.name,
        "delete_files": len(split.deletes),
        "partition": _name(split),
    }


def _text(split: FileSplit) -> str:
    row = _row(split)
    fields = ["split_id", "path", "start", "length", "partition"]
    if split.deletes:
        fields.append("delete_files")
    return "\t".join(str(row[name]) for name in fields)


def _json(split: FileSplit) -> str:
    row = _row(split)
    del row["partition"], row["delete_files"]
    deletes = [{"kind": d.kind, "path": redact_path(d.path)} for d in split.deletes]
    values = plain(split.partition_values)
    return dump({**row, "partition_values": values, "deletes": deletes})


def _csv(values: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def options() -> list[argparse.ArgumentParser]:
    """Return the parent parsers for commands that enumerate a table."""
    return [table_options(), setting_options(), output_options()]


@contextmanager
def enumerating(args: argparse.Namespace) -> Iterator[tuple[DynamicFileEnumerator, Progress]]:
    """Open the table, and yield an enumerator with the filters in ``args``, and a progress line."""
    config = config_of(args)
    with table_of(args, config) as table:
        enumerator = enumerator_of(args, table, config)
        with for_command(enumerator.so_far, config, json=args.json) as out:
            yield enumerator, out


def add_plan(commands: Any) -> None:
    """Add the command ``plan`` to the parser."""
    parser = commands.add_parser(
        "plan",
        parents=options(),
        help="list the splits to read",
        description="Prints one line per split: id, path, first byte, bytes, partition and, if "
        "there are any, the number of delete files, separated by tabs; with --json, one object per "
        "line.",
    )
    parser.add_argument(
        "--format",
        choices=["text", "paths", "json", "csv", "parquet"],
        help="paths: each file once, one per line; json: as --json; csv: with a header; parquet: a "
        "file, to redirect",
    )
    parser.set_defaults(run=_run_plan)


def _run_plan(args: argparse.Namespace) -> int:
    if args.json and args.format not in (None, "json"):
        raise ConfigError(f"--json and --format {args.format} contradict each other.")
    form = args.format or ("json" if args.json else "text")
    args.json = form not in ("text", "paths")  # No progress line if a program reads the output.
    with enumerating(args) as (enumerator, out):
        if form == "parquet":
            write_parquet(enumerator.enumerate_splits())
        else:
            for line in lines_of(enumerator.enumerate_splits(), form):
                out.print(line)
    return 0


def add_explain(commands: Any) -> None:
    """Add the command ``explain`` to the parser."""
    parser = commands.add_parser(
        "explain",
        parents=options(),
        help="show which filters pruned, and why others were not used",
        description="Plans the table and prints how filters pruned it; with --json, one object.",
    )
    parser.add_argument("--html", action="store_true", help="write an HTML page")
    parser.set_defaults(run=_run_explain)


def _run_explain(args: argparse.Namespace) -> int:
    if args.json and args.html:
        raise ConfigError("--json and --html contradict each other.")
    with enumerating(args) as (enumerator, out):
        deque(enumerator.enumerate_splits(), maxlen=0)  # Consume all splits, but store none.
        report = respelled_report(enumerator.explain(), settings_typed)
        text = report.to_html() if args.html else str(report)
        out.print(dump(report.to_dict()) if args.json else text)
    return 0


class _Found(NamedTuple):
    batch: PartitionBatch
    row: int
    files: int = 0
    bytes: int = 0


def add_partitions(commands: Any) -> None:
    """Add the command ``partitions`` to the parser."""
    parser = commands.add_parser(
        "partitions",
        parents=options(),
        help="list the partitions that match",
        description="Prints one partition name per line; with --json, one object per line.",
    )
    parser.add_argument(
        "--files",
        action="store_true",
        help="list files, too: print only partitions with data, with their number of files and "
        "bytes, separated by tabs",
    )
    parser.set_defaults(run=_run_partitions)


def _run_partitions(args: argparse.Namespace) -> int:
    config = config_of(args)
    with table_of(args, config) as table:
        if args.files:
            found = _with_files(enumerator_of(args, table, config))
        else:
            filters = filters_of(args, table, config) if config.dynamic_filtering_enabled else []
            found = _named(table, Predicate(table.metadata.partition_schema, filters))
        shown = 0
        with for_command(lambda: f"{shown:,} partitions", config, json=args.json) as out:
            for shown, one in enumerate(found, start=1):  # noqa: B007 - read by the progress
                row = _partition_row(table, one)
                if args.files:
                    row |= {"files": one.files, "bytes": one.bytes}
                texts = (str(value) for name, value in row.items() if name != "values")
                out.print(dump(row) if args.json else "\t".join(texts))
    return 0


def _named(table: Table, predicate: Predicate) -> Iterator[_Found]:
    """Yield the matching partitions, without requesting their details from the catalog."""
    if predicate.matches_nothing:
        return
    for batch in table.list_partitions(predicate):
        rows = (
            pc.indices_nonzero(predicate.match(batch.values, batch.fields))
            if predicate.keys
            else None
        )
        kept = batch if rows is None else batch.take(rows)
        for row in range(len(kept)):
            yield _Found(kept, row)


def _with_files(enumerator: DynamicFileEnumerator) -> Iterator[_Found]:
    last: _Found | None = None
    for selected in enumerator.select_files():
        files = pa.table(selected.files.files).group_by("partition", use_threads=False)
        for row in files.aggregate([("size", "count"), ("size", "sum")]).to_pylist():
            batch, position = selected.partitions, row["partition"]
            count, size = row["size_count"], row["size_sum"]
            if last is not None and last.batch is batch and last.row == position:
                # Add up: a partition's files may come in several consecutive batches.
                count, size = count + last.files, size + last.bytes
            elif last is not None:
                yield last
            last = _Found(batch, position, count, size)
    if last is not None:
        yield last


def _partition_row(table: Table, found: _Found) -> dict[str, Any]:
    batch = found.batch.slice(found.row, 1)
    values = typed_values(batch, table.metadata.filter_schema)
    typed = {name: column[0] for name, column in values.items()}
    # The name of an unpartitioned table's only partition is empty.
    return {"partition": name_of(batch, 0), "values": plain(typed)}
