"""Options that several commands share, and helpers for output."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from splitlib.cli.filters import STDIN, keys_of, parse_filter, parse_range
from splitlib.config import SplitConfig, respelled
from splitlib.diagnosis.session import spark_session
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.errors import ConfigError
from splitlib.filtering.data import DynamicFilteringData
from splitlib.registry import SESSION, is_path, named_catalogs, open_table, refuse_reserved
from splitlib.rows.table import ReadableTable
from splitlib.storage import options_of_text
from splitlib.table import Table
from splitlib.telemetry import Progress, on_terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def dump(value: Mapping[str, Any]) -> str:
    """Format a mapping as JSON on one line. Values without a JSON type are written as text."""
    return json.dumps(value, default=_as_text, ensure_ascii=False)


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values`` with NaN and infinity as text, because JSON does not have them."""
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in values.items()
    }


def _as_text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def for_command(describe: Callable[[], str], config: SplitConfig, *, json: bool) -> Progress:
    """Return a command's progress line, which is written to stderr.

    The line is shown if ``show_progress`` is set and stderr is a terminal, unless the command
    writes JSON to a file or another program.
    """
    enabled = config.show_progress and sys.stderr.isatty() and (sys.stdout.isatty() or not json)
    return Progress(describe, on_terminal(sys.stderr) if enabled else None)


def settings_typed(text: str) -> str:
    """Return a hint or a line of a report, in which settings are written ``--set NAME=VALUE``."""
    text = text.replace("Call splitlib.analyze", "Run splitlib analyze")
    return respelled(text, lambda name, value: f"--set {name}={value or 'VALUE'}")


def output_options() -> argparse.ArgumentParser:
    """Return a parent parser with the option ``--json``."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--json", action="store_true", help="write JSON")
    return parser


def setting_options() -> argparse.ArgumentParser:
    """Return a parent parser with the option ``--set``, for commands that use settings."""
    parser = argparse.ArgumentParser(add_help=False)
    repeatable(parser, "--set", "NAME=VALUE", "a setting, see 'splitlib config'")
    return parser


def repeatable(parser: Any, name: str, metavar: str, text: str, *, short: str = "") -> None:
    """Add an option that may be given several times to a parser or a group of options."""
    names = [short, name] if short else [name]
    parser.add_argument(
        *names, action="append", default=[], metavar=metavar, help=f"{text}; repeatable"
    )


def conf_option(parser: Any) -> None:
    """Add the option ``--conf``, for commands that start a Spark session."""
    repeatable(parser, "--conf", "KEY=VALUE", "a setting of the Spark session")


def table_options() -> argparse.ArgumentParser:
    """Return a parent parser with the options for a table, its catalog and its filters."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "table",
        metavar="TABLE",
        help="a path or URI, catalog.db.table, or db.table of the catalog of --uri",
    )
    where = parser.add_argument_group("location of the table")
    where.add_argument("-c", "--connector", metavar="NAME", help="files, hive, session, ...")
    where.add_argument("--uri", help="URI of the catalog; the default connector is then hive")
    option = "an option of the connector, such as format=orc or storage_options.key=..."
    repeatable(where, "--option", "KEY=VALUE", option, short="-o")
    conf_option(where)
    filters = parser.add_argument_group("filters, combined with AND")
    values = "allowed values, quoted as in CSV; __HIVE_DEFAULT_PARTITION__ is null"
    repeatable(filters, "--filter", "KEY=V1,V2", values)
    ends = "range with both ends included; either may be omitted; an end with dots is quoted as in "
    repeatable(filters, "--range", "KEY=LOW..HIGH", f"{ends}CSV")
    keys = "allowed values from a file, or from standard input if FILE is -: CSV with a header of "
    repeatable(filters, "--keys", "FILE", f"{keys}column names, JSON lines, Parquet or Arrow")
    return parser


def pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    """Parse ``NAME=VALUE`` arguments into a dict.

    Raises:
        ConfigError: if an argument has no name or no ``=``.
    """
    found = {}
    for number, text in enumerate(given, 1):
        name, equals, value = text.partition("=")
        if not name or not equals:  # The message omits the argument, which may be a secret.
            raise ConfigError(
                f"Argument number {number} of --{option} does not have the form NAME=VALUE.",
                hint=f"write --{option} NAME=VALUE.",
            )
        found[name] = value
    return found


def nested(given: Mapping[str, str]) -> dict[str, Any]:
    """Return connector options, with dotted names such as ``storage_options.key`` as nested dicts.

    Raises:
        ConfigError: if a name is reserved, such as ``name`` or ``spark``, or if a mapping is given
            as text, or both as a whole and in parts.
    """
    refuse_reserved(given)
    options = options_of_text(given)
    if isinstance(options.get("storage_options"), str):
        raise ConfigError(
            "storage_options is a text, not options.",
            hint="write -o storage_options.KEY=VALUE for each of them.",
        )
    return options


def config_of(args: argparse.Namespace) -> SplitConfig:
    """Return the settings from ``--set`` arguments and environment variables."""
    return SplitConfig.resolve(pairs("set", args.set))


def catalog_of(args: argparse.Namespace) -> tuple[str | None, dict[str, Any]]:
    """Return the connector that the arguments name, or None, and the connector's options."""
    options = nested(pairs("option", args.option))
    if args.conf and args.connector != SESSION and getattr(args, "where", None) is None:
        raise ConfigError(
            "--conf needs a Spark session.", hint=f"add -c {SESSION}, or leave --conf out."
        )
    if args.uri is None:
        return args.connector, options
    return args.connector or "hive", {**options, "uri": args.uri}


@contextmanager
def table_of(args: argparse.Namespace, config: SplitConfig) -> Iterator[ReadableTable]:
    """Open the table that the arguments name, and close it after the ``with`` block.

    A path, a URI or the name of a directory is opened with the connector ``files``, unless the
    arguments name another connector. The connector ``session`` starts a Spark session.
    """
    connector, options = catalog_of(args)
    if connector is None and (is_directory(args.table) or _is_of_no_catalog(args.table)):
        connector = "files"
    with ExitStack() as stack:
        if connector == SESSION:
            options["spark"] = stack.enter_context(session_of(args))
        yield stack.enter_context(open_table(args.table, connector, config=config, **options))


def session_of(args: argparse.Namespace) -> AbstractContextManager[SparkSession]:
    """Return a context that starts a Spark session, with the settings in the arguments."""
    return spark_session("splitlib", pairs("conf", args.conf))


def is_directory(name: str) -> bool:
    """Return whether a command-line argument names a directory, and not a table of a catalog."""
    if is_path(name) or "/" in name:
        return True
    catalog = name.partition(".")[0]
    return catalog not in named_catalogs({}) and os.path.isdir(name)


def _is_of_no_catalog(name: str) -> bool:
    """Return whether a name can be neither a table, because it has no dot, nor a catalog."""
    return bool(name.strip()) and "." not in name and name not in named_catalogs({})


def filters_of(
    args: argparse.Namespace, table: Table, config: SplitConfig
) -> list[DynamicFilteringData]:
    """Parse the filters in the arguments. Values are parsed to the types of the table's columns."""
    if args.keys.count(STDIN) > 1:
        raise ConfigError(
            "--keys - is given more than once, but standard input can be read only once.",
            hint="write the other keys to files, and name these.",
        )
    values = [parse_filter(table.schema, text) for text in args.filter]
    values += [parse_range(table.schema, text) for text in args.range]
    return values + [keys_of(source, table.schema, config) for source in args.keys]


def enumerator_of(
    args: argparse.Namespace, table: Table, config: SplitConfig
) -> DynamicFileEnumerator:
    """Return an enumerator for the table, with the filters in the arguments."""
    return DynamicFileEnumerator(table, config, filters=filters_of(args, table, config))
