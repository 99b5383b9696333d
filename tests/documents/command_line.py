"""The tables of all options on the page of the command line, from the parser."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from splitlib.cli.app import arguments_of, command_line, commands_of
from tests.documents.examples import DOCS

_MARK: Final = "<!-- from here on written by python -m tests.documents -->\n"
_DEFAULTS: Final[tuple[object, ...]] = (None, False, [], argparse.SUPPRESS)
"""Defaults of options that are not given, which the page does not show."""


def command_line_page() -> str:
    """Return the page: its first part as it is, and tables of all options."""
    page = (DOCS / "reference" / "command-line.md").read_text("utf-8")
    return "\n".join([page.partition(_MARK)[0] + _MARK, *_tables()]) + "\n"


def _tables() -> Iterator[str]:
    commands: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for command, parser in commands_of(command_line()).items():
        for action in arguments_of(parser):
            default = "" if action.default in _DEFAULTS else f"`{action.default}`"
            key = (_spelling(action), default, action.help or "")
            commands[key].append(f"`{command}`")
    yield "## Arguments and options"
    yield ""
    yield "| argument or option | of | default | meaning |"
    yield "|---|---|---|---|"
    for (spelling, default, meaning), names in commands.items():
        cells = (f"`{spelling}`", ", ".join(names), default, meaning)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _spelling(action: argparse.Action) -> str:
    """Return an option as a user types it, such as ``-o, --option KEY=VALUE``."""
    values = action.metavar or ("" if action.nargs == 0 else f"{action.dest.upper()}")
    if action.choices is not None:
        values = "|".join(map(str, action.choices))
    return " ".join(filter(None, (", ".join(action.option_strings), str(values))))
