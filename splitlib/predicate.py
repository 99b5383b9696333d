"""What all filters on one table say together, and which partitions it keeps.

This is the only place that decides whether a partition matches. It may keep too much, never too
little: what cannot be decided is kept, and :attr:`Predicate.filters` says why a filter was not
used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.coercion import coerce
from splitlib.filtering import Domain, DynamicFilteringData, RangeDomain, ValueDomain, distinct
from splitlib.partition_values import TypedValues, is_char, parse

_MAX_CODE = 2**62


class PartitionFilter(Protocol):
    """A condition on partition values other than join keys, such as a static predicate."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The partition keys that it reads."""

    def match(self, values: pa.RecordBatch) -> pa.BooleanArray:
        """True (or null) where a partition may matter.

        ``values`` has a column for each of :attr:`fields`, as the connector gave it.
        """

    def describe(self) -> str:
        """The condition in a few words for a report."""


@dataclass(frozen=True, slots=True)
class AppliedFilter:
    """One filter and how far it could be used."""

    fields: tuple[str, ...]
    description: str
    nbytes: int
    used_fields: tuple[str, ...]
    """The partition keys that it prunes on; empty = it prunes nothing."""
    unused_because: str | None
    """Why it, or a part of it, does not prune."""


class Matches(NamedTuple):
    """What a predicate keeps of a batch of partitions."""

    together: pa.BooleanArray
    each: tuple[pa.BooleanArray, ...]
    """In the order of :attr:`Predicate.filters`."""
    undecided: Mapping[str, int]
    """By key: how many values are no value of the key's type, and were kept for that."""


class _Matcher(Protocol):
    @property
    def keys(self) -> tuple[str, ...]: ...

    def match(self, columns: Mapping[str, TypedValues]) -> pa.BooleanArray: ...


@dataclass(frozen=True, slots=True)
class _ValueMatcher:
    keys: tuple[str, ...]
    rows: tuple[pa.Array, ...]
    """The accepted tuples, a column per key."""

    def match(self, columns: Mapping[str, TypedValues]) -> pa.BooleanArray:
        if len(self.keys) == 1:
            return pc.is_in(columns[self.keys[0]].values, value_set=self.rows[0])
        # A tuple becomes one number: position among the accepted values of each key, in mixed
        # radix, renumbered before it could overflow.
        accepted = found = None
        radix = 1
        for key, column in zip(self.keys, self.rows, strict=True):
            known = pc.unique(column)
            digit = pc.index_in(column, value_set=known).cast(pa.int64())
            found_digit = pc.index_in(columns[key].values, value_set=known).cast(pa.int64())
            if accepted is None:
                accepted, found, radix = digit, found_digit, len(known)
                continue
            if radix * len(known) >= _MAX_CODE:
                codes = pc.unique(accepted)
                accepted = pc.index_in(accepted, value_set=codes).cast(pa.int64())
                found = pc.index_in(found, value_set=codes).cast(pa.int64())
                radix = len(codes)
            accepted = pc.add(pc.multiply(accepted, len(known)), digit)
            found = pc.add(pc.multiply(found, len(known)), found_digit)
            radix *= len(known)
        return pc.is_in(found, value_set=accepted)


@dataclass(frozen=True, slots=True)
class _RangeMatcher:
    keys: tuple[str]
    lower: pa.Scalar
    upper: pa.Scalar
    includes_null: bool

    def match(self, columns: Mapping[str, TypedValues]) -> pa.BooleanArray:
        values = columns[self.keys[0]].values
        mask = pa.repeat(True, len(values))
        if self.lower.is_valid:
            mask = pc.and_(mask, pc.greater_equal(values, self.lower))
        if self.upper.is_valid:
            mask = pc.and_(mask, pc.less_equal(values, self.upper))
        return pc.if_else(pc.is_null(values), pa.scalar(self.includes_null), mask)


