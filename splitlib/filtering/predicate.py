"""Combine all filters on one table, and decide which partitions and files match.

No other module decides this. If a comparison is not exact, the partition or file is kept, so a
match is never dropped by mistake. :attr:`Predicate.filters` says why a filter is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.values import is_instant, try_cast
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import Domain, RangeDomain, Ranges, ValueDomain, distinct
from splitlib.filtering.matchers import Matcher, RangeMatcher, ValueMatcher, coerce, without_padding
from splitlib.hive.partition_values import TypedValues, is_ambiguous, is_char, parse, table_fields
from splitlib.model import ColumnStatistics, PartitionBatch, PartitionField
from splitlib.report import FilterUse

_COLLATED: Final = (
    "has a collation or the type TIME, so different text may be equal. Compare a column without a "
    "collation, or of another type."
)


class PartitionFilter(Protocol):
    """A condition on partition values that does not consist of join keys, as in a WHERE clause."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The partition keys that the condition reads."""

    def match(self, values: pa.RecordBatch) -> pa.BooleanArray:
        """Return a mask that is true or null for each partition that may match.

        ``values`` has a column for each of :attr:`fields`, with the table's column names. Values
        are as the connector returned them, in the key's type or as text.
        """

    def describe(self) -> str:
        """Return a short description for reports."""


class Matches(NamedTuple):
    """Masks of the partitions in a batch that a predicate and its filters keep."""

    together: pa.BooleanArray
    """A mask of the partitions that all filters keep."""
    each: tuple[pa.BooleanArray, ...]
    """A mask of the kept partitions for each filter, in the order of :attr:`Predicate.filters`."""
    undecided: Mapping[str, int]
    """Number of invalid values by partition key. Partitions with an invalid value are kept."""


