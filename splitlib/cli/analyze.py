"""``splitlib analyze``: learn the statistics of a table from the footers of its files."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from splitlib.cli import output
from splitlib.cli.arguments import config_of, filters_of, table_of
from splitlib.cli.plan import options
from splitlib.enumeration.analyze import Analysis, analyze_table


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "analyze",
        parents=options(),
        help="read the footers of all Parquet files, and keep what they say",
        description="Keeps least and greatest values of columns in statistics_location, if it is "
        "set. Filters select partitions.",
    )
    parser.add_argument(
        "--columns", metavar="NAME,NAME", help="columns to learn; by default all that can be"
    )
    parser.add_argument(
        "--where",
        action="append",
        dest="filter",
        default=[],
        metavar="KEY=V1,V2",
        help="partitions to learn; the same as --filter",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    config, so_far = config_of(args), [Analysis(())]
    names = None if args.columns is None else [n.strip() for n in args.columns.split(",")]
    with (
        table_of(args, config) as table,
        output.for_command(lambda: f"{so_far[0].files:,} files", config, json=args.json) as out,
    ):
        filters = filters_of(args, table, config)

        def show(found: Analysis) -> None:
            so_far[0] = found

        found = analyze_table(table, names, filters, config, show)
        out.print(output.dump(asdict(found)) if args.json else str(found))
    return 0
