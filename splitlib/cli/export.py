"""Command ``export``: write the rows of a table that match filters to a file."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from splitlib.cli.arguments import config_of, dump, filters_of, for_command, table_of
from splitlib.cli.plan import options
from splitlib.errors import ConfigError, SourceError, SplitlibError
from splitlib.redaction import redact_path

if TYPE_CHECKING:
    from pyarrow import dataset as ds


def add_export(commands: Any) -> None:
    """Add the command ``export`` to the parser."""
    parser = commands.add_parser(
        "export",
        parents=options(),
        help="write the matching rows to files",
        description="Writes the rows that match the filters exactly, with partition columns, to "
        "files in a new or empty directory. Spark is not needed.",
    )
    parser.add_argument("--to", required=True, metavar="DIR", help="directory to write")
    parser.add_argument(
        "--format", choices=["parquet", "csv", "arrow"], default="parquet", help="default: parquet"
    )
    parser.set_defaults(run=_run_export)


def _run_export(args: argparse.Namespace) -> int:
    config = config_of(args)
    if not args.to.strip():
        raise ConfigError("--to names no directory.", hint="write --to DIR.")
    rows = 0

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in batches:
            rows += batch.num_rows
            yield batch

    with (
        table_of(args, config) as table,
        for_command(lambda: f"{rows:,} rows", config, json=args.json) as out,
    ):
        with _exporting(args.to, args.format):
            place = _place(args.to)
        found = table.to_arrow_dataset(*filters_of(args, table, config), config=config)
        with _exporting(args.to, args.format):
            # Write an empty table, to reject types that the format lacks before rows are read.
            with _writer(pa.BufferOutputStream(), args.format, found.schema) as writer:
                writer.write_table(found.schema.empty_table())
            write_file(counted(_read(found)), found.schema, place, args.format)
        files = 1 if rows else 0
        shown = redact_path(args.to)
        result = {"directory": shown, "format": args.format, "files": files, "rows": rows}
        text = f"{rows:,} rows in {files:,} files: {shown}"
        out.print(dump(result) if args.json else text)
    return 0


@contextmanager
def _exporting(to: str, form: str) -> Iterator[None]:
    """Turn errors of Arrow into a :class:`SplitlibError` that names directory and format."""
    try:
        yield
    except SplitlibError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise SplitlibError(
            f"The rows cannot be exported to {to!r} as {form}: {error}",
            hint="give a new or empty directory, and a format for the types of the columns.",
        ) from error


def _place(to: str) -> tuple[Any, str]:
    """Return the filesystem and the path of a directory or URI, which must be new or empty."""
    from pyarrow import fs

    filesystem, path = (
        fs.FileSystem.from_uri(to) if "://" in to else (fs.LocalFileSystem(), os.path.abspath(to))
    )
    if filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True)):
        raise SplitlibError(
            f"The directory {to!r} is not empty.", hint="give a new or empty directory."
        )
    return filesystem, path


def _read(found: ds.Dataset) -> Iterator[pa.RecordBatch]:
    """Yield a dataset's batches that have rows. Arrow's errors become errors of reading the table.

    Raises:
        SourceError: if a file is damaged.
    """
    batches = found.to_batches()
    while True:
        try:
            batch = next(batches, None)
        except SplitlibError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise SourceError(
                f"The rows of the table cannot be read: {error}",
                hint="a file may be damaged; splitlib plan --format paths lists the files.",
            ) from error
        if batch is None:
            return
        if batch.num_rows:
            yield batch


def write_file(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, place: tuple[Any, str], form: str
) -> None:
    """Write a file into a directory, unless there are no batches.

    An incomplete file must not look complete, so it gets its name after the last row.
    """
    from pyarrow import fs

    first = next(batches, None)
    if first is None:
        return
    filesystem, directory = place
    filesystem.create_dir(directory, recursive=True)
    rows, name = chain([first], batches), f"part-0.{form}"
    if isinstance(filesystem, fs.LocalFileSystem):
        written = f"{directory}/.{name}.{uuid4().hex}.tmp"
        try:
            _write_all(rows, schema, written, form)
            with open(f"{directory}/{name}", "xb"):  # Fails if another export has written it.
                pass
            filesystem.move(written, f"{directory}/{name}")
        except BaseException:
            with suppress(OSError):
                os.remove(written)
            raise
        return
    # Closing the stream of an object store completes the object, even after an error, and deleting
    # it may not be allowed. So only a complete file is uploaded.
    with tempfile.TemporaryDirectory() as temporary:
        written = f"{temporary}/{name}"
        _write_all(rows, schema, written, form)
        fs.copy_files(
            written,
            f"{directory}/{name}",
            source_filesystem=fs.LocalFileSystem(),
            destination_filesystem=filesystem,
        )


def _write_all(batches: Iterator[pa.RecordBatch], schema: pa.Schema, path: str, form: str) -> None:
    with pa.OSFile(path, "wb") as file, _writer(file, form, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _writer(file: pa.NativeFile, form: str, schema: pa.Schema) -> Any:
    if form == "parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(file, schema)
    if form == "csv":
        from pyarrow import csv as arrow_csv

        return arrow_csv.CSVWriter(file, schema)
    return pa.ipc.new_file(file, schema)