class Predicate:
    """The conjunction of all filters on one table. Immutable, thread-safe.

    Args:
        schema: The columns that can prune, with the table's types: partition keys, and columns
            with statistics.
        filters: Join keys. Their fields are matched to columns by name, ignoring case.
        static: Other conditions on partition values.
        learnable: Data columns whose statistics can be read from file footers.
    """

    def __init__(
        self,
        schema: pa.Schema,
        filters: Iterable[DynamicFilteringData] = (),
        static: Sequence[PartitionFilter] = (),
        learnable: pa.Schema | None = None,
    ) -> None:
        filters = tuple(filters)
        self._schema = {field.name.lower(): field for field in schema}
        self._learnable = learnable or pa.schema([])
        self._matchers: list[list[Matcher]] = []
        self._own = PartitionField.identities(schema.names)
        self._derived: dict[tuple[PartitionField, ...], list[list[Matcher]]] = {}
        self.static = tuple(static)
        """Conditions other than join keys."""
        self.filters: tuple[FilterUse, ...]
        """How each filter is used, for reports: the join keys in order, then other conditions."""
        applied = []
        empty = False
        for data in filters:
            matchers, used = self._compile(data)
            self._matchers.append(matchers)
            applied.append(used)
            empty = empty or data.is_empty
        self.matches_nothing = empty
        """Whether a filter has no keys, so that nothing matches and nothing has to be listed."""
        applied += [FilterUse(s.fields, s.describe(), used_fields=s.fields) for s in self.static]
        named = self._on_learnable(filters)
        self.of_learned: Predicate | None = None
        """The filters that have ``learnable`` columns; None if there are no such filters. They are
        also compared with partition values in :meth:`match_bounds`, which matters for tuples. But
        :attr:`filters` is only about their ``learnable`` columns."""
        if named:
            narrow = Predicate(self._learnable, list(named.values()))
            self.of_learned = narrow
            whole = [filters[place] for place in named]
            if any(len(filters[place].fields) > len(n.fields) for place, n in named.items()):
                self.of_learned = Predicate(pa.schema([*schema, *self._learnable]), whole)
                self.of_learned.filters = narrow.filters
            for place, used in zip(named, narrow.filters, strict=True):
                why = " ".join(filter(None, (applied[place].unused_because, used.unused_because)))
                applied[place] = replace(applied[place], unused_because=why or None)
        self.filters = tuple(applied)

    @property
    def keys(self) -> frozenset[str]:
        """The columns that pruning depends on, in lower case."""
        return frozenset(key.lower() for used in self.filters for key in used.used_fields)

    @property
    def matchers(self) -> tuple[Matcher, ...]:
        """The matchers for all join keys, in the table's types. All of them must match."""
        return tuple(matcher for matchers in self._matchers for matcher in matchers)

    def match(
        self, values: pa.RecordBatch, fields: tuple[PartitionField, ...] | None = None
    ) -> pa.BooleanArray:
        """Return a mask of the partitions that may match.

        Args:
            values: One column per partition key. A connector that lists directories key by key
                passes only the keys read so far. Filters on other keys then keep all partitions.
            fields: How ``values`` derive from the table's columns, as in
                :attr:`splitlib.model.PartitionBatch.fields`. By default, ``values`` are values of
                the table's columns.
        """
        own = self._own if fields is None else fields
        return self.match_each(
            PartitionBatch(values, pa.nulls(values.num_rows), fields=own)
        ).together

    def match_each(self, partitions: PartitionBatch) -> Matches:
        """Return masks of the partitions that all filters keep, and that each filter keeps."""
        values, fields, rows = partitions.values, partitions.fields, len(partitions)
        types = table_fields(values.schema, fields, self._schema.values())
        present = {field.name.lower(): i for i, field in enumerate(types)}
        matchers_of = self._matchers_for(fields)
        columns = {
            key: parse(values.column(present[key]), types[present[key]])
            for key in {k for matchers in matchers_of for m in matchers for k in m.keys}
            if key in present
        }
        masks = []
        for matchers in matchers_of:
            mask = pa.repeat(True, rows)
            for matcher in matchers:
                if all(key in columns for key in matcher.keys):
                    mask = pc.and_(mask, _keep_undecided(matcher, columns))
            masks.append(mask)
        masks += self._match_static(partitions)
        undecided = {
            types[present[key]].name: pc.sum(column.undecided).as_py()
            for key, column in columns.items()
            if column.undecided is not None
        }
        return Matches(self._together(masks, rows), tuple(masks), undecided)

    def match_bounds(
        self,
        statistics: Mapping[str, ColumnStatistics],
        fields: tuple[PartitionField, ...] | None = None,
    ) -> pa.BooleanArray:
        """Return a mask of the files, or manifests, that may contain a matching row.

        Args:
            statistics: Statistics by column, for at least one of the table's columns. With
                ``fields``, these are statistics of partition values instead.
            fields: How partition values derive from the table's columns, as in
                :attr:`splitlib.model.PartitionBatch.fields`.
        """
        matchers_of = self._matchers_for(self._own if fields is None else fields)
        columns = {name.lower(): known for name, known in statistics.items()}
        for name, known in columns.items():
            if name in self._schema and is_char(self._schema[name]):
                columns[name] = replace(known, lower=without_padding(known.lower))
        masks = [
            matcher.match_bounds(columns)
            for matchers in matchers_of
            for matcher in matchers
            if any(key in columns for key in matcher.keys)
        ]
        return self._together(masks, len(next(iter(columns.values())).lower))

    def _on_learnable(
        self, filters: Sequence[DynamicFilteringData]
    ) -> dict[int, DynamicFilteringData]:
        """Return the filters that have ``learnable`` columns, reduced to these, by filter index."""
        names = {name.lower() for name in self._learnable.names}
        if not names:
            return {}
        fields = [[f for f in data.fields if f.lower() in names] for data in filters]
        return {i: filters[i].only(of_data) for i, of_data in enumerate(fields) if of_data}

    def _match_static(self, partitions: PartitionBatch) -> list[pa.BooleanArray]:
        values = _by_source(partitions)
        present = {name.lower() for name in values.schema.names}
        masks = []
        for static in self.static:
            mask = pa.repeat(True, len(partitions))
            if present and all(field.lower() in present for field in static.fields):
                mask = pc.fill_null(static.match(values), True)
            masks.append(mask)
        return masks

    def _together(self, masks: Iterable[pa.BooleanArray], rows: int) -> pa.BooleanArray:
        together = pa.repeat(not self.matches_nothing, rows)
        for mask in masks:
            together = pc.and_(together, mask)
        return together

    def _matchers_for(self, fields: tuple[PartitionField, ...]) -> list[list[Matcher]]:
        """Return each filter's matchers for these partition fields. The result is cached."""
        if fields not in self._derived:
            self._derived[fields] = [
                [derived for matcher in matchers for derived in _derive(matcher, fields)]
                for matchers in self._matchers
            ]
        return self._derived[fields]

    def _compile(self, data: DynamicFilteringData) -> tuple[list[Matcher], FilterUse]:
        reasons: list[str] = []
        matchers: list[Matcher] = []
        learnable = {name.lower() for name in self._learnable.names}
        fields = data.fields
        others = [f for f in fields if f.lower() not in self._schema]
        foreign = [f for f in others if f.lower() not in learnable]
        if foreign:
            reasons.append(not_a_key(foreign))
        elif not data.domains and not others:
            unbounded = "The range is open at both ends. Give it a lower or an upper end."
            exceeded = (
                f"There is no filter, because {data.passed_limit}. Raise this limit, or set "
                "filter_on_exceed to range."
            )
            reasons.append(exceeded if data.exceeds_threshold else unbounded)
        for domain in data.domains:
            matcher = self._compile_domain(domain, reasons)
            if matcher is not None:
                matchers.append(matcher)
        used = tuple(
            dict.fromkeys(self._schema[key].name for matcher in matchers for key in matcher.keys)
        )
        return matchers, FilterUse(
            fields,
            data.describe(),
            data.nbytes,
            used_fields=used,
            unused_because=" ".join(reasons) or None,
        )

    def _compile_domain(self, domain: Domain, reasons: list[str]) -> Matcher | None:
        fields = [f for f in domain.fields if f.lower() in self._schema]
        if not fields:
            return None
        if isinstance(domain, RangeDomain):
            return self._compile_range(domain, reasons)
        return self._compile_values(domain, fields, reasons)

    def _compile_values(
        self, domain: ValueDomain, fields: Sequence[str], reasons: list[str]
    ) -> Matcher | None:
        columns: dict[str, pa.Array] = {}
        matchable = pa.repeat(True, domain.rows.num_rows)
        for name in fields:
            key = self._schema[name.lower()]
            keys = _one_array(domain.rows[name])
            if is_ambiguous(key):
                reasons.append(f"{name} {_COLLATED}")
                continue
            coerced = coerce(keys, key)
            if coerced is None:
                reasons.append(
                    f"{name} has the type {key.type}, which cannot be compared with {keys.type} "
                    f"exactly. Cast the keys to {key.type}."
                )
                continue
            columns[key.name.lower()] = coerced.values
            matchable = pc.and_(matchable, coerced.matchable)
        if not columns:
            return None
        rows = distinct(pa.table(columns).filter(matchable))
        return ValueMatcher(tuple(columns), tuple(_one_array(column) for column in rows.columns))

    def _compile_range(self, domain: RangeDomain, reasons: list[str]) -> Matcher | None:
        key = self._schema[domain.field.name.lower()]
        if is_ambiguous(key):
            reasons.append(f"{key.name} {_COLLATED}")
            return None
        if (
            not is_char(key)  # the padding of CHAR values changes their order
            and same_order(domain.field.type, key.type)
        ):
            # An end that does not fit the column's type is removed. This never drops a match.
            ranges = _cast(domain.ranges, key.type)
            return RangeMatcher((key.name.lower(),), ranges, domain.includes_null)
        kind = "CHAR, which is padded" if is_char(key) else str(key.type)
        reasons.append(
            f"{key.name} has the type {kind}, so a range of {domain.field.type} does not apply to "
            "its order. Pass the keys as values, or cast them to the type of the column."
        )
        return None


