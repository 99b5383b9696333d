"""Entry point of the command line: parse arguments, run a command, return its exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from splitlib._version import __version__
from splitlib.cli import (
    analyze,
    config,
    demo,
    explain,
    export,
    new_connector,
    partitions,
    plan,
    tables,
)
from splitlib.errors import SplitlibError

_FAILED = 2  # argparse uses the same code for invalid arguments
_INTERRUPTED = 128 + 2  # SIGINT
_READER_GONE = 128 + 13  # SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 for a wrong result, 2 for an error."""
    args = _parser().parse_args(argv)
    try:
        code = int(args.run(args))
        sys.stdout.flush()
    except SplitlibError as error:
        print(f"error: {error}", file=sys.stderr)
        return _FAILED
    except BrokenPipeError:
        _drop_output()
        return _READER_GONE
    except KeyboardInterrupt:
        _drop_output()
        return _INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="splitlib",
        description="Show the partitions, files, splits and rows that match filters.",
    )
    parser.add_argument("--version", action="version", version=f"splitlib {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (
        tables,
        partitions,
        plan,
        explain,
        export,
        analyze,
        config,
        new_connector,
        demo,
    ):
        command.add_to(commands)
    return parser


def _drop_output() -> None:
    """Discard buffered output: flushing it at exit would fail or block again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
