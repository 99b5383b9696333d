"""``splitlib tables``: list the tables of a metastore."""

from __future__ import annotations

import argparse
from typing import Any

from splitlib.cli import jsonlines, progress
from splitlib.cli.arguments import output_options
from splitlib.errors import ConfigError
from splitlib.registry import connector_class
from splitlib.spi import SupportsTableNames


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "tables",
        parents=[output_options()],
        help="list the tables of a Hive metastore",
        description="Prints one line per table; with --json, one object per line.",
    )
    parser.add_argument("database", nargs="?", metavar="DATABASE", help="all databases by default")
    parser.add_argument("--uri", required=True, help="thrift://host:9083,...")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    catalog: Any = connector_class("hive")
    if not isinstance(catalog, SupportsTableNames):
        raise ConfigError("The installed connector 'hive' cannot list tables.")
    with progress.for_command(lambda: "listing the tables", json=args.json) as out:
        for database, table in catalog.table_names(args.database, {"uri": args.uri}):
            row = {"database": database, "table": table}
            out.print(jsonlines.dump(row) if args.json else f"{database}.{table}")
    return 0
