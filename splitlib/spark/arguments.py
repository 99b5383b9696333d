"""Convert users' arguments, or reject them with an error that names the accepted types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame

from splitlib.arrow.values import try_cast
from splitlib.errors import InvalidFilter
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import ValueDomain

_PAIRS = "on={'fact_column': 'dim_column'}"
_KEYS = (
    "a Spark DataFrame, an Arrow table, anything else with __arrow_c_stream__ (pandas, Polars), "
    "a dict of lists such as {'day': [date(2024, 1, 5)]}, or DynamicFilteringData."
)


def given_dataframe(value: Any) -> DataFrame:
    """Return ``value`` if it is a Spark DataFrame.

    Raises:
        InvalidFilter: if ``value`` is not a Spark DataFrame.
    """
    if isinstance(value, DataFrame):
        return value
    if hasattr(value, "filtered_by"):
        hint = "call .load() on the reader first."
    elif hasattr(value, "__arrow_c_stream__"):
        hint = "convert it with spark.createDataFrame(…)."
    else:
        hint = "pass a DataFrame, such as spark.table('db.t')."
    raise InvalidFilter(f"Expected a Spark DataFrame, not a {type(value).__name__}.", hint=hint)


def given_keys(value: Any) -> DataFrame | DynamicFilteringData | pa.Table:
    """Convert join keys to an Arrow table. DataFrames and filters are returned unchanged.

    Raises:
        InvalidFilter: if the argument has no named columns.
    """
    if isinstance(value, DataFrame | DynamicFilteringData | pa.Table):
        return value
    if isinstance(value, Mapping):
        return pa.table(dict(_columns_of(DynamicFilteringData.from_values(value))))
    if isinstance(value, Column):
        hint = "pass a condition to .where(…); filtered_by takes "
    elif hasattr(value, "filtered_by"):
        hint = "call .load() on the reader first, or pass "
    else:
        table = _arrow_table(value)
        if table is not None:
            return table
        hint = "name the column, as in {'day': […]}; keys are "
    raise InvalidFilter(f"A {type(value).__name__} has no key columns.", hint=hint + _KEYS)


def _columns_of(data: DynamicFilteringData) -> Iterable[tuple[str, pa.ChunkedArray]]:
    (domain,) = data.domains
    assert isinstance(domain, ValueDomain)
    return zip(domain.rows.column_names, domain.rows.columns, strict=True)


def _arrow_table(value: Any) -> pa.Table | None:
    """Convert an object to an Arrow table. Return None if it cannot export Arrow data."""
    try:
        if hasattr(value, "__arrow_c_stream__") or isinstance(value, pa.RecordBatch):
            return pa.table(value)
        if hasattr(value, "to_arrow"):
            return pa.table(value.to_arrow())
        # In pandas before 2.2, DataFrames have no __arrow_c_stream__.
        if hasattr(value, "columns") and type(value).__module__.startswith("pandas."):
            return pa.Table.from_pandas(value, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidFilter(
            f"A {type(value).__name__} cannot be converted to a table of keys: {error}",
            hint=f"keys are {_KEYS}",
        ) from error
    return None


def given_pairs(on: Any) -> dict[str, str]:
    """Convert the argument ``on`` to a mapping from fact columns to key columns.

    Args:
        on: A mapping, one name, several names, or pairs of names. A single name means that
            the fact column and the key column both have this name.

    Raises:
        InvalidFilter: if ``on`` is empty or has another type.
    """
    if isinstance(on, str):
        return {on: on}
    if isinstance(on, Mapping):
        items = list(on.items())
    elif isinstance(on, Iterable) and not isinstance(on, Column | bytes):
        items = [(item, item) if isinstance(item, str) else item for item in on]
    else:
        items = [on]
    if not items:
        raise InvalidFilter("'on' is empty.", hint=_PAIRS)
    pairs: dict[str, str] = {}
    for item in items:
        match item:
            case (str() as name, str() as column) if name not in pairs:
                pairs[name] = column
            case _:
                raise InvalidFilter(
                    f"'on' contains {_shown(item)}. Each item must be a pair of column names, and "
                    "each fact column may occur once.",
                    hint=_PAIRS,
                )
    return pairs


def _shown(item: Any) -> str:
    return f"a {type(item).__name__}" if isinstance(item, Column) else repr(item)


def keys_of_table(table: pa.Table, on: Mapping[str, str], columns: pa.Schema) -> pa.Table:
    """Return a table's key columns, renamed to the names of the fact columns.

    Text keys such as ``"2024-01-05"`` are converted if the fact column is an integer or a date.

    Args:
        table: The table with the keys.
        on: Mapping from fact columns to key columns.
        columns: Schema of the fact table.

    Raises:
        InvalidFilter: if a column is missing, or a text key cannot be converted.
    """
    if missing := [column for column in on.values() if column not in table.column_names]:
        raise InvalidFilter(
            f"The keys have no column {', '.join(missing)}.",
            hint=f"the columns of the keys are {', '.join(table.column_names)}.",
        )
    kinds = {field.name: field.type for field in columns}
    found = {name: _as_type(table[column], name, kinds.get(name)) for name, column in on.items()}
    return pa.table(found)


def _as_type(keys: pa.ChunkedArray, name: str, kind: pa.DataType | None) -> pa.ChunkedArray:
    if pa.types.is_dictionary(keys.type):
        keys = keys.cast(keys.type.value_type)
    is_text = pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type)
    if not (is_text or pa.types.is_string_view(keys.type)):
        return keys
    if kind is None or not (pa.types.is_date(kind) or pa.types.is_integer(kind)):
        return keys
    texts = keys.cast(pa.string()).combine_chunks()
    typed = try_cast(texts, kind)
    same = pc.fill_null(pc.equal(typed.cast(pa.string()), texts), False)
    other = texts.filter(pc.and_(pc.is_valid(texts), pc.invert(same)))
    if len(other):
        raise InvalidFilter(
            f"Key {other[0].as_py()!r} for column {name!r} cannot be converted to {kind}.",
            hint="pass keys of the column's type, such as datetime.date(2024, 1, 5), or text in "
            "Spark's format, such as '2024-01-05'.",
        )
    return pa.chunked_array([typed])
