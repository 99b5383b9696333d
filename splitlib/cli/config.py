"""``splitlib config``: show every setting with its value and source."""

from __future__ import annotations

import argparse
from typing import Any

from splitlib.cli import output
from splitlib.cli.arguments import output_options, pairs, setting_options
from splitlib.config import resolve_settings


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "config",
        parents=[setting_options(), output_options()],
        help="show every setting with its value and source",
        description="Prints settings from the environment (SPLITLIB_NAME) and --set; with --json, "
        "one object per line.",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    resolved = resolve_settings(pairs("set", args.set))
    width = max(len(setting.name) for setting in resolved)
    for setting in resolved:
        if args.json:
            print(output.dump(setting._asdict()))
        else:
            print(f"{setting.name:<{width}}  {setting.value}  ({setting.source})")
            print(f"{'':<{width}}  {setting.doc}")
    return 0