def not_a_key(columns: Sequence[str]) -> str:
    """Return the reason why a filter on these columns prunes neither partitions nor files."""
    names = ", ".join(columns)
    return (
        f"The table has no partition key and no statistics for {names}. Partition or cluster the "
        f"table by {names} if such filters are frequent."
    )


def _by_source(partitions: PartitionBatch) -> pa.RecordBatch:
    """Return the partition columns that have no transform, named like their source columns."""
    given = {name.lower(): i for i, name in enumerate(partitions.values.schema.names)}
    own = [f for f in partitions.fields if f.transform is None and f.name.lower() in given]
    columns = [partitions.values.column(given[field.name.lower()]) for field in own]
    return pa.RecordBatch.from_arrays(columns, names=[field.source for field in own])


def _derive(matcher: Matcher, fields: tuple[PartitionField, ...]) -> Iterator[Matcher]:
    """Yield matchers on partition values, derived from a matcher on their source columns."""
    fields = tuple(field for field in fields if field.source.lower() in matcher.keys)
    own = {field.name.lower() for field in fields if _is_own(field)}
    if len(own) == len(fields) == len(matcher.keys):
        yield matcher  # not a copy, so that its cached ranks are reused
        return
    if isinstance(matcher, ValueMatcher):
        sources = dict(zip(matcher.keys, matcher.rows, strict=True))
        results = {f.name.lower(): _results(f, sources[f.source.lower()]) for f in fields}
        columns = {name: values for name, values in results.items() if values is not None}
        if columns:
            rows = distinct(_with_mistaken(pa.table(columns), fields))
            yield ValueMatcher(tuple(columns), tuple(_one_array(column) for column in rows.columns))
    elif isinstance(matcher, RangeMatcher):
        for field in fields:
            ranges = _transformed(matcher.ranges, field)
            if ranges is not None:
                yield RangeMatcher((field.name.lower(),), ranges, matcher.includes_null)


