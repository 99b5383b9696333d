"""Parse the filters of a command: values, ranges, and files with join keys."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.values import python_values
from splitlib.checks import column_named
from splitlib.config import SplitConfig
from splitlib.errors import ConfigError, InvalidFilter
from splitlib.filtering.collector import DynamicFilteringDataCollector
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import plain_rows
from splitlib.hive.partition_values import NULL_PARTITION, parse

# Matches at each position where `..` starts. In `...`, there are two such positions.
_DOTS = r"(?=\.\.)"
# One end of a range: text that is quoted as in CSV, or that does not start with a quote.
_END = re.compile(r'"(?:[^"]|"")*"|(?!").*', re.DOTALL)
STDIN: Final = "-"
_MOST_BYTES: Final = 1 << 30
"""Maximum size of a file with join keys, in bytes."""
# Matches the start of an object or a list in JSON.
_JSON: Final = re.compile(r"\s*[\[{]")
_NULLS: Final = ("", "null", "none")
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
    if lower is not None and upper is not None and lower > upper:
        raise ConfigError(
            f"--range {text!r} contains no value.", hint="write the lower end before the upper end."
        )
    return DynamicFilteringData.from_range({field.name: (lower, upper)})


def _bounds(ends: str, text: str) -> list[str | None]:
    """Split a range's text into its lower and upper end. None means that this end is omitted."""
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
        raise InvalidFilter(
            f"{wrong!r} is not a valid {field.type}, the type of {field.name!r}.",
            hint=f"null is written {NULL_PARTITION}." if wrong.lower() in _NULLS else None,
        )
    return typed.values


# Errors that parsing a file of keys can raise.
_UNREADABLE: Final = (
    pa.ArrowException,
    RecursionError,
    UnicodeDecodeError,
    csv.Error,
    json.JSONDecodeError,
)


def keys_of(source: str, schema: pa.Schema, config: SplitConfig) -> DynamicFilteringData:
    """Read join keys from a file, or from standard input if ``source`` is ``-``, as a filter.

    The format is detected by the first bytes: Parquet, Arrow (file or stream), the bytes of
    :meth:`splitlib.DynamicFilteringData.to_bytes`, JSON (a list of objects, or one object per
    line), or CSV with a header. The columns must be named like columns of the table. Each row is
    one key.

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
    if not data.removeprefix(codecs.BOM_UTF8).strip():
        raise ConfigError(
            f"{name} is empty.", hint="write the names of the columns in the first line."
        )
    try:
        if data.startswith(_ARROW_STREAM) and data[-8:-4].startswith(b"SLF"):
            return DynamicFilteringData.from_bytes(data)
        table = _table(data, schema, name)
    except _UNREADABLE as error:
        message = f"The keys in {name} cannot be read: {str(error).partition(chr(10))[0]}"
        raise ConfigError(
            message, hint="keys are CSV with a header, JSON lines, Parquet or Arrow."
        ) from error
    limits = (config.filter_threshold_bytes, config.filter_max_values, config.filter_on_exceed)
    collector = DynamicFilteringDataCollector(table.schema, *limits, null_safe=True)
    collector.add(table)
    return collector.finish()


def open_stdin() -> TextIO:
    """Return standard input.

    Raises:
        ConfigError: if standard input is closed, which Python represents by None.
    """
    if sys.stdin is None:
        raise ConfigError("Standard input is closed.", hint="name a file instead of -.")
    return sys.stdin


def _read(source: str) -> bytes:
    try:
        if source == STDIN:
            data = open_stdin().buffer.read(_MOST_BYTES + 1)
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
    names, rows = _of_json(text) if _JSON.match(text) else _of_csv(text, name)
    try:
        fields = _named(names, schema)
    except InvalidFilter as error:
        if any(separator in name for name in names for separator in ";\t|"):
            error.hint = "separate the columns by commas."
        raise
    columns = zip(*rows, strict=True) if rows else [()] * len(fields)
    return pa.table({f.name: typed(column, f) for f, column in zip(fields, columns, strict=True)})


def _renamed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the keys with the column names of ``schema``. Text is parsed to the columns' types."""
    found = {}
    fields = _named(table.column_names, schema)
    for field, column in zip(fields, plain_rows(table).columns, strict=True):
        is_text = pa.types.is_string(column.type) and not pa.types.is_string(field.type)
        found[field.name] = typed(python_values(column), field) if is_text else column
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
                hint=f"put quotes around a value with a comma; write null as {NULL_PARTITION}.",
            )
    return header, rows


def _of_json(text: str) -> tuple[Sequence[str], list[list[str | None]]]:
    # Numbers remain text, because a float does not have all digits of a decimal. Only a line feed
    # ends a line: JSON strings may contain the other characters at which str.splitlines() splits.
    parse = partial(json.loads, parse_int=str, parse_float=str)
    if text.lstrip().startswith("["):
        objects = parse(text)
    else:
        objects = [parse(line) for line in text.split("\n") if line.strip()]
    for one in objects:
        if not isinstance(one, Mapping):
            raise InvalidFilter(
                f"A key is a {type(one).__name__}, not an object.", hint='write {"column": value}.'
            )
    if not objects:
        raise InvalidFilter(
            "The list of keys is empty, so their columns are unknown.",
            hint="write a CSV file that has only one line, with the names of the columns.",
        )
    names = list(dict.fromkeys(name for one in objects for name in one))
    return names, [[_json_text(one.get(name)) for name in names] for one in objects]


def _json_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
