"""``splitlib explain``: show which filters pruned the table."""

from __future__ import annotations

import argparse
from collections import deque
from typing import Any

from splitlib.cli import output
from splitlib.cli.plan import enumerating, options


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "explain",
        parents=options(),
        help="show which filters pruned, and why others were not used",
        description="Plans the table and prints how filters pruned it; with --json, one object.",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    with enumerating(args) as (enumerator, out):
        deque(enumerator.enumerate_splits(), maxlen=0)  # consume all splits without storing them
        report = enumerator.explain()
        out.print(output.dump(report.to_dict()) if args.json else str(report))
    return 0