def _cast(ranges: Ranges, kind: pa.DataType) -> Ranges:
    """Cast ranges to a column's type. An end that does not fit the type is removed."""
    lower, upper = try_cast(ranges.lower, kind), try_cast(ranges.upper, kind)
    if lower[1:].null_count or upper[:-1].null_count:  # Without an inner end, join all ranges.
        return Ranges(lower[:1], upper[-1:], ranges.brackets)
    return Ranges(lower, upper, ranges.brackets)


def _results(field: PartitionField, values: pa.Array) -> pa.Array | None:
    """Apply a field's transform, if it has one. Return None if a value has no result."""
    try:
        return values if field.transform is None else field.transform(values)
    except ValueError:  # includes Arrow's errors about values
        return None


def _transformed(ranges: Ranges, field: PartitionField) -> Ranges | None:
    """Apply a field's transform to the ends. Return None if results lack or may be out of order."""
    if field.transform is None:
        return ranges
    lower, upper = _results(field, ranges.lower), _results(field, ranges.upper)
    if lower is None or upper is None or not field.transform.preserves_order:
        return None
    mistaken = field.transform.mistaken(upper)
    upper = upper if mistaken is None else mistaken
    # Check the order, because a transform of very small values may overflow to a large value.
    pairs = ((lower, upper), (lower[:-1], lower[1:]), (upper[:-1], upper[1:]))
    if any(pc.any(pc.greater(*pair)).as_py() for pair in pairs):
        return None
    # Include both ends, because an excluded end and a value inside may have the same result.
    return Ranges(lower, upper)


def _is_own(field: PartitionField) -> bool:
    """Return whether a partition field is an untransformed table column with the same name."""
    return field.transform is None and field.name.lower() == field.source.lower()


def _with_mistaken(rows: pa.Table, fields: tuple[PartitionField, ...]) -> pa.Table:
    """Return ``rows``, plus the wrong transform results that some buggy writers have stored."""
    for field in fields:
        if field.transform is None or field.name.lower() not in rows.column_names:
            continue
        position = rows.column_names.index(field.name.lower())
        mistaken = field.transform.mistaken(_one_array(rows.column(position)))
        if mistaken is not None:
            other = rows.set_column(position, rows.field(position), mistaken)
            rows = pa.concat_tables([rows, other])
    return rows


def same_order(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether Arrow compares values of the two types exactly as Spark does."""
    kinds = (pa.types.is_integer, pa.types.is_decimal, is_instant)
    return one == other or any(is_kind(one) and is_kind(other) for is_kind in kinds)


def _keep_undecided(matcher: Matcher, columns: Mapping[str, TypedValues]) -> pa.BooleanArray:
    mask = matcher.match(columns)
    for key in matcher.keys:
        undecided = columns[key].undecided
        if undecided is not None:
            mask = pc.or_(mask, undecided)
    return mask


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


class AnyOf:
    """A :class:`PartitionFilter` that keeps partitions if at least one of its predicates does.

    Args:
        predicates: At least one predicate.
    """

    def __init__(self, predicates: Sequence[Predicate]) -> None:
        self.predicates = tuple(predicates)

    @property
    def fields(self) -> tuple[str, ...]:
        """The partition keys that at least one predicate uses."""
        used = (field for p in self.predicates for u in p.filters for field in u.used_fields)
        return tuple(dict.fromkeys(used))

    def describe(self) -> str:
        """Return the descriptions of all predicates, joined by "or"."""
        each = (
            " and ".join(used.description for used in predicate.filters) or "all"
            for predicate in self.predicates
        )
        return " or ".join(f"({text})" for text in each)

    def match(self, values: pa.RecordBatch) -> pa.BooleanArray:
        """Return a mask of the partitions that may match."""
        return reduce(pc.or_, (predicate.match(values) for predicate in self.predicates))
