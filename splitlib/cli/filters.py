"""Filters written as text, in the types of a table. Pure."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import ConfigError, InvalidFilter
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.mismatches import column_named
from splitlib.hive.partition_values import NULL_PARTITION, parse


def parse_filter(schema: pa.Schema, text: str) -> DynamicFilteringData:
    """``key=1,2,3``: the key is one of these values.

    Raises:
        ConfigError: if ``text`` is not of this form.
        InvalidFilter: for an unknown column, or a value that is not of its type.
    """
    name, values = _split(text, "--filter", "key=1,2,3")
    field = schema.field(column_named(name, schema.names))
    try:
        texts = next(csv.reader([values], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise ConfigError(f"--filter {text!r} is not quoted as in CSV: {error}.") from error
    return DynamicFilteringData.from_arrow(pa.table({field.name: _typed(texts, field)}))


def parse_range(schema: pa.Schema, text: str) -> DynamicFilteringData:
    """``key=1..9``, ``key=1..``, ``key=..9``: the key is in the range, both ends included.

    Raises:
        ConfigError: if ``text`` is not of this form.
        InvalidFilter: for an unknown column, a type without order, or a value of another type.
    """
    name, ends = _split(text, "--range", "key=1..9")
    low, dots, high = ends.partition("..")
    if not dots:
        raise ConfigError(f"--range {text!r} is not of the form key=1..9.")
    field = schema.field(column_named(name, schema.names))
    lower, upper = (_typed([end], field)[0].as_py() if end else None for end in (low, high))
    return DynamicFilteringData.from_range({field.name: (lower, upper)})


def _split(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, values = text.partition("=")
    if not (name and equals and values):
        raise ConfigError(f"{option} {text!r} is not of the form {form}.")
    return name, values


def _typed(texts: Sequence[str], field: pa.Field) -> pa.Array:
    values = [None if text == NULL_PARTITION else text for text in texts]
    typed = parse(pa.array(values, pa.string()), field)
    if typed.undecided is not None:
        wrong = texts[pc.index(typed.undecided, True).as_py()]
        raise InvalidFilter(f"{wrong!r} is no {field.type}, the type of {field.name!r}.")
    return typed.values
