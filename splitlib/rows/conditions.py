"""Convert filters to a row condition that Arrow evaluates with Spark's rules of equality."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.values import try_cast
from splitlib.checks import mismatches
from splitlib.errors import InvalidFilter
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import RangeDomain
from splitlib.filtering.matchers import Matcher, RangeMatcher, ValueMatcher, are_in
from splitlib.filtering.predicate import Predicate
from splitlib.hive.partition_values import is_char
from splitlib.model import TableMetadata


def condition_of(
    filters: Sequence[DynamicFilteringData], metadata: TableMetadata
) -> pc.Expression | None:
    """Return the condition that is true for rows that match all filters.

    Null equals null, NaN equals NaN, and -0.0 equals 0.0. CHAR columns are compared without
    trailing spaces. Keys of another type are converted as Spark converts them for ``=``. A filter
    that had too many keys, and so has neither values nor ranges, matches all rows.

    Returns:
        The condition, or None if every row matches.

    Raises:
        InvalidFilter: if a filter cannot be compared with the table's columns exactly.
    """
    columns = pa.schema([f for f in metadata.schema if not pa.types.is_nested(f.type)])
    comparable = replace(metadata, filter_schema=columns, has_statistics=True)
    by_name = {field.name.lower(): field for field in columns}
    conditions: list[pc.Expression] = []
    for data in filters:
        predicate = Predicate(columns, [data])
        for mismatch in mismatches(data, comparable):
            raise InvalidFilter(mismatch.message, hint=mismatch.hint)
        (used,) = predicate.filters
        if inside := [name for name in data.fields if name.lower() not in by_name]:
            raise InvalidFilter(f"Rows cannot be filtered by {inside[0]!r}, which is nested.")
        if data.domains and used.unused_because is not None:
            raise InvalidFilter(f"Rows cannot be compared with a filter: {used.unused_because}.")
        _refuse_ambiguous(used.used_fields, metadata.schema.names)
        _refuse_ends_out_of_range(data, by_name)
        if data.is_empty:
            conditions.append(pc.scalar(False))
        conditions += (_condition(matcher, by_name) for matcher in predicate.matchers)
    return reduce(_and, conditions) if conditions else None


def _refuse_ambiguous(used: Iterable[str], names: Sequence[str]) -> None:
    lower = [name.lower() for name in names]
    for name in used:
        if lower.count(name.lower()) > 1:
            raise InvalidFilter(f"Several columns are named {name!r}, in different case.")


def _refuse_ends_out_of_range(data: DynamicFilteringData, columns: Mapping[str, pa.Field]) -> None:
    """Reject ranges with an end that is not a value of the column's type.

    Such an end becomes open for pruning, which would be wrong for rows.
    """
    for domain in data.domains:
        if isinstance(domain, RangeDomain):
            kind, ends = columns[domain.field.name.lower()].type, domain.ranges.ends
            if try_cast(ends, kind).null_count > ends.null_count:
                raise InvalidFilter(
                    f"The range {domain.describe()} has an end that is not a value of {kind}.",
                    hint=f"give a range within the values of {kind}.",
                )


def _condition(matcher: Matcher, columns: Mapping[str, pa.Field]) -> pc.Expression:
    if isinstance(matcher, RangeMatcher):
        return _in_ranges(matcher, columns[matcher.keys[0]])
    assert isinstance(matcher, ValueMatcher)
    return are_in([_comparable(columns[key]) for key in matcher.keys], matcher.rows)


def _comparable(column: pa.Field) -> pc.Expression:
    """Return an expression for a column's values, normalized as ``comparable`` does for keys."""
    field = pc.field(column.name)
    if pa.types.is_floating(column.type):
        # The sum turns -0.0 into 0.0. It also keeps Arrow from skipping row groups by the column's
        # bounds, which do not include NaN.
        return pc.add(field, pa.scalar(0.0, column.type))
    return pc.utf8_rtrim(field, characters=" ") if is_char(column) else field


def _in_ranges(matcher: RangeMatcher, column: pa.Field) -> pc.Expression:
    field, ranges = pc.field(column.name), matcher.ranges
    begun = pc.greater_equal if ranges.brackets[0] == "[" else pc.greater
    not_ended = pc.less_equal if ranges.brackets[1] == "]" else pc.less

    def conditions() -> Iterator[pc.Expression]:
        if matcher.includes_null:
            yield pc.is_null(field)
        for low, high in ranges:
            ends = [begun(field, low)] if low.is_valid else []
            ends += [not_ended(field, high)] if high.is_valid else []
            yield reduce(_and, ends) if ends else pc.is_valid(field)

    return _any(list(conditions()))


def _any(conditions: Sequence[pc.Expression]) -> pc.Expression:
    """Combine conditions with OR, as a balanced tree, because Arrow evaluates them recursively."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return _any(conditions[:middle]) | _any(conditions[middle:])


def _and(one: pc.Expression, other: pc.Expression) -> pc.Expression:
    return one & other
