"""Turn join keys into conditions on rows. Spark also uses these conditions to skip parts of files.

Few keys become values or ranges, many keys a Bloom filter. ``where`` conditions are converted too.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType, TimestampNTZType, YearMonthIntervalType

from splitlib.enumeration.splitting import SelectedFiles
from splitlib.errors import InvalidFilter
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import Ranges, ValueDomain, has_range
from splitlib.filtering.matchers import RangeMatcher, ValueMatcher, coerce
from splitlib.filtering.predicate import Predicate
from splitlib.hive.partition_values import is_char
from splitlib.model import TableMetadata
from splitlib.spark.conversion import (
    arrow_literal,
    column_text,
    is_char_or_varchar,
    local_rows,
    quoted,
    text_literal,
)
from splitlib.spark.join_condition import all_of, any_of, are_compared, widened
from splitlib.spark.jvm.catalyst import rows_that_may_match
from splitlib.spark.jvm.gateway import bloom_filter
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.keys import in_months
from splitlib.spark.predicates.where import StaticCondition
from splitlib.spark.session import is_by_position

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

# False-positive rate of a Bloom filter: the share of rows without a matching key that it keeps.
_FALSE_POSITIVES = 1 / 32
# Maximum number of keys in a Bloom filter, which is then about a megabyte large. A larger filter
# costs each task more than it saves.
MOST_KEYS = 2**20
# For each PyIceberg expression class, a function that builds a condition from a column and
# literals. Nulls are treated as in a PyIceberg scan.
_CONDITIONS: Final[dict[str, Callable[..., Column]]] = {
    "IsNull": lambda column: column.isNull(),
    "NotNull": lambda column: column.isNotNull(),
    # Nulls need no test here, because Spark's isnan returns false for null.
    "IsNaN": F.isnan,
    "NotNaN": lambda column: column.isNotNull() & ~F.isnan(column),
    "EqualTo": lambda column, value: column == value,
    "NotEqualTo": lambda column, value: column != value,
    "LessThan": lambda column, value: column < value,
    "LessThanOrEqual": lambda column, value: column <= value,
    "GreaterThan": lambda column, value: column > value,
    "GreaterThanOrEqual": lambda column, value: column >= value,
    "In": lambda column, *values: column.isin(list(values)),
    "NotIn": lambda column, *values: column.isNull() | ~column.isin(list(values)),
    "StartsWith": F.startswith,
    "NotStartsWith": lambda column, value: ~F.startswith(column, value),
}
# Maximum number of values in an IN list. A longer list costs more per row than it saves.
_MANY = 1000
# Maximum number of ranges in a condition. For each end of a range, the Parquet reader decodes the
# dictionary of each row group that statistics do not exclude.
FEW_RANGES = 8
# Maximum number of ranges for a reader that does not use dictionaries.
MANY_RANGES = 64
# Default of spark.sql.parquet.pushdown.inFilterThreshold. For a longer list, the Parquet reader
# compares only the list's minimum and maximum with a row group's statistics. The reader could test
# the list exactly by a dictionary, but not every row group has one.
PUSHED_VALUES = 10
# File formats that have statistics for each part of a file, and the setting that lets Spark push
# conditions down to the format's reader.
_WITH_STATISTICS: Final = {
    "parquet": "spark.sql.parquet.filterPushdown",
    "orc": "spark.sql.orc.filterPushdown",
}
# Suffixes of further Parquet settings, each with a test for the column types that it affects.
_OF_TYPES: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "date": pa.types.is_date,
    "timestamp": pa.types.is_timestamp,
    "decimal": pa.types.is_decimal,
}


def among(
    df: DataFrame, column: str, keys: pa.Array, *, or_null: bool = False, how: str = "auto"
) -> DataFrame:
    """Return the rows of ``df`` whose ``column`` may equal one of ``keys``, by a Bloom filter.

    Without Spark's internals, all rows are kept.

    Args:
        df: Rows to test.
        column: Column to test. Equal values must have equal hashes, so the column must not be a
            float, a CHAR or a string with a collation.
        keys: Keys without nulls. Spark must be able to cast them to the column's type losslessly.
        or_null: Whether to also keep the rows in which ``column`` is null.
        how: How to access Spark's internals, as for :func:`splitlib.spark.scan.scan_files`.
    """
    if internals_unavailable(df.sparkSession, how) is not None:
        return df
    rows = local_rows(df.sparkSession, pa.table({"key": keys}))
    # The keys are cast to the column's type, because a value's hash depends on its type.
    typed = F.col("key").cast(df.schema[column].dataType)
    found = filter_of_hashes(rows.select(F.xxhash64(typed)), len(keys))
    return rows_that_may_match(df, column, found, or_null=or_null)


def filter_of_hashes(hashes: DataFrame, count: int) -> bytes:
    """Build a Bloom filter from a column of hashes, sized for ``count`` distinct hashes."""
    # One row is added, because Spark cannot build a filter from zero rows.
    at_least_one = hashes.union(hashes.sparkSession.range(1).select(F.lit(0).cast("bigint")))
    return bloom_filter(at_least_one, count, _FALSE_POSITIVES)


def share_of_bits(found: bytes) -> float:
    """Return the share of bits that are set in a Bloom filter. It is about 0.5 in a full filter."""
    return int.from_bytes(found).bit_count() / (8 * len(found))


def checked_condition(condition: Any) -> str | Column | BooleanExpression:
    """Check the type of a condition, and return the condition unchanged.

    Raises:
        InvalidFilter: if the condition has another type.
    """
    # If PyIceberg is not imported, the condition cannot be a PyIceberg filter.
    iceberg = sys.modules.get("pyiceberg.expressions")
    if isinstance(condition, str | Column) or (
        iceberg is not None and isinstance(condition, iceberg.BooleanExpression)
    ):
        found: str | Column | BooleanExpression = condition
        return found
    raise InvalidFilter(
        f"A {type(condition).__name__} is not a condition.",
        hint="pass SQL such as \"day > '2024-01-05'\", a Column such as F.col('day') > …, or a "
        "PyIceberg row filter.",
    )


def condition_column(condition: str | Column | BooleanExpression, schema: StructType) -> Column:
    """Convert a condition to a ``Column``. SQL text is parsed later, when Spark analyzes the query.

    Raises:
        InvalidFilter: if a column does not exist, or the condition is not supported.
    """
    if isinstance(condition, str):
        return F.expr(condition)
    if isinstance(condition, Column):
        return condition
    from pyiceberg.expressions import Not
    from pyiceberg.expressions.visitors import rewrite_not

    try:
        # Negations are moved into the comparisons, as in a PyIceberg scan. This changes the result
        # for nulls.
        return _column_of(rewrite_not(Not(Not(condition))), schema)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise InvalidFilter(f"{condition!r} cannot be a condition: {error}") from error


def _column_of(expression: Any, schema: StructType) -> Column:
    match type(expression).__name__:
        case "AlwaysTrue" | "AlwaysFalse" as constant:
            return F.lit(constant == "AlwaysTrue")
        case "And" | "Or" as both:
            left, right = _column_of(expression.left, schema), _column_of(expression.right, schema)
            return left & right if both == "And" else left | right
        case name if name in _CONDITIONS:
            path = expression.term.name.split(".")
            kind = _type_of(path, schema)
            column = F.col(quoted(path[0]))
            for part in path[1:]:
                column = column.getField(part)
            # The literals are sorted, so that equal conditions have the same text.
            literals = sorted(_literals(expression), key=lambda literal: repr(literal.value))
            return _CONDITIONS[name](column, *(_literal(literal, kind) for literal in literals))
    raise InvalidFilter(f"{expression!r} is not supported as a condition on rows.")


def _literals(expression: Any) -> list[Any]:
    if hasattr(expression, "literals"):
        return list(expression.literals)
    return [expression.literal] if hasattr(expression, "literal") else []


def _type_of(path: list[str], schema: StructType) -> DataType:
    kind: DataType = schema
    for name in path:
        found = [
            field.dataType
            for field in (kind if isinstance(kind, StructType) else ())
            if field.name.lower() == name.lower()
        ]
        if not found:
            raise InvalidFilter(f"The table has no column {'.'.join(path)!r}.")
        kind = found[0]
    return kind


def _literal(literal: Any, kind: DataType) -> Column:
    value = literal.value
    match type(literal).__name__:
        case "BooleanLiteral":
            return F.lit(value)
        case "BinaryLiteral" | "FixedLiteral":
            return F.lit(bytes(value))
        case "UUIDLiteral":
            value = UUID(bytes=value)
        case "DateLiteral":
            value = date(1970, 1, 1) + timedelta(days=value)
        case "TimestampLiteral":
            instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
            local = isinstance(kind, TimestampNTZType)
            value = instant.replace(tzinfo=None) if local else instant
    return text_literal(str(value), kind)


def compared_by_spark(
    spark: SparkSession,
    data: DynamicFilteringData,
    schema: StructType,
    table: TableMetadata,
    *,
    null_safe: bool,
) -> tuple[StaticCondition | None, DynamicFilteringData | None]:
    """Split keys into a filter that Spark evaluates, and keys that splitlib compares itself.

    Spark evaluates the keys whose type splitlib cannot convert to the partition column's type.
    Each of the two results is None if there are no such keys.

    Args:
        spark: Session whose settings decide how values are compared.
        data: Keys under the names of the table's columns.
        schema: Spark schema of the table.
        table: Metadata of the table.
        null_safe: Whether the join compares with ``<=>``.
    """
    keys = {key: schema[key] for key in table.partition_keys if key in schema.names}
    names = [name for name in data.fields if name in keys and not is_char_or_varchar(keys[name])]
    others = {name for name in names if not _is_comparable(data.schema.field(name), table)}
    if not others:
        return None, data
    match data.domains:
        case (ValueDomain(rows=rows),) if data.is_exact and rows.num_rows:
            given = rows.select(names)
        case _:
            return None, data
    numbered = [f"__splitlib_k{i}" for i in range(len(names))]
    wanted = local_rows(spark, given.rename_columns(numbered))
    condition = F.lit(True)
    for name, number in zip(names, numbered, strict=True):
        one, other = F.col(quoted(name)), F.col(number)
        if isinstance(keys[name].dataType, YearMonthIntervalType):
            one = in_months(one)  # the collected keys are numbers of months
        condition &= one.eqNullSafe(other) if null_safe else one == other

    def kept(values: DataFrame) -> DataFrame:
        return values.join(wanted, condition, "left_semi")

    of_keys = StructType([keys[name] for name in names])
    rest = [name for name in data.fields if name not in others]
    condition_on_keys = StaticCondition(spark, of_keys, kept, data.describe(), keeps_undecided=True)
    return condition_on_keys, data.only(rest) if rest else None


def _is_comparable(key: pa.Field, table: TableMetadata) -> bool:
    own = table.schema.field(key.name)
    return own.type == key.type or coerce(pa.array([], key.type), own) is not None


def tested_columns(spark: SparkSession, table: TableMetadata) -> frozenset[str]:
    """Return the data columns by which Spark, but not splitlib, can skip parts of files."""
    form = table.read_format
    if table.has_statistics or form.name not in _WITH_STATISTICS or is_by_position(spark, form):
        return frozenset()
    # Filters ignore case. So columns whose names differ only in case are left out.
    times = Counter(name.lower() for name in table.schema.names)
    return frozenset(name for name in table.data_schema.names if times[name.lower()] == 1)


def undecided_columns(
    spark: SparkSession, table: TableMetadata, selected: Iterable[SelectedFiles]
) -> pa.Schema:
    """Return a schema of the columns whose values must still be tested row by row.

    Columns that are constant in each selected partition are excluded, because partition pruning
    has already tested their values.

    Args:
        spark: The session that reads the files.
        table: Metadata of the table.
        selected: The selected files with their partitions.
    """
    if not table.has_statistics:
        tested = tested_columns(spark, table)
        return pa.schema([field for field in table.schema if field.name in tested])
    decided = [
        {f.source.lower() for f in one.partitions.fields if f.transform is None} for one in selected
    ]
    of_all = set.intersection(*decided) if decided else set()
    names = {name.lower() for name in table.filter_schema.names} - of_all
    return pa.schema([field for field in table.schema if field.name.lower() in names])


def settings_in_the_way(
    spark: SparkSession, form: str, columns: Iterable[pa.Field]
) -> tuple[str, ...]:
    """Return notes on settings that prevent Spark from skipping parts of files by conditions.

    Args:
        spark: The session.
        form: File format, such as ``parquet``.
        columns: The columns that conditions test.
    """
    columns = list(columns)
    if form not in _WITH_STATISTICS or not columns:
        return ()
    general = _WITH_STATISTICS[form]
    settings = {general: columns}
    for end, is_of in _OF_TYPES.items() if form == "parquet" else ():
        settings[f"{general}.{end}"] = [c for c in columns if is_of(c.type)]
    off = {
        name: concerned
        for name, concerned in settings.items()
        if concerned and str(spark.conf.get(name, "true")).lower() != "true"
    }
    return tuple(
        f"Spark skips no parts of files by {', '.join(c.name for c in concerned)}: "
        f"{name} is off; set it to true"
        for name, concerned in off.items()
        if name == general or general not in off
    )


def row_conditions(
    spark: SparkSession,
    columns: pa.Schema,
    filters: Iterable[DynamicFilteringData],
    most_ranges: int = FEW_RANGES,
    *,
    floats: bool = False,
) -> Iterator[Column]:
    """Yield conditions that hold for all rows that can join with these keys.

    Each condition tests one column. So together they may keep rows that match no tuple of keys.

    Args:
        spark: Session that parses the conditions. They are written as text, because a ``Column``
            takes more JVM calls.
        columns: Columns to test, with the table's types.
        filters: Keys, one filter per join. A null key matches null.
        most_ranges: Maximum number of ranges in a condition.
        floats: Whether to test float columns. Pass True only for Parquet, whose readers ignore
            bounds that may be NaN.
    """
    fields = {field.name.lower(): field for field in columns}
    for matcher in Predicate(columns, filters).matchers:
        for i, key in enumerate(matcher.keys):
            field = fields[key]
            is_float = pa.types.is_floating(field.type)
            # Skip small integers. If a file stores them in a wider type, Spark truncates the values
            # that it returns, but does not truncate them for the comparison with a condition.
            if pa.types.is_int8(field.type) or pa.types.is_int16(field.type):
                continue
            if is_char(field) or not (has_range(field.type) or (is_float and floats)):
                continue
            column = column_text(spark, field.name)
            if isinstance(matcher, ValueMatcher):
                values = matcher.rows[i]
                # Do not test keys that contain NaN. Statistics ignore NaN, but Parquet's readers
                # would use the statistics to skip row groups that contain NaN.
                if not is_float or not pc.any(pc.is_nan(values)).as_py():
                    yield F.expr(_among(column, field.type, values, most_ranges))
            elif isinstance(matcher, RangeMatcher):
                found = [_in_ranges(column, field.type, matcher.ranges.at_most(most_ranges))]
                found += [f"{column} IS NULL"] if matcher.includes_null else []
                yield F.expr(any_of(found))


def many_keys(
    columns: pa.Schema, filters: Iterable[DynamicFilteringData]
) -> Iterator[tuple[str, pa.Array, bool]]:
    """Yield the name and keys of each column with too many keys to list, and whether null is a key.

    For these columns, :func:`row_conditions` tests only ranges.

    Args:
        columns: Columns to test, with the table's types.
        filters: Keys, one filter per join. A null key matches null.
    """
    fields = {field.name.lower(): field for field in columns}
    for matcher in Predicate(columns, filters).matchers:
        if not isinstance(matcher, ValueMatcher):
            continue
        for key, rows in zip(matcher.keys, matcher.rows, strict=True):
            field = fields[key]
            values = pc.unique(rows)
            plain = values.drop_null()
            if len(plain) > _MANY and has_range(field.type) and not is_char(field):
                yield field.name, plain, bool(values.null_count)


def _among(column: str, kind: pa.DataType, keys: pa.Array, most_ranges: int) -> str:
    values = pc.unique(keys)
    plain = values.drop_null()
    found = []
    if 0 < len(plain) <= _MANY:  # test the list first, so few rows remain for the slower ranges
        found.append(_equal_to(column, kind, plain))
    if len(plain) > PUSHED_VALUES:
        ordered = plain.take(pc.sort_indices(plain))
        found.append(_in_ranges(column, kind, Ranges.covering(ordered, most_ranges)))
    is_null = [f"{column} IS NULL"] if values.null_count else []
    return any_of([*([all_of(found)] if found else []), *is_null])


def _equal_to(column: str, kind: pa.DataType, values: pa.Array) -> str:
    is_range = pc.invert(are_compared(values))
    found = [_between(column, kind, value, value) for value in values.filter(is_range)]
    others = values.filter(pc.invert(is_range))
    if len(others):
        found.append(f"{column} IN ({', '.join(arrow_literal(v, kind) for v in others)})")
    return any_of(found)


def _in_ranges(column: str, kind: pa.DataType, ranges: Ranges) -> str:
    return any_of(_between(column, kind, low, high) for low, high in ranges)


def _between(column: str, kind: pa.DataType, low: pa.Scalar, high: pa.Scalar) -> str:
    """Return a SQL condition for a range that includes both ends. A null end is unbounded."""
    low, high = widened(low, high)
    if low.is_valid and low.equals(high):
        return f"{column} = {arrow_literal(low, kind)}"
    ends = ((">=", low), ("<=", high))
    tests = (f"{column} {sign} {arrow_literal(end, kind)}" for sign, end in ends if end.is_valid)
    return all_of([f"{column} IS NOT NULL", *tests])
