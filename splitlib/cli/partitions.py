"""``splitlib partitions``: list the partitions that match filters."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.cli import output
from splitlib.cli.arguments import config_of, enumerator_of, filters_of, table_of
from splitlib.cli.plan import options
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.filtering.predicate import Predicate
from splitlib.hive.partition_values import parse, partition_name
from splitlib.model import PartitionBatch
from splitlib.table import Table


class _Found(NamedTuple):
    batch: PartitionBatch
    row: int
    files: int = 0
    bytes: int = 0


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
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
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    config = config_of(args)
    with table_of(args, config) as table:
        if args.files:
            found = _with_files(enumerator_of(args, table, config))
        else:
            filters = filters_of(args, table, config) if config.dynamic_filtering_enabled else []
            found = _named(table, Predicate(table.metadata.partition_schema, filters))
        shown = 0
        with output.for_command(lambda: f"{shown:,} partitions", config, json=args.json) as out:
            for shown, one in enumerate(found, start=1):  # noqa: B007 - read by the progress
                row = _row(table, one)
                if args.files:
                    row |= {"files": one.files, "bytes": one.bytes}
                out.print(output.dump(row) if args.json else _text(row))
    return 0


def _named(table: Table, predicate: Predicate) -> Iterator[_Found]:
    """Yield the matching partitions without loading their details from the catalog."""
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
                # A partition's files may come in several consecutive batches, one per format.
                count, size = count + last.files, size + last.bytes
            elif last is not None:
                yield last
            last = _Found(batch, position, count, size)
    if last is not None:
        yield last


def _row(table: Table, found: _Found) -> dict[str, Any]:
    keys = table.metadata.partition_schema
    columns = found.batch.values.slice(found.row, 1).columns
    texts = [column[0].as_py() for column in columns]
    texts = [None if text is None else str(text) for text in texts]
    typed = {
        key.name: parse(column, key).values[0].as_py()
        for key, column in zip(keys, columns, strict=True)
    }
    # The name of an unpartitioned table's only partition is empty.
    return {"partition": partition_name(keys.names, texts), "values": output.plain(typed)}


def _text(row: dict[str, Any]) -> str:
    return "\t".join(str(value) for name, value in row.items() if name != "values")
