"""Options that several commands share, parsers for filters, and helpers for output."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.checks import column_named
from splitlib.config import SplitConfig, respelled
from splitlib.diagnosis.session import spark_session
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.errors import ConfigError, InvalidFilter
from splitlib.filtering.collector import DynamicFilteringDataCollector
from splitlib.filtering.data import DynamicFilteringData
from splitlib.hive.partition_values import NULL_PARTITION, parse
from splitlib.registry import SESSION, is_path, named_catalogs, open_table
from splitlib.rows.table import ReadableTable
from splitlib.storage import nested_options, option_value
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
    """Return a hint or a line of a report, with advice on settings as ``--set NAME=VALUE``."""
    text = text.replace("Call splitlib.analyze", "Run splitlib analyze")
    return respelled(text, lambda name, value: f"--set {name}={value or 'VALUE'}")


# Matches at each position where `..` starts. In `...`, there are two such positions.
_DOTS = r"(?=\.\.)"
# One end of a range: text that is quoted as in CSV, or that does not start with a quote.
_END = re.compile(r'"(?:[^"]|"")*"|(?!").*', re.DOTALL)
STDIN: Final = "-"
_MOST_BYTES: Final = 1 << 30
"""Maximum size of a file with join keys, in bytes."""
_TEXTS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"


def parse_filter(schema: pa.Schema, text: str) -> DynamicFilteringData:
    """Parse ``key=1,2,3`` to a filter that allows only these values of the key.

    Raises:
        ConfigError: if ``text`` does not have this form.
        InvalidFilter: for an unknown column, or a value that is invalid for the column's type.
    """
    name, values = _split(text, "--filter", "key=1,2,3")
    field = schema.field(column_named(name, schema.names))
    try:
        texts = next(csv.reader([values], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise ConfigError(f"--filter {text!r} is not quoted as in CSV: {error}.") from error
    return DynamicFilteringData.from_arrow(pa.table({field.name: typed(texts, field)}))


def parse_range(schema: pa.Schema, text: str) -> DynamicFilteringData:
    """Parse ``key=1..9``, ``key=1..`` or ``key=..9`` to a filter that allows a range of values.

    A range includes both ends. An end that contains ``..`` must be quoted: ``key="a..b".."c"``.

    Raises:
        ConfigError: if ``text`` does not have this form.
        InvalidFilter: for an unknown column, an invalid value, or a type without an order.
    """
    name, ends = _split(text, "--range", "key=1..9")
    bounds = _bounds(ends, text)
    field = schema.field(column_named(name, schema.names))
    lower, upper = (None if end is None else typed([end], field)[0].as_py() for end in bounds)
    return DynamicFilteringData.from_range({field.name: (lower, upper)})


def _bounds(ends: str, text: str) -> list[str | None]:
    """Split a range's text into its lower and upper end. None means an open end."""
    divided = [(ends[: at.start()], ends[at.start() + 2 :]) for at in re.finditer(_DOTS, ends)]
    found = [pair for pair in divided if all(map(_END.fullmatch, pair))]
    if not found:
        raise ConfigError(f"--range {text!r} is not of the form key=1..9.")
    if len(found) > 1:
        raise ConfigError(
            f"--range {text!r} can be split in several ways.",
            hint='quote an end that contains dots, as in key="a..b"..c.',
        )
    return [_end(end) for end in found[0]]


def _end(text: str) -> str | None:
    if text.startswith('"'):
        return text[1:-1].replace('""', '"')
    return text or None


