"""Entry point of the command line: parse arguments, run a command, return its exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from splitlib._version import __version__
from splitlib.cli import (
    analyze,
    audit,
    completion,
    config,
    demo,
    doctor,
    explain,
    export,
    new_connector,
    partitions,
    plan,
    tables,
)
from splitlib.cli.spelling import as_typed
from splitlib.errors import SplitlibError
from splitlib.redaction import redact

_FAILED = 2  # argparse uses the same code for invalid arguments
_INTERRUPTED = 128 + 2  # SIGINT
_READER_GONE = 128 + 13  # SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    It is 0 for success, 1 if a command that checks something has found a problem, 2 for an error or
    invalid arguments, 130 after an interrupt, and 141 if the reader of the output has ended.
    """
    args = _parser().parse_args(argv)
    try:
        code = int(args.run(args))
        if sys.stdout:  # None if the standard output is closed
            sys.stdout.flush()
    except SplitlibError as error:
        if error.hint:
            error.hint = as_typed(error.hint)
        print(f"error: {error}", file=sys.stderr)
        return _FAILED
    except BrokenPipeError:
        _drop_output()
        return _READER_GONE
    except OSError as error:  # such as a full disk behind the standard output
        _drop_output()
        print(f"error: {redact(str(error))}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        _drop_output()
        return _INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="splitlib",
        description="Show the partitions, files, splits and rows that match filters.",
        epilog="Exit codes: 0 for success; 1 if a command that checks something has found a "
        "problem (audit, doctor, demo); 2 for an error or invalid arguments; 130 after Ctrl-C; 141 "
        "if the program that reads the output has ended.",
    )
    parser.add_argument("--version", action="version", version=f"splitlib {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (
        tables,
        partitions,
        plan,
        explain,
        audit,
        export,
        analyze,
        config,
        doctor,
        new_connector,
        demo,
        completion,
    ):
        command.add_to(commands)
    return parser


def _drop_output() -> None:
    """Discard buffered output: flushing it at exit would fail or block again."""
    if sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
