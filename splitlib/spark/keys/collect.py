"""Collect the join keys of a dimension, with at most the threshold in bytes on the driver."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from splitlib.config import SplitConfig
from splitlib.errors import NonDeterministicDimension
from splitlib.filtering.collector import DynamicFilteringDataCollector
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import RangeDomain, has_range
from splitlib.filtering.key_rows import plain_schema
from splitlib.filtering.ranges import Ranges
from splitlib.spark.jvm.active_session import interruptibly
from splitlib.spark.keys.columns import KeyColumn, in_months, key_columns
from splitlib.spark.keys.determinism import why_not_deterministic
from splitlib.spark.schema import char_length
from splitlib.spark.sql_text import quoted

# Assumed size of rows with strings or binary values, whose width is unknown. Rarely exceeded.
_WIDE_ROW_BYTES = 4096
# Up to this many rows are fetched with their duplicates. That avoids a shuffle, which takes longer
# than all other steps for a typical small dimension.
FEW_ROWS = 10_000
_UNLIMITED_ROWS = 2**31 - 2


def collect_keys(
    dimension: DataFrame,
    on: Mapping[str, str],
    fact: StructType | None,
    config: SplitConfig,
    *,
    null_safe: bool = False,
) -> DynamicFilteringData:
    """Collect the distinct keys of ``dimension``, under the names of the fact's columns.

    Year-month intervals are collected as numbers of months.

    Args:
        dimension: DataFrame with the keys. It must be deterministic, because it is computed once if
            it is small, again for its distinct keys if not, and again to measure them if those
            are too many.
        on: Fact column to dimension column.
        fact: Schema of the fact; None if unknown.
        config: Threshold, and what to collect above it.
        null_safe: Whether to keep keys with a null, for a join by ``<=>``.

    Raises:
        NonDeterministicDimension: if the keys may change; :func:`splitlib.freeze` helps.
        InvalidFilter: if a column does not exist.
    """
    columns = key_columns(dimension, on.values())
    reason = why_not_deterministic(dimension)
    if reason is not None:
        raise NonDeterministicDimension(
            f"The dimension may have different rows when it is joined: {reason}.",
            hint="use dimension = splitlib.freeze(dimension), which computes it once; filter by "
            "and join with the result.",
        )
    # Use numbers as names: column names may contain dots, or differ only in case.
    numbered = {f"k{i}": name for i, name in enumerate(on)}
    keys = dimension.select(
        [_value(columns[column]).alias(k) for k, column in zip(numbered, on.values(), strict=True)]
    )
    if fact is not None:
        wanted = {k: columns[on[name]].field for k, name in numbered.items()}
        keys = _of_full_length(keys, wanted, {k: fact[name] for k, name in numbered.items()})
    spark = dimension.sparkSession
    data = interruptibly(spark, lambda: collect_distinct(keys, config, null_safe=null_safe))
    return data.renamed(numbered)


def _value(key: KeyColumn) -> Column:
    return in_months(key.column) if key.is_of_months else key.column


def collect_distinct(
    keys: DataFrame, config: SplitConfig, *, null_safe: bool = False
) -> DynamicFilteringData:
    """Collect the distinct rows of the deterministic ``keys``; see :func:`collect_keys`."""
    if not null_safe:
        # dropna() would also drop NaN, and Spark joins NaN with NaN.
        for name in keys.columns:
            keys = keys.where(F.col(quoted(name)).isNotNull())
    return _collect(keys, config, null_safe)


def _collect(keys: DataFrame, config: SplitConfig, null_safe: bool) -> DynamicFilteringData:
    limit = rows_that_fit(keys.schema, config)
    few = min(limit, FEW_ROWS)
    found = keys.limit(few + 1).toArrow()
    if found.num_rows > few:
        keys = keys.distinct()
        found = keys.limit(limit + 1).toArrow()
    if found.num_rows > limit:
        (row,) = keys.agg(*_measures(keys)).toArrow().combine_chunks().to_batches()
        measured = {name: row[name][0] for name in row.schema.names}
        if not _fits(measured, config):
            return _beyond(keys, found.schema, measured, config, null_safe)
        found = keys.toArrow()
    collector = DynamicFilteringDataCollector(
        found.schema,
        config.filter_threshold_bytes,
        config.filter_max_values,
        config.filter_on_exceed,
        null_safe=null_safe,
    )
    collector.add(found)
    return collector.finish()


def rows_that_fit(schema: StructType, config: SplitConfig) -> int:
    """Return how many rows fit the threshold. It is exact if all columns have a fixed width."""
    fits = _UNLIMITED_ROWS
    if config.filter_threshold_bytes > 0:
        variable = any(isinstance(f.dataType, StringType | BinaryType) for f in schema)
        width = _WIDE_ROW_BYTES if variable else sum(_width(f.dataType.typeName()) for f in schema)
        fits = min(fits, config.filter_threshold_bytes // width)
    return min(fits, config.filter_max_values or fits)


def _width(type_name: str) -> int:
    """Return the size of a value in Arrow, in bytes."""
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


def _fits(measured: Mapping[str, pa.Scalar], config: SplitConfig) -> bool:
    size = sum(v.as_py() for name, v in measured.items() if name.startswith("bytes"))
    rows = measured["rows"].as_py()
    within = config.filter_threshold_bytes <= 0 or size <= config.filter_threshold_bytes
    return within and (config.filter_max_values is None or rows <= config.filter_max_values)


def _beyond(
    keys: DataFrame,
    schema: pa.Schema,
    measured: Mapping[str, pa.Scalar],
    config: SplitConfig,
    null_safe: bool,
) -> DynamicFilteringData:
    """Collect each field separately if there are too many tuples: its values, or a range."""
    schema = plain_schema(schema)
    if config.filter_on_exceed == "all":
        return DynamicFilteringData.exceeded(schema)
    if len(schema) > 1:
        alone = [_collect(keys.select(f), config, null_safe) for f in schema.names]
        domains = [domain for data in alone for domain in data.domains]
        return DynamicFilteringData(schema, domains, exceeds_threshold=True)
    field = schema.field(0)
    if not has_range(field.type):
        return DynamicFilteringData.exceeded(schema)
    low, high = (measured[end].cast(field.type) for end in ("min0", "max0"))
    includes_null = null_safe and measured["null0"].as_py()
    domain = RangeDomain(field, Ranges.between(low, high), includes_null)
    return DynamicFilteringData(schema, [domain], exceeds_threshold=True)


def _of_full_length(
    keys: DataFrame, dimension: Mapping[str, StructField], fact: Mapping[str, StructField]
) -> DataFrame:
    """Drop keys that cannot equal a CHAR(n) column, which Spark pads to n characters on reading.

    Keys of type CHAR are kept: Spark pads them for the comparison, so their length is irrelevant.

    Args:
        keys: Columns to test.
        dimension: The same columns in the dimension.
        fact: The same columns in the fact.
    """
    session = keys.sparkSession
    if session.conf.get("spark.sql.readSideCharPadding", "true") != "true":
        return keys
    for name, field in fact.items():
        length = char_length(field)
        if length is not None and char_length(dimension[name]) is None:
            keys = keys.where((F.char_length(F.col(name)) == length) | F.isnull(name))
    return keys