def _split(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, values = text.partition("=")
    if not (name and equals and values):
        raise ConfigError(f"{option} {text!r} is not of the form {form}.")
    return name, values


def typed(texts: Sequence[str | None], field: pa.Field) -> pa.Array:
    """Parse texts to a column's type. None and ``__HIVE_DEFAULT_PARTITION__`` become null.

    Raises:
        InvalidFilter: if a text is invalid for the column's type.
    """
    values = [None if text == NULL_PARTITION else text for text in texts]
    typed = parse(pa.array(values, pa.string()), field)
    if typed.undecided is not None:
        wrong = texts[pc.index(typed.undecided, True).as_py()]
        raise InvalidFilter(f"{wrong!r} is not a valid {field.type}, the type of {field.name!r}.")
    return typed.values


def keys_of(source: str, schema: pa.Schema, config: SplitConfig) -> DynamicFilteringData:
    """Read join keys from a file, or from standard input if ``source`` is ``-``, as a filter.

    The format is detected by the first bytes: Parquet, Arrow (file or stream), the bytes of
    :meth:`splitlib.DynamicFilteringData.to_bytes`, JSON with one object per line, or CSV with a
    header. The columns must be named like columns of the table. Each row is one key.

    Args:
        source: Path of the file, or ``-``.
        schema: Columns of the table.
        config: Settings that limit the size of the filter.

    Raises:
        ConfigError: if the input cannot be read, is too large, or has no column names.
        InvalidFilter: for an unknown column, or a value that is invalid for the column's type.
    """
    data = _read(source)
    name = "standard input" if source == STDIN else source
    if not data.strip():
        raise ConfigError(
            f"{name} is empty.", hint="write the names of the columns in the first line."
        )
    try:
        if data.startswith(_ARROW_STREAM) and data[-8:-4].startswith(b"SLF"):
            return DynamicFilteringData.from_bytes(data)
        table = _table(data, schema, name)
    except (pa.ArrowException, UnicodeDecodeError, csv.Error, json.JSONDecodeError) as error:
        message = f"The keys in {name} cannot be read: {str(error).partition(chr(10))[0]}"
        raise ConfigError(
            message, hint="keys are CSV with a header, JSON lines, Parquet or Arrow."
        ) from error
    limits = (config.filter_threshold_bytes, config.filter_max_values, config.filter_on_exceed)
    collector = DynamicFilteringDataCollector(table.schema, *limits, null_safe=True)
    collector.add(table)
    return collector.finish()


def _read(source: str) -> bytes:
    try:
        if source == STDIN:
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with open(source, "rb") as file:
                data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{source!r} cannot be read: {error.strerror or error}.") from error
    if len(data) > _MOST_BYTES:
        raise ConfigError(
            f"The keys in {source} have more than {_MOST_BYTES:,} bytes.",
            hint="write each key once, and only the columns that are compared.",
        )
    return data


def _table(data: bytes, schema: pa.Schema, name: str) -> pa.Table:
    if data.startswith(_PARQUET):
        from pyarrow import parquet  # Imported here because few commands read keys.

        return _renamed(parquet.read_table(pa.BufferReader(data)), schema)
    if data.startswith(_ARROW_FILE):
        return _renamed(pa.ipc.open_file(data).read_all(), schema)
    if data.startswith(_ARROW_STREAM):
        return _renamed(pa.ipc.open_stream(data).read_all(), schema)
    text = data.decode("utf-8-sig")
    names, rows = _of_json(text) if text.lstrip().startswith("{") else _of_csv(text, name)
    fields = _named(names, schema)
    columns = zip(*rows, strict=True) if rows else [()] * len(fields)
    return pa.table({f.name: typed(column, f) for f, column in zip(fields, columns, strict=True)})


def _renamed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the keys with the column names of ``schema``. Text is parsed to the columns' types."""
    found = {}
    fields = _named(table.column_names, schema)
    for field, column in zip(fields, table.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            # Polars writes dictionaries of string views, which Arrow cannot decode.
            column = pa.array(column.to_pylist(), column.type.value_type)  # noqa: PLW2901
        if any(is_kind(column.type) for is_kind in _TEXTS) and not pa.types.is_string(field.type):
            column = typed(column.to_pylist(), field)  # noqa: PLW2901
        found[field.name] = column
    return pa.table(found)


def _named(names: Sequence[str], schema: pa.Schema) -> list[pa.Field]:
    fields = [schema.field(column_named(name, schema.names)) for name in names]
    found = [field.name for field in fields]
    if twice := [name for name in found if found.count(name) > 1]:
        raise ConfigError(f"The keys have several columns for {twice[0]!r}.")
    return fields


def _of_csv(text: str, name: str) -> tuple[Sequence[str], list[list[str]]]:
    reader = csv.reader(io.StringIO(text), skipinitialspace=True, strict=True)
    header, *rows = [row for row in reader if row]
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise ConfigError(
                f"Row {number} of {name} has {len(row)} values, not {len(header)}.",
                hint=f"quote a value with a comma; {NULL_PARTITION} is null.",
            )
    return header, rows


def _of_json(text: str) -> tuple[Sequence[str], list[list[str | None]]]:
    # Numbers remain text, because a float does not have all digits of a decimal. Only a line feed
    # ends a line: JSON strings may contain the other characters at which str.splitlines() splits.
    lines = [line for line in text.split("\n") if line.strip()]
    objects = [json.loads(line, parse_int=str, parse_float=str) for line in lines]
    for one in objects:
        if not isinstance(one, Mapping):
            raise InvalidFilter(
                f"A key is a {type(one).__name__}, not an object.", hint='write {"column": value}.'
            )
    names = list(dict.fromkeys(name for one in objects for name in one))
    return names, [[_json_text(one.get(name)) for name in names] for one in objects]


def _json_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


# Connector options that are mappings. Users write an entry as storage_options.key=value.
_NESTED = ("storage_options", "read_options")
_NO_OPTIONS = ("name", "connector", "spark", "config")


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
        ConfigError: if a name is not a connector option, or occurs twice.
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
    if connector is None and is_directory(args.table):
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


def filters_of(
    args: argparse.Namespace, table: Table, config: SplitConfig
) -> list[DynamicFilteringData]:
    """Parse the filters in the arguments. Values are parsed to the types of the table's columns."""
    if args.keys.count(STDIN) > 1:
        raise ConfigError("--keys - can be given once only.")
    values = [parse_filter(table.schema, text) for text in args.filter]
    values += [parse_range(table.schema, text) for text in args.range]
    return values + [keys_of(source, table.schema, config) for source in args.keys]


def enumerator_of(
    args: argparse.Namespace, table: Table, config: SplitConfig
) -> DynamicFileEnumerator:
    """Return an enumerator for the table, with the filters in the arguments."""
    enumerator = DynamicFileEnumerator(table, config)
    for data in filters_of(args, table, config):
        enumerator.set_dynamic_filtering_data(data)
    return enumerator
