"""Entry point of the command line: parse arguments, run a command, return its exit code."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from splitlib._version import __version__
from splitlib.cli.arguments import settings_typed
from splitlib.cli.export import add_export
from splitlib.cli.plan import add_explain, add_partitions, add_plan
from splitlib.cli.setup import add_config, add_demo, add_doctor, add_new_connector
from splitlib.cli.tables import add_analyze, add_audit, add_tables
from splitlib.errors import SplitlibError
from splitlib.redaction import redact

_CATALOG: Final = re.compile(r"\bspark\.splitlib\.catalog\.(\w+)\.(\w+)")
# Matches Python arguments in hints that are connector options (-o NAME=VALUE) on the command line.
_OPTION: Final = re.compile(
    r"(?<![\w.\-])(as_of|catalog|catalog_id|format|partition_projection|partition_schema|path_glob"
    r"|percent_escapes|read_options|ref|region|schema|snapshot_id|storage_options|token|unfiltered"
    r"|type|uri)=(\S*)"
)
_CONNECTOR: Final = re.compile(r"(?<![\w.\-])connector=(?:'(\w+)'|\.\.\.)")


def as_typed(hint: str) -> str:
    """Rewrite an error's hint, which names Python arguments, for users of the command line.

    Settings become ``--set NAME=VALUE``, connector options ``-o NAME=VALUE``, the connector
    ``-c NAME``, and settings of named catalogs become environment variables.
    """
    hint = _CATALOG.sub(lambda found: f"SPLITLIB_CATALOG__{found[1]}__{found[2]}".upper(), hint)
    hint = _CONNECTOR.sub(lambda found: f"-c {found[1] or 'NAME'}", hint)
    hint = _OPTION.sub(_option, hint)
    return settings_typed(hint)


def _option(found: re.Match[str]) -> str:
    name, value = found[1], found[2].replace("...", "").replace("…", "")
    end = value[len(value.rstrip(".,;:")) :]
    given = value.removesuffix(end).strip("'\"") or "VALUE"
    return f"-o {name}={given}{end}"


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


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command, by the name of the command."""
    (found,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return dict(found.choices)


def add_completion(commands: Any) -> None:
    """Add the command ``completion`` to the parser, after all other commands were added."""
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
    """Return a command's long options, such as ``--json``, in the order of its help."""
    names = (name for action in arguments_of(parser) for name in action.option_strings)
    return [name for name in names if name.startswith("--")]


def arguments_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return a command's arguments and options, without ``--help``."""
    return [action for action in parser._actions if action.dest != "help"]


_FAILED = 2  # argparse uses the same code for invalid arguments.
_INTERRUPTED = 128 + 2  # SIGINT
_READER_GONE = 128 + 13  # SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    The code is 0 for success, 1 if a checking command finds a problem or ``analyze`` cannot save
    all statistics, 2 for an error or invalid arguments, 130 after an interrupt, and 141 if the
    program that reads the output has ended.
    """
    if sys.stderr is None:  # Standard error is closed, as for some daemons.
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # open until the process ends
    args = command_line().parse_args(argv)
    try:
        code = int(args.run(args))
        if sys.stdout:  # None if standard output is closed.
            sys.stdout.flush()
    except SplitlibError as error:
        if error.hint:
            error.hint = as_typed(error.hint)
        _print_error(str(error))
        return _FAILED
    except UnicodeEncodeError as error:  # For example, Windows writes redirected text in cp1252.
        _drop_output()
        wrong = error.object[error.start : error.end]
        _print_error(
            f"The output cannot show {wrong!r} in {sys.stdout.encoding}. "
            "Hint: set the environment variable PYTHONIOENCODING=utf-8."
        )
        return _FAILED
    except BrokenPipeError:
        _drop_output()
        return _READER_GONE
    except OSError as error:  # For example, the output goes to a file and the disk is full.
        _drop_output()
        _print_error(redact(str(error)))
        return _FAILED
    except KeyboardInterrupt:
        _drop_output()
        return _INTERRUPTED
    except Exception as error:
        if not _is_of_spark(error):
            raise  # a bug
        first = next(filter(None, str(error).splitlines()), type(error).__name__)
        _print_error(redact(first))
        return _FAILED
    return code


def command_line() -> argparse.ArgumentParser:
    """Return the parser of all commands and their options."""
    parser = argparse.ArgumentParser(
        prog="splitlib",
        description="Show the partitions, files, splits and rows that match filters.",
        epilog="Exit codes: 0 for success; 1 if a command that checks something has found a "
        "problem (audit, doctor, demo), or if analyze could not save all statistics; 2 for an "
        "error or invalid arguments; 130 after Ctrl-C; 141 if the program that reads the output "
        "has ended.",
    )
    parser.add_argument("--version", action="version", version=f"splitlib {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (
        add_tables,
        add_partitions,
        add_plan,
        add_explain,
        add_audit,
        add_export,
        add_analyze,
        add_config,
        add_doctor,
        add_new_connector,
        add_demo,
        add_completion,
    ):
        add(commands)
    return parser


def _is_of_spark(error: Exception) -> bool:
    """Return whether PySpark or its connection to the JVM raised the error."""
    # Looked up in sys.modules, because most commands do not import PySpark.
    jvm_errors = getattr(sys.modules.get("splitlib.spark.jvm.gateway"), "JVM_ERRORS", ())
    return type(error).__module__.startswith("pyspark.") or isinstance(error, jvm_errors)


def _print_error(message: str) -> None:
    """Print an error, unless the program that reads standard error has ended."""
    try:
        print(f"error: {message}", file=sys.stderr, flush=True)
    except OSError:
        # Python flushes the stream again at exit, and would then fail with an exit code of its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _drop_output() -> None:
    """Discard buffered output, which Python would flush at exit, and then fail or block again."""
    if sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
