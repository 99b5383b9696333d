"""``splitlib tables``: what a metastore has."""

from __future__ import annotations

import argparse
import difflib
from contextlib import closing
from typing import Any

from splitlib.cli import jsonlines, progress
from splitlib.cli.arguments import output_options
from splitlib.errors import TableNotFound
from splitlib.registry import connector_class


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "tables",
        parents=[output_options()],
        help="names in a Hive metastore",
        description="One line per table; with --json one object per line.",
    )
    parser.add_argument("database", nargs="?", metavar="DATABASE", help="all by default")
    parser.add_argument("--uri", required=True, help="thrift://host:9083,...")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    connector_class("hive")  # says what to install if it cannot be imported
    from splitlib_hive.client import MetastoreClient, parse_uris

    with (
        closing(MetastoreClient(parse_uris(args.uri))) as client,
        progress.for_command(lambda: "asking the metastore", json=args.json) as out,
    ):
        databases = sorted(client.get_databases())
        if args.database is not None:
            databases = [_existing(args.database, databases)]
        for database in databases:
            for table in sorted(client.get_tables(database)):
                row = {"database": database, "table": table}
                out.print(jsonlines.dump(row) if args.json else f"{database}.{table}")
    return 0


def _existing(name: str, databases: list[str]) -> str:
    if name.lower() in databases:
        return name.lower()
    near = difflib.get_close_matches(name, databases, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(databases)}."
    raise TableNotFound(f"The metastore has no database {name!r}.", hint=hint)
