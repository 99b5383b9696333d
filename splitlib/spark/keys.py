"""Collect the distinct join keys of a dimension on the driver, up to a threshold.

A dimension is the small side of a join. It must be deterministic, so that the collected keys match
the rows that the query joins later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType, YearMonthIntervalType

from splitlib.config import SplitConfig
from splitlib.errors import InvalidFilter, NonDeterministicDimension
from splitlib.filtering.collector import DynamicFilteringDataCollector
from splitlib.filtering.data import DynamicFilteringData, passed_limit
from splitlib.filtering.domains import Domain, RangeDomain, Ranges, has_range, plain_schema
from splitlib.report import size_text
from splitlib.spark.compat import to_arrow
from splitlib.spark.conversion import char_length, collation_of, pads_char, quoted, unquoted
from splitlib.spark.determinism import why_not_deterministic
from splitlib.spark.jvm.active_session import interruptibly
from splitlib.spark.jvm.catalyst import rows_in_plan
from splitlib.spark.jvm.probe import internals_unavailable

# Assumed size of a row with strings or binary values, in bytes. Rows are rarely larger.
_WIDE_ROW_BYTES = 4096
# Up to this many rows are fetched with their duplicates, to avoid the shuffle for DISTINCT. For a
# typical small dimension, the shuffle would take longer than all other steps.
FEW_ROWS = 10_000
_UNLIMITED_ROWS = 2**31 - 2


class KeyColumn(NamedTuple):
    """A column of a dimension, or a field of a struct column."""

    column: Column
    field: StructField

    @property
    def why_no_keys(self) -> str | None:
        """Why the column cannot be a join key, as a phrase that follows its name, or None."""
        if (collation := collation_of(self.field.dataType)) is not None:
            # Spark may join by this collation, even if the fact column has a different one.
            return f"is compared by its collation {collation}."
        return None

    @property
    def is_of_months(self) -> bool:
        """Whether the column is a year-month interval, whose keys are collected as months."""
        return isinstance(self.field.dataType, YearMonthIntervalType)


def in_months(interval: Column) -> Column:
    """Convert a year-month interval to months, because Spark cannot convert it to Arrow."""
    whole = interval.cast(YearMonthIntervalType())  # an INTERVAL YEAR has no month field
    return F.extract(F.lit("YEAR"), whole) * 12 + F.extract(F.lit("MONTH"), whole)


def key_columns(dimension: DataFrame, names: Iterable[str]) -> dict[str, KeyColumn]:
    """Resolve each name to a column, or to a struct field such as ``a.b``.

    A column with exactly this name, including dots and backticks, has precedence. If there is none,
    backticks around the parts of the name are ignored. Names that differ in case match only if no
    name matches exactly and the session is case-insensitive.

    Raises:
        InvalidFilter: if a column does not exist.
    """
    exactly = dimension.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    found = {
        name: _found(dimension, name, exactly) or _found(dimension, unquoted(name), exactly)
        for name in names
    }
    missing = [name for name, column in found.items() if column is None]
    if missing:
        raise InvalidFilter(
            f"The dimension has no column {', '.join(missing)}.",
            hint=f"its columns are {', '.join(dimension.columns)}.",
        )
    return {name: column for name, column in found.items() if column is not None}


def _found(dimension: DataFrame, name: str, exactly: bool) -> KeyColumn | None:
    for field, rest in _beginnings(dimension.schema, name, exactly):
        # F.col is used because dimension[name] may read a quoted name as a regular expression,
        # depending on settings.
        column = F.col(quoted(field.name))
        inner = _inside(column, field, rest, exactly)
        if inner is not None:
            return inner
    return None


def _inside(column: Column, field: StructField, path: str, exactly: bool) -> KeyColumn | None:
    if not path:
        return KeyColumn(column, field)
    if isinstance(field.dataType, StructType):
        for child, rest in _beginnings(field.dataType, path, exactly):
            inner = _inside(column.getField(child.name), child, rest, exactly)
            if inner is not None:
                return inner
    return None


def _beginnings(schema: StructType, name: str, exactly: bool) -> list[tuple[StructField, str]]:
    """Return fields whose name is a prefix of ``name``, longest first, with the rest of ``name``.

    For example, ``a.b.c`` may start with a column ``a.b`` or with a column ``a``.
    """
    exact = [(f, name[len(f.name) + 1 :]) for f in schema if _begins(name, f.name)]
    if not exact and not exactly:
        lower = name.lower()
        exact = [(f, name[len(f.name) + 1 :]) for f in schema if _begins(lower, f.name.lower())]
    return sorted(exact, key=lambda found: -len(found[0].name))


def _begins(name: str, beginning: str) -> bool:
    return name == beginning or name.startswith(f"{beginning}.")


def collect_keys(
    dimension: DataFrame,
    on: Mapping[str, str],
    fact: StructType | None,
    config: SplitConfig,
    *,
    null_safe: bool = False,
) -> DynamicFilteringData:
    """Collect the distinct join keys of ``dimension``, renamed to the fact columns.

    Year-month intervals are collected as numbers of months.

    Args:
        dimension: DataFrame with the keys. It must be deterministic, because a large dimension is
            computed several times: for its first rows, for its distinct keys, and for the size and
            the range of its keys.
        on: Mapping from fact columns to dimension columns.
        fact: Schema of the fact table, or None if it is unknown.
        config: Settings, such as the threshold for the keys and the action if they exceed it.
        null_safe: Whether to keep keys that contain a null, for a join with ``<=>``.

    Raises:
        NonDeterministicDimension: if the keys may change; :func:`splitlib.freeze` prevents that.
        InvalidFilter: if a column does not exist.
    """
    columns = key_columns(dimension, on.values())
    reason = why_not_deterministic(dimension)
    if reason is not None:
        raise NonDeterministicDimension(
            f"The dimension may have different rows when it is joined: {reason}.",
            hint="join with the rows of one micro-batch, in the function of foreachBatch."
            if dimension.isStreaming
            else "use dimension = splitlib.freeze(dimension), which computes it once; filter by "
            "and join with the result.",
        )
    # The columns get numbered names, because their own names may have dots or differ only in case.
    numbered = {f"k{i}": name for i, name in enumerate(on)}
    keys = dimension.select(
        [_value(columns[column]).alias(k) for k, column in zip(numbered, on.values(), strict=True)]
    )
    if fact is not None:
        wanted = {k: columns[on[name]].field for k, name in numbered.items()}
        keys = _not_shorter(keys, wanted, {k: fact[name] for k, name in numbered.items()})
    spark = dimension.sparkSession
    data = interruptibly(spark, lambda: collect_distinct(keys, config, null_safe=null_safe))
    return data.renamed(numbered)


def _value(key: KeyColumn) -> Column:
    return in_months(key.column) if key.is_of_months else key.column


def collect_distinct(
    keys: DataFrame, config: SplitConfig, *, null_safe: bool = False
) -> DynamicFilteringData:
    """Collect the distinct rows of ``keys``, a deterministic DataFrame, up to the threshold."""
    if not null_safe:
        # dropna() would also drop NaN, but Spark joins NaN with NaN.
        for name in keys.columns:
            keys = keys.where(F.col(quoted(name)).isNotNull())
    return _collect(keys, config, null_safe)


def _collect(keys: DataFrame, config: SplitConfig, null_safe: bool) -> DynamicFilteringData:
    limit = rows_that_fit(keys.schema, config)
    few = min(limit, FEW_ROWS)
    found = _rows(keys.limit(few + 1))
    if found.num_rows > few:
        keys = keys.distinct()
        found = to_arrow(keys.limit(limit + 1))
    if found.num_rows > limit:
        (row,) = to_arrow(keys.agg(*_measures(keys))).combine_chunks().to_batches()
        measured = {name: row[name][0] for name in row.schema.names}
        if passed := _passed_limit(measured, config):
            return _beyond(keys, found.schema, measured, config, passed, null_safe=null_safe)
        found = to_arrow(keys)
    collector = DynamicFilteringDataCollector(
        found.schema,
        config.filter_threshold_bytes,
        config.filter_max_values,
        config.filter_on_exceed,
        null_safe=null_safe,
    )
    collector.add(found)
    return collector.finish()


def _rows(keys: DataFrame) -> pa.Table:
    # If the dimension was computed during planning, its rows are in the plan. No query is needed.
    is_readable = internals_unavailable(keys.sparkSession) is None
    found = rows_in_plan(keys) if is_readable else None
    return to_arrow(keys) if found is None else found


def rows_that_fit(schema: StructType, config: SplitConfig) -> int:
    """Return the maximum number of keys within the threshold, estimated if their size varies."""
    fits = _UNLIMITED_ROWS
    if config.filter_threshold_bytes > 0:
        variable = any(isinstance(f.dataType, StringType | BinaryType) for f in schema)
        width = _WIDE_ROW_BYTES if variable else sum(_width(f.dataType.typeName()) for f in schema)
        fits = min(fits, config.filter_threshold_bytes // width)
    return min(fits, config.filter_max_values or fits)


def limit_of_rows(number: int, config: SplitConfig) -> str:
    """Return the name and value of the setting that allows at most ``number`` rows.

    Args:
        number: Result of :func:`rows_that_fit`.
        config: The settings that were passed to :func:`rows_that_fit`.
    """
    if number == config.filter_max_values:
        return f"filter_max_values ({number:,})"
    return f"filter_threshold_bytes ({size_text(config.filter_threshold_bytes)})"


def _width(type_name: str) -> int:
    """Return the size in bytes of an Arrow value of this Spark type."""
    narrow = {"byte": 1, "boolean": 1, "short": 2, "integer": 4, "float": 4, "date": 4}
    return narrow.get(type_name.partition("(")[0], 16 if type_name.startswith("decimal") else 8)


def _measures(keys: DataFrame) -> list[Column]:
    measures = [F.count(F.lit(1)).alias("rows")]
    for i, field in enumerate(keys.schema):
        column = keys[field.name]
        size: Column = F.lit(_width(field.dataType.typeName()))
        if isinstance(field.dataType, StringType | BinaryType):
            size = F.coalesce(F.octet_length(column), F.lit(0)) + 4
        measures.append(F.sum(size).alias(f"bytes{i}"))
        measures.append(F.min(column).alias(f"min{i}"))
        measures.append(F.max(column).alias(f"max{i}"))
        measures.append(F.max(F.isnull(column)).alias(f"null{i}"))
    return measures


def _passed_limit(measured: Mapping[str, pa.Scalar], config: SplitConfig) -> str:
    size = sum(v.as_py() for name, v in measured.items() if name.startswith("bytes"))
    rows = measured["rows"].as_py()
    return passed_limit(rows, size, config.filter_max_values, config.filter_threshold_bytes)


def _beyond(
    keys: DataFrame,
    schema: pa.Schema,
    measured: Mapping[str, pa.Scalar],
    config: SplitConfig,
    passed: str,
    *,
    null_safe: bool,
) -> DynamicFilteringData:
    """Return a filter for keys that exceed a limit. It may also match other values.

    If there are several key columns, the values of each column are collected separately. The values
    of a single column become a range. The filter prunes nothing if ``filter_on_exceed`` is ``all``,
    or if ranges are not supported for the type of the column. ``passed`` is a clause that names the
    limit.
    """
    schema = plain_schema(schema)
    domains: list[Domain] = []
    if config.filter_on_exceed != "all" and len(schema) > 1:
        alone = [_collect(keys.select(f), config, null_safe) for f in schema.names]
        domains = [domain for data in alone for domain in data.domains]
    elif config.filter_on_exceed != "all" and has_range(schema.field(0).type):
        field = schema.field(0)
        low, high = (measured[end].cast(field.type) for end in ("min0", "max0"))
        includes_null = null_safe and measured["null0"].as_py()
        domains = [RangeDomain(field, Ranges.between(low, high), includes_null)]
    return DynamicFilteringData(schema, domains, exceeds_threshold=True, passed_limit=passed)


def _not_shorter(
    keys: DataFrame, dimension: Mapping[str, StructField], fact: Mapping[str, StructField]
) -> DataFrame:
    """Drop keys shorter than n, because no value of a CHAR(n) column can equal them.

    Spark pads the column's values to n characters when it reads them. Files of other writers may
    have longer values, which Spark does not cut. Keys of type CHAR are kept, because Spark also
    pads them for the comparison. So are keys that are not text: Spark converts the column to their
    type, without the padding.

    Args:
        keys: The keys.
        dimension: Dimension field for each column name in ``keys``.
        fact: Fact field for each column name in ``keys``.
    """
    if not pads_char(keys.sparkSession):
        return keys
    for name, field in fact.items():
        length = char_length(field)
        is_text = isinstance(dimension[name].dataType, StringType)
        if length is not None and is_text and char_length(dimension[name]) is None:
            keys = keys.where((F.char_length(F.col(name)) >= length) | F.isnull(name))
    return keys
