"""``splitlib explain``: show which filters pruned the table."""

from __future__ import annotations

import argparse
from collections import deque
from typing import Any

from splitlib.cli import output
from splitlib.cli.plan import enumerating, options
from splitlib.errors import ConfigError


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "explain",
        parents=options(),
        help="show which filters pruned, and why others were not used",
        description="Plans the table and prints how filters pruned it; with --json, one object.",
    )
    parser.add_argument("--html", action="store_true", help="write an HTML page")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.json and args.html:
        raise ConfigError("--json and --html contradict each other.")
    with enumerating(args) as (enumerator, out):
        deque(enumerator.enumerate_splits(), maxlen=0)  # consume all splits without storing them
        report = enumerator.explain()
        text = report.to_html() if args.html else str(report)
        out.print(output.dump(report.to_dict()) if args.json else text)
    return 0
