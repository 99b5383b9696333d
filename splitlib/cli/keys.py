"""Read join keys from a file or from standard input, as a filter."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.config import SplitConfig
from splitlib.errors import ConfigError, InvalidFilter
from splitlib.filtering.collector import DynamicFilteringDataCollector
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.mismatches import column_named
from splitlib.hive.partition_values import NULL_PARTITION, parse

# Matches each position of `..`; `...` contains two of them.
_DOTS = r"(?=\.\.)"
# An end of a range: quoted as in CSV, or not starting with a quote.
_END = re.compile(r'"(?:[^"]|"")*"|(?!").*', re.DOTALL)
STDIN: Final = "-"
_MOST_BYTES: Final = 1 << 30
"""Maximum size of the input, in bytes."""
_TEXTS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"


def parse_filter(schema: pa.Schema, text: str) -> DynamicFilteringData:
    """Parse ``key=1,2,3``, a filter that allows these values of the key.

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
    """Parse ``key=1..9``, ``key=1..`` or ``key=..9``, a filter that allows a range of values.

    A range includes both of its ends.

    An end that contains dots must be quoted, as in ``key="a..b".."c"``.

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
    """Split the text of a range into its lower and upper end; None means an open end.

    Raises:
        ConfigError: if there is not exactly one ``..`` outside of quotes.
    """
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
    """Parse texts to a column's type; None and ``__HIVE_DEFAULT_PARTITION__`` are null.

    Raises:
        InvalidFilter: for a text that is invalid for the column's type.
    """
    values = [None if text == NULL_PARTITION else text for text in texts]
    typed = parse(pa.array(values, pa.string()), field)
    if typed.undecided is not None:
        wrong = texts[pc.index(typed.undecided, True).as_py()]
        raise InvalidFilter(f"{wrong!r} is not a valid {field.type}, the type of {field.name!r}.")
    return typed.values


def keys_of(source: str, schema: pa.Schema, config: SplitConfig) -> DynamicFilteringData:
    """Read the keys in a file, or in standard input if ``source`` is ``-``.

    The first bytes show the format: Parquet, Arrow (file or stream), the bytes of
    :meth:`splitlib.DynamicFilteringData.to_bytes`, JSON with an object per line, or CSV with a
    header. The columns have names of the table's columns, and each row is one key.

    Args:
        source: Path of the file, or ``-``.
        schema: Columns of the table.
        config: Settings that limit the size of the filter.

    Raises:
        ConfigError: if the input cannot be read, is too large, or has no keys' names.
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
        raise ConfigError(f"{source} cannot be read: {error.strerror or error}.") from error
    if len(data) > _MOST_BYTES:
        raise ConfigError(
            f"The keys in {source} have more than {_MOST_BYTES:,} bytes.",
            hint="write each key once, and only the columns that are compared.",
        )
    return data


def _table(data: bytes, schema: pa.Schema, name: str) -> pa.Table:
    if data.startswith(_PARQUET):
        from pyarrow import parquet  # imported here because few commands read keys

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
    """Return keys with the names of the table's columns; text is parsed to the columns' types."""
    found = {}
    fields = _named(table.column_names, schema)
    for field, column in zip(fields, table.columns, strict=True):
        kind = column.type
        # Arrow itself cannot decode dictionaries of views of text, which Polars writes.
        plain = (
            pa.array(column.to_pylist(), kind.value_type)
            if pa.types.is_dictionary(kind)
            else column
        )
        is_text = any(is_kind(plain.type) for is_kind in _TEXTS)
        if is_text and not pa.types.is_string(field.type):
            found[field.name] = typed(plain.to_pylist(), field)
        else:
            found[field.name] = plain
    return pa.table(found)


def _named(names: Sequence[str], schema: pa.Schema) -> list[pa.Field]:
    """Return the table's columns that have the names of keys.

    Raises:
        ConfigError: if two keys have the same column.
        InvalidFilter: for an unknown column.
    """
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
    # Numbers remain text, because a float does not have all digits of a decimal. In JSON, only a
    # line feed ends a line: strings may contain the other characters at which Python splits.
    lines = [line for line in text.split("\n") if line.strip()]
    objects = [json.loads(line, parse_int=str, parse_float=str) for line in lines]
    names = list(dict.fromkeys(name for one in objects for name in _names_of(one)))
    return names, [[_json_text(one.get(name)) for name in names] for one in objects]


def _names_of(one: Any) -> Iterable[str]:
    if not isinstance(one, Mapping):
        raise InvalidFilter(
            f"A key is a {type(one).__name__}, not an object.", hint='write {"column": value}.'
        )
    return one


def _json_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
