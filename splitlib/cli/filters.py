"""Parse filters from text, with the column types of a table."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import ConfigError, InvalidFilter
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.mismatches import column_named
from splitlib.hive.partition_values import NULL_PARTITION, parse

# Matches each position of `..`; `...` contains two of them.
_DOTS = r"(?=\.\.)"
# An end of a range: quoted as in CSV, or not starting with a quote.
_END = re.compile(r'"(?:[^"]|"")*"|(?!").*', re.DOTALL)


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
