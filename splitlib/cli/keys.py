"""Read join keys from a file or from standard input, as a filter."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from splitlib.cli.filters import typed
from splitlib.config import SplitConfig
from splitlib.errors import ConfigError, InvalidFilter
from splitlib.filtering.collector import DynamicFilteringDataCollector
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.mismatches import column_named
from splitlib.hive.partition_values import NULL_PARTITION

STDIN: Final = "-"
_MOST_BYTES: Final = 1 << 30
"""Maximum size of the input, in bytes."""
_PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"


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
    fields = [schema.field(column_named(column, schema.names)) for column in names]
    columns = zip(*rows, strict=True) if rows else [()] * len(fields)
    return pa.table({f.name: typed(column, f) for f, column in zip(fields, columns, strict=True)})


def _renamed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return keys with the names of the table's columns; text is parsed to the columns' types."""
    found = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        field = schema.field(column_named(name, schema.names))
        kind = column.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if is_text and not pa.types.is_string(field.type):
            found[field.name] = typed(column.to_pylist(), field)
        else:
            found[field.name] = column.cast(kind)
    return pa.table(found)


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
    objects = [json.loads(line) for line in text.splitlines() if line.strip()]
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