class Predicate:
    """The conjunction of filters on the partition keys of one table. Immutable, thread-safe.

    Args:
        partition_schema: The partition keys with the table's types.
        filters: Join keys; fields are matched to keys by name, ignoring case.
        static: Other conditions on partition values.
    """

    def __init__(
        self,
        partition_schema: pa.Schema,
        filters: Iterable[DynamicFilteringData] = (),
        static: Sequence[PartitionFilter] = (),
    ) -> None:
        self._schema = {field.name.lower(): field for field in partition_schema}
        self._matchers: list[list[_Matcher]] = []
        self._static = tuple(static)
        self.filters: tuple[AppliedFilter, ...]
        """How each filter is used: the join keys in the order given, then the static ones."""
        applied = []
        empty = False
        for data in filters:
            matchers, used = self._compile(data)
            self._matchers.append(matchers)
            applied.append(used)
            empty = empty or data.is_empty
        self.matches_nothing = empty
        """An empty filter: nothing has to be listed at all."""
        applied += [AppliedFilter(s.fields, s.describe(), 0, s.fields, None) for s in self._static]
        self.filters = tuple(applied)

    @property
    def keys(self) -> frozenset[str]:
        """The partition keys that pruning depends on, in lower case."""
        return frozenset(key.lower() for used in self.filters for key in used.used_fields)

    def match(self, values: pa.RecordBatch) -> pa.BooleanArray:
        """True for each partition that may matter.

        Args:
            values: A column per partition key or, for a connector that walks key by key, of the
                keys known so far: what needs another key then keeps everything.
        """
        return self.match_each(values).together

    def match_each(self, values: pa.RecordBatch) -> Matches:
        """What each of :attr:`filters` keeps on its own, and all of them together."""
        present = {name.lower(): i for i, name in enumerate(values.schema.names)}
        columns = {
            key: parse(values.column(present[key]), self._schema[key])
            for key in {k for matchers in self._matchers for m in matchers for k in m.keys}
            if key in present
        }
        masks = []
        for matchers in self._matchers:
            mask = pa.repeat(True, values.num_rows)
            for matcher in matchers:
                if all(key in columns for key in matcher.keys):
                    mask = pc.and_(mask, _keep_undecided(matcher, columns))
            masks.append(mask)
        for static in self._static:
            mask = pa.repeat(True, values.num_rows)
            if all(field.lower() in present for field in static.fields):
                mask = pc.fill_null(static.match(values), True)
            masks.append(mask)
        together = pa.repeat(not self.matches_nothing, values.num_rows)
        for mask in masks:
            together = pc.and_(together, mask)
        undecided = {
            self._schema[key].name: pc.sum(column.undecided).as_py()
            for key, column in columns.items()
            if column.undecided is not None
        }
        return Matches(together, tuple(masks), undecided)

    def _compile(self, data: DynamicFilteringData) -> tuple[list[_Matcher], AppliedFilter]:
        reasons: list[str] = []
        matchers: list[_Matcher] = []
        foreign = [f for f in data.fields if f.lower() not in self._schema]
        if foreign:
            reasons.append(f"{', '.join(foreign)}: no partition key")
        elif not data.domains:
            reasons.append("too many keys" if data.exceeds_threshold else "it bounds nothing")
        for domain in data.domains:
            matcher = self._compile_domain(domain, reasons)
            if matcher is not None:
                matchers.append(matcher)
        used = tuple(
            dict.fromkeys(self._schema[key].name for matcher in matchers for key in matcher.keys)
        )
        return matchers, AppliedFilter(
            data.fields, data.describe(), data.nbytes, used, "; ".join(reasons) or None
        )

    def _compile_domain(self, domain: Domain, reasons: list[str]) -> _Matcher | None:
        fields = [f for f in domain.fields if f.lower() in self._schema]
        if not fields:
            return None
        if isinstance(domain, RangeDomain):
            return self._compile_range(domain, reasons)
        return self._compile_values(domain, fields, reasons)

    def _compile_values(
        self, domain: ValueDomain, fields: Sequence[str], reasons: list[str]
    ) -> _Matcher | None:
        columns: dict[str, pa.Array] = {}
        matchable = pa.repeat(True, domain.rows.num_rows)
        for name in fields:
            key = self._schema[name.lower()]
            keys = _one_array(domain.rows[name])
            coerced = coerce(keys, key)
            if coerced is None:
                reasons.append(f"{name}: {keys.type} is not compared with {key.type} exactly")
                continue
            columns[key.name.lower()] = coerced.values
            matchable = pc.and_(matchable, coerced.matchable)
        if not columns:
            return None
        rows = distinct(pa.table(columns).filter(matchable))
        return _ValueMatcher(tuple(columns), tuple(_one_array(column) for column in rows.columns))

    def _compile_range(self, domain: RangeDomain, reasons: list[str]) -> _Matcher | None:
        key = self._schema[domain.field.name.lower()]
        if (
            not is_char(key)  # padding changes the order
            and _same_order(domain.field.type, key.type)
        ):
            return _RangeMatcher(
                (key.name.lower(),), domain.lower, domain.upper, domain.includes_null
            )
        reasons.append(f"{key.name}: a range of {domain.field.type} says nothing of {key.type}")
        return None


def _same_order(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether Arrow compares the two types as Spark does, without losing digits."""
    return bool(
        one == other
        or (pa.types.is_integer(one) and pa.types.is_integer(other))
        or (pa.types.is_timestamp(one) and pa.types.is_timestamp(other) and one.tz and other.tz)
    )


def _keep_undecided(matcher: _Matcher, columns: Mapping[str, TypedValues]) -> pa.BooleanArray:
    mask = matcher.match(columns)
    for key in matcher.keys:
        undecided = columns[key].undecided
        if undecided is not None:
            mask = pc.or_(mask, undecided)
    return mask


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
