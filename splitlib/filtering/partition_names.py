"""Compute the names of the partitions that a predicate can keep, so that only these are requested.

In a table with a million partitions, a metastore returns thirty partitions by name ten times as
fast as it lists all of them. It looks up partitions by the text of their values. So requests by
name are safe only if each value is always written in the same way. This is true for plain strings.
An integer may be written in several ways, such as ``k=05`` and ``k=5``. For integers and dates, the
user or a table property must guarantee that there is only one way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.filtering.domains import distinct
from splitlib.filtering.matchers import Matcher, ValueMatcher
from splitlib.filtering.predicate import AnyOf, Predicate

CANONICAL_VALUES: Final = "splitlib.canonical_values"
"""Table property with the same meaning as the connector option ``canonical_values``."""
# Characters that no version of Hive escapes in a partition name.
_PLAIN: Final = r"^[A-Za-z0-9_.\-]+$"
_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
# Maximum number of combinations of key values, before the predicate filters them.
_MOST_COMBINATIONS: Final = 100_000


def wanted(predicate: Predicate, keys: pa.Schema, *, canonical: bool) -> Iterator[pa.Table]:
    """Yield tables of text values that matching partitions can have in their leading keys.

    The first table has as many leading keys as possible. Each following table has one key less.
    Each table has distinct, sorted rows. Every partition that the predicate can keep has the values
    of one of these rows. Nothing is yielded if the predicate does not restrict the first key to a
    list of values, or if one of these values can be written in several ways.

    Args:
        predicate: The predicate on partitions.
        keys: The partition keys with the table's types.
        canonical: Whether integers and dates in partition values are always written as Spark
            writes them (``7``, never ``07``).
    """
    found: list[pa.RecordBatch] = []
    for alternative in _alternatives(predicate):
        combinations = _combinations(alternative, keys, canonical=canonical)
        if combinations is None:
            return
        found.append(combinations.filter(predicate.match(combinations)))
    for number in range(min(each.num_columns for each in found), 0, -1):
        names = keys.names[:number]
        yield distinct(pa.concat_tables([pa.Table.from_batches([f]).select(names) for f in found]))


def has_one_spelling(key: pa.Field, *, canonical: bool = False) -> bool:
    """Return whether each value of a partition key can be written in exactly one way.

    Args:
        key: The partition key with the table's type.
        canonical: Whether integers and dates in partition values are always written as Spark
            writes them (``7``, never ``07``).
    """
    if pa.types.is_string(key.type):
        return not key.metadata  # CHAR ignores trailing spaces, a collation may ignore case
    return canonical and (pa.types.is_integer(key.type) or pa.types.is_date(key.type))


def bound_values(predicate: Predicate, key: str) -> pa.Array | None:
    """Return the values of a partition key that the predicate can keep, in the key's type.

    None means that the predicate does not restrict the key to a list of values.
    """
    found = [_bound(matchers, key.lower()) for matchers in _alternatives(predicate)]
    bound = [values for values in found if values is not None]
    if len(bound) < len(found):
        return None
    return pc.unique(pa.concat_arrays(bound))


def plain_texts(values: pa.Array | None) -> pa.Array | None:
    """Return partition values as text, or None if a text needs escaping or ``values`` is None."""
    if values is None:
        return None
    texts = values.cast(pa.string())
    # Null is rejected too, because it has the same partition name as the empty string. A year after
    # 9999 is rejected, because Spark writes it with a sign, and Arrow without.
    form = _DATE if pa.types.is_date(values.type) else _PLAIN
    plain = pc.fill_null(pc.match_substring_regex(texts, form), False)
    return texts if pc.all(plain, min_count=0).as_py() else None


def rows_with(values: pa.RecordBatch, leading: Sequence[str]) -> pa.BooleanArray:
    """Return a mask of the partitions whose leading keys have exactly the values in ``leading``.

    Some catalogs treat ``.`` and ``_`` in a requested value as wildcards and return other
    partitions too.
    """
    exact = pa.repeat(True, values.num_rows)
    for column, value in zip(values.columns, leading, strict=False):
        exact = pc.and_(exact, pc.fill_null(pc.equal(column, value), False))
    return exact


def _alternatives(predicate: Predicate) -> list[tuple[Matcher, ...]]:
    """Return groups of matchers. A kept partition matches all matchers of at least one group."""
    for condition in predicate.static:
        if isinstance(condition, AnyOf):
            return [(*predicate.matchers, *one.matchers) for one in condition.predicates]
    return [predicate.matchers]


def _combinations(
    matchers: Sequence[Matcher], keys: pa.Schema, *, canonical: bool
) -> pa.RecordBatch | None:
    """Return all combinations of the leading keys' allowed values, as text, one per row.

    The result contains every combination that the predicate keeps, and possibly others. None means
    that the first key's values are not restricted, can be written in several ways, or are too many.
    """
    columns: list[pa.Array] = []
    for key in keys:
        texts = _texts(_bound(matchers, key.name.lower()), key, canonical=canonical)
        if texts is None or math.prod(map(len, [*columns, texts])) > _MOST_COMBINATIONS:
            break
        columns.append(texts)
    return _product(columns, keys.names) if columns else None


def _bound(matchers: Sequence[Matcher], key: str) -> pa.Array | None:
    """Return the shortest list of values to which a matcher restricts ``key``, or None."""
    found = [
        pc.unique(matcher.rows[matcher.keys.index(key)])
        for matcher in matchers
        if isinstance(matcher, ValueMatcher) and key in matcher.keys
    ]
    return min(found, key=len, default=None)


def _texts(values: pa.Array | None, key: pa.Field, *, canonical: bool) -> pa.Array | None:
    """Return ``values`` as text, or None if the metastore may contain other texts for them."""
    if values is None or not has_one_spelling(key, canonical=canonical):
        return None
    return plain_texts(values)


def _product(columns: list[pa.Array], names: list[str]) -> pa.RecordBatch:
    """Return every combination of the columns' values, with one combination per row."""
    rows = np.indices([len(column) for column in columns]).reshape(len(columns), -1)
    taken = [column.take(pa.array(at)) for column, at in zip(columns, rows, strict=True)]
    return pa.RecordBatch.from_arrays(taken, names=names[: len(columns)])
