"""Turn join keys into conditions on rows, which also let Spark skip parts of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from splitlib.enumeration.selected_files import SelectedFiles
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import has_range
from splitlib.filtering.matchers import RangeMatcher, ValueMatcher
from splitlib.filtering.predicate import Predicate
from splitlib.filtering.ranges import Ranges
from splitlib.hive.partition_values import is_char
from splitlib.model import TableMetadata
from splitlib.spark.sql_text import arrow_literal, quoted

# With more values, the condition costs more per row than it saves. Then a range is used.
_MANY = 1000
_MANY_RANGES = 100


# Formats whose files contain statistics of their parts.
_WITH_STATISTICS = ("parquet", "orc")


def tested_columns(table: TableMetadata) -> frozenset[str]:
    """Return the columns that cannot prune, but whose keys let Spark skip parts of files."""
    if table.has_statistics or table.read_format.name not in _WITH_STATISTICS:
        return frozenset()
    return frozenset(table.data_schema.names)


def undecided_columns(table: TableMetadata, selected: Iterable[SelectedFiles]) -> pa.Schema:
    """Return the columns that have statistics and are not constant within every partition.

    Args:
        table: Metadata of the table.
        selected: The selected files. Partition values have already been tested.
    """
    if not table.has_statistics:
        tested = tested_columns(table)
        return pa.schema([field for field in table.schema if field.name in tested])
    decided = [
        {f.source.lower() for f in one.partitions.fields if f.transform is None} for one in selected
    ]
    of_all = set.intersection(*decided) if decided else set()
    names = {name.lower() for name in table.filter_schema.names} - of_all
    return pa.schema([field for field in table.schema if field.name.lower() in names])


def row_conditions(columns: pa.Schema, filters: Iterable[DynamicFilteringData]) -> Iterator[Column]:
    """Yield conditions that hold for all rows that can join with these keys.

    Tuples are split into columns, so the conditions may keep more rows than the tuples match.

    Args:
        columns: Columns to test, with the table's types.
        filters: Keys, one filter per join. A null in them matches null.
    """
    fields = {field.name.lower(): field for field in columns}
    for matcher in Predicate(columns, filters).matchers:
        for i, key in enumerate(matcher.keys):
            field = fields[key]
            # Statistics of float columns ignore NaN.
            if is_char(field) or not has_range(field.type):
                continue
            if isinstance(matcher, ValueMatcher):
                yield _among(matcher.rows[i], field)
            elif isinstance(matcher, RangeMatcher):
                found = _in_ranges(field, matcher.ranges.at_most(_MANY_RANGES))
                yield found | _column(field).isNull() if matcher.includes_null else found


def many_keys(
    columns: pa.Schema, filters: Iterable[DynamicFilteringData]
) -> Iterator[tuple[str, pa.Array, bool]]:
    """Yield columns with too many keys to list, their keys, and whether null is a key.

    For these columns, :func:`row_conditions` tests only a range.

    Args:
        columns: Columns to test, with the table's types.
        filters: Keys, one filter per join. A null in them matches null.
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


def _among(keys: pa.Array, field: pa.Field) -> Column:
    values = pc.unique(keys)
    plain = values.drop_null()
    if len(plain) > _MANY:
        ends = pc.min_max(plain)
        found = _in_ranges(field, Ranges.between(ends["min"], ends["max"]))
    elif len(plain):
        # Each separate literal costs several calls to the JVM.
        simple = pa.types.is_integer(field.type) or pa.types.is_string(field.type)
        listed = (
            plain.to_pylist() if simple else [arrow_literal(value, field.type) for value in plain]
        )
        found = _column(field).isin(listed)
    else:
        found = F.lit(False)
    return found | _column(field).isNull() if values.null_count else found


def _in_ranges(field: pa.Field, ranges: Ranges) -> Column:
    return reduce(or_, (_between(field, low, high) for low, high in ranges))


def _between(field: pa.Field, low: pa.Scalar, high: pa.Scalar) -> Column:
    """Return a condition for a range that includes both ends; null = open."""
    found = _column(field).isNotNull()
    if low.is_valid:
        found = found & (_column(field) >= arrow_literal(low, field.type))
    if high.is_valid:
        found = found & (_column(field) <= arrow_literal(high, field.type))
    return found


def _column(field: pa.Field) -> Column:
    return F.col(quoted(field.name))
