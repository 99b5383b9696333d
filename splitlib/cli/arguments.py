"""Options that several commands share, and functions that evaluate them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from typing import Any

from splitlib.cli.keys import STDIN, keys_of, parse_filter, parse_range
from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.errors import ConfigError
from splitlib.filtering.data import DynamicFilteringData
from splitlib.registry import is_path, named_catalogs, open_table
from splitlib.rows.table import ReadableTable
from splitlib.storage import nested_options, option_value
from splitlib.table import Table

# Connector options that are mappings, given as storage_options.key=value.
_NESTED = ("storage_options", "read_options")
_NO_OPTIONS = ("name", "connector", "spark", "config")


def output_options() -> argparse.ArgumentParser:
    """Return a parser with ``--json``, for all commands."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--json", action="store_true", help="write JSON")
    return parser


def setting_options() -> argparse.ArgumentParser:
    """Return a parser with ``--set``, for commands that use settings."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting, see 'splitlib config'; repeatable",
    )
    return parser


def table_options() -> argparse.ArgumentParser:
    """Return a parser with the options for a table, its catalog and filters."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "table",
        metavar="TABLE",
        help="a path or URI, catalog.db.table, or db.table of the catalog of --uri",
    )
    where = parser.add_argument_group("location of the table")
    where.add_argument("-c", "--connector", metavar="NAME", help="files, hive, ...")
    where.add_argument("--uri", help="URI of the catalog; the default connector is then hive")
    where.add_argument(
        "-o",
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the connector, such as format=orc or storage_options.key=...; "
        "repeatable",
    )
    filters = parser.add_argument_group("filters, combined with AND")
    filters.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="KEY=V1,V2",
        help="allowed values, quoted as in CSV; __HIVE_DEFAULT_PARTITION__ is null",
    )
    filters.add_argument(
        "--range",
        action="append",
        default=[],
        metavar="KEY=LOW..HIGH",
        help="range with both ends included; either may be omitted; an end with dots is "
        "quoted as in CSV",
    )
    filters.add_argument(
        "--keys",
        action="append",
        default=[],
        metavar="FILE",
        help="allowed values from a file, or from standard input if FILE is -: CSV with a header "
        "of column names, JSON lines, Parquet or Arrow; repeatable",
    )
    return parser


def pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    """Parse ``NAME=VALUE`` arguments into a dict.

    Raises:
        ConfigError: for an argument without a name or ``=``.
    """
    found = {}
    for number, text in enumerate(given, 1):
        name, equals, value = text.partition("=")
        if not name or not equals:  # the message omits the argument, which may be a secret
            raise ConfigError(
                f"Argument number {number} of --{option} does not have the form NAME=VALUE.",
                hint=f"write --{option} NAME=VALUE.",
            )
        found[name] = value
    return found


def nested(given: Mapping[str, str]) -> dict[str, Any]:
    """Return connector options, with ``storage_options.key`` and the like as mappings.

    Raises:
        ConfigError: for a name that is no option of a connector, or given twice.
    """
    options: dict[str, Any] = {}
    for name, value in given.items():
        outer, _, inner = name.partition(".")
        if outer in _NESTED and inner:
            options.setdefault(outer, {})[inner] = value
        elif name in _NO_OPTIONS:
            raise ConfigError(f"{name!r} is not a connector option.")
        else:
            options[name] = value
    if storage := options.get("storage_options"):
        if isinstance(storage, str):
            raise ConfigError(
                "storage_options is a text, not options.",
                hint="write -o storage_options.KEY=VALUE for each of them.",
            )
        values = {name: option_value(value) for name, value in storage.items()}
        options["storage_options"] = nested_options(values)
    return options


def config_of(args: argparse.Namespace) -> SplitConfig:
    """Return the settings from arguments and environment."""
    return SplitConfig.resolve(pairs("set", args.set))


def table_of(args: argparse.Namespace, config: SplitConfig) -> ReadableTable:
    """Open the table that the arguments name.

    A path or URI, or the name of a directory, is a table of the connector ``files``, unless another
    connector is given.
    """
    options = nested(pairs("option", args.option))
    if args.uri is not None:
        options["uri"] = args.uri
    connector = args.connector or ("hive" if args.uri is not None else None)
    if connector is None and is_directory(args.table):
        connector = "files"
    return open_table(args.table, connector, config=config, **options)


def is_directory(name: str) -> bool:
    """Return whether the name on a command line is a directory, not the name of a table."""
    if is_path(name) or "/" in name:
        return True
    catalog = name.partition(".")[0]
    return catalog not in named_catalogs({}) and os.path.isdir(name)


def filters_of(
    args: argparse.Namespace, table: Table, config: SplitConfig
) -> list[DynamicFilteringData]:
    """Parse the filters in the arguments, with the types of the table's columns."""
    if args.keys.count(STDIN) > 1:
        raise ConfigError("--keys - can be given once only.")
    values = [parse_filter(table.schema, text) for text in args.filter]
    values += [parse_range(table.schema, text) for text in args.range]
    return values + [keys_of(source, table.schema, config) for source in args.keys]


def enumerator_of(
    args: argparse.Namespace, table: Table, config: SplitConfig
) -> DynamicFileEnumerator:
    """Return an enumerator of the table with the filters in the arguments."""
    enumerator = DynamicFileEnumerator(table, config)
    for data in filters_of(args, table, config):
        enumerator.set_dynamic_filtering_data(data)
    return enumerator
