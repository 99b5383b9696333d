"""``splitlib explain``: what was pruned by what."""

from __future__ import annotations

import argparse
from collections import deque
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
from splitlib.cli.plan import so_far


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "explain",
        parents=[table_options(), setting_options(), output_options()],
        help="what was pruned by which filter, and why another was not used",
        description="Plans the table and says how it went; with --json as one object.",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    config = config_of(args)
    with table_of(args, config) as table:
        enumerator = enumerator_of(args, table, config)
        with progress.for_command(lambda: so_far(enumerator), json=args.json) as out:
            deque(enumerator.enumerate_splits(), maxlen=0)
            report = enumerator.explain()
            out.print(jsonlines.dump(report.to_dict()) if args.json else str(report))
    return 0
