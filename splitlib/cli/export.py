"""``splitlib export``: write the rows that match filters to files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from splitlib.cli import output
from splitlib.cli.arguments import config_of, filters_of, table_of
from splitlib.cli.plan import options
from splitlib.errors import SplitlibError

_FORMATS = {"parquet": "parquet", "csv": "csv", "arrow": "ipc"}


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "export",
        parents=options(),
        help="write the matching rows to files",
        description="Writes the rows that match the filters exactly, with partition columns, to "
        "files in a new or empty directory. Spark is not needed.",
    )
    parser.add_argument("--to", required=True, metavar="DIR", help="directory to write")
    parser.add_argument("--format", choices=_FORMATS, default="parquet", help="default: parquet")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from pyarrow import dataset as ds  # slow to import, and only needed here

    config = config_of(args)
    rows, files = 0, 0

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in batches:
            rows += batch.num_rows
            yield batch

    def wrote(_: object) -> None:
        nonlocal files
        files += 1

    with (
        table_of(args, config) as table,
        output.for_command(lambda: f"{rows:,} rows", config, json=args.json) as out,
    ):
        found = table.to_arrow_dataset(*filters_of(args, table, config), config=config)
        try:
            ds.write_dataset(
                counted(found.to_batches()),
                args.to,
                schema=found.schema,
                format=_FORMATS[args.format],
                basename_template=f"part-{{i}}.{args.format}",
                file_visitor=wrote,
            )
        except SplitlibError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise SplitlibError(
                f"The rows cannot be exported to {args.to!r} as {args.format}: {error}",
                hint="give a new or empty directory, and a format for the types of the columns.",
            ) from error
        result = {"directory": args.to, "format": args.format, "files": files, "rows": rows}
        text = f"{rows:,} rows in {files:,} files: {args.to}"
        out.print(output.dump(result) if args.json else text)
    return 0
