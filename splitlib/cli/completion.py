"""``splitlib completion``: a script with which a shell completes commands and options."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any, Final

_OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_SCRIPT: Final = """\
_splitlib() {{
    local words
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    else
        case "${{COMP_WORDS[1]}}" in
{cases}
        esac
        case "${{COMP_WORDS[COMP_CWORD]}}" in
            -*) ;;
            *) words="" ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _splitlib splitlib
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser, after all other commands."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands and options in bash or zsh",
        description='In bash: eval "$(splitlib completion)". In zsh, run first: autoload -U '
        "bashcompinit && bashcompinit.",
    )
    parser.set_defaults(run=_printing(commands.choices))


def _printing(choices: dict[str, argparse.ArgumentParser]) -> Callable[[argparse.Namespace], int]:
    def run(_: argparse.Namespace) -> int:
        cases = [
            f'            {name}) words="{" ".join(options_of(parser))}" ;;'
            for name, parser in choices.items()
        ]
        print(_SCRIPT.format(commands=" ".join(choices), cases="\n".join(cases)), end="")
        return 0

    return run


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    """Return the long options of a command, in the order of its usage."""
    return list(dict.fromkeys(_OPTION.findall(parser.format_usage())))
