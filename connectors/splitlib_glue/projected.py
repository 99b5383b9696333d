"""Compute the partitions of a table with Athena's partition projection, without any request."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import compress
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import TooManyPartitions, UnsupportedTable
from splitlib.filtering.matchers import RangeMatcher
from splitlib.filtering.partition_names import bound_values
from splitlib.hive.partition_values import NULL_PARTITION
from splitlib.hive.projection import InjectedProjected, Projected, Projection
from splitlib.spi import Predicate

MOST_TEXTS: Final = 100_000
"""Maximum number of values of a key that are filtered before they are combined with the values of
other keys. The values of a key with more values are filtered only in combinations."""
BLOCK: Final = 1 << 16
"""Number of combinations of key values that are filtered at a time."""
_MOST_PARTITIONS: Final = 1 << 28  # some minutes of computation


def list_projected(
    projection: Projection, keys: pa.Schema, predicate: Predicate, now: datetime
) -> Iterator[tuple[pa.RecordBatch, pa.StringArray]]:
    """Yield batches of projected partitions: their values as strings, and their locations.

    The predicate first filters the values of each key. Only combinations of the remaining values
    are computed.

    Args:
        projection: The projection of the table.
        keys: The partition keys with the table's types.
        predicate: The predicate on partitions.
        now: The current time in UTC, without a time zone.

    Raises:
        UnsupportedTable: if the predicate does not determine the values of an ``injected`` key.
        TooManyPartitions: if there are more than 2**28 combinations of values.
    """
    if predicate.matches_nothing:
        return
    columns = [
        _Column(key, values, predicate)
        for key, values in zip(keys, projection.values(now), strict=True)
    ]
    counts = [column.count for column in columns]
    total = math.prod(counts)
    if total > _MOST_PARTITIONS:
        raise TooManyPartitions(
            f"{total:,} projected partitions may match the filters. The limit is "
            f"{_MOST_PARTITIONS:,}.",
            hint="filter by more partition keys.",
        )
    for begin in range(0, total, BLOCK):
        block = np.arange(begin, min(begin + BLOCK, total))
        rows = np.unravel_index(block, counts)
        texts = [column.texts(at) for column, at in zip(columns, rows, strict=True)]
        values = pa.RecordBatch.from_arrays(texts, names=keys.names)
        kept = pc.indices_nonzero(predicate.match(values))
        if len(kept):
            chosen = [at[kept.to_numpy()] for at in rows]
            places = [column.in_location(at) for column, at in zip(columns, chosen, strict=True)]
            locations = map(projection.location, zip(*places, strict=True))
            yield values.take(kept), pa.array(list(locations), pa.string())


class _Column:
    """The projected values of one partition key that a predicate may match."""

    def __init__(self, key: pa.Field, values: Projected, predicate: Predicate) -> None:
        self._values, self._numbers = _candidates(key, values, predicate)
        self._texts: pa.StringArray | None = None
        if self.count <= MOST_TEXTS:
            texts = self._written(self._numbers)
            kept = predicate.match(pa.RecordBatch.from_arrays([texts], names=[key.name]))
            self._numbers = list(compress(self._numbers, kept.to_pylist()))
            self._texts = texts.filter(kept)

    @property
    def count(self) -> int:
        """Number of values."""
        numbers = self._numbers
        # Compute the length, because len() raises OverflowError for very large ranges.
        return numbers.stop - numbers.start if isinstance(numbers, range) else len(numbers)

    def texts(self, rows: npt.NDArray[np.int64]) -> pa.StringArray:
        """Return the values at the positions ``rows`` as strings."""
        if self._texts is not None:
            return self._texts.take(pa.array(rows))
        return self._written([self._numbers[row] for row in rows.tolist()])

    def _written(self, numbers: Iterable[int]) -> pa.StringArray:
        texts = pa.array(map(self._values.text, numbers), pa.string())
        return pc.if_else(pc.equal(texts, NULL_PARTITION), None, texts)

    def in_location(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """Return the values at the positions ``rows`` as they appear in partition locations."""
        return [self._values.in_location(self._numbers[row]) for row in rows.tolist()]


def _candidates(
    key: pa.Field, values: Projected, predicate: Predicate
) -> tuple[Projected, Sequence[int]]:
    """Return a key's projection, and the indexes of its values that a predicate may match."""
    bound = bound_values(predicate, key.name)
    if isinstance(values, InjectedProjected):
        if bound is None:
            raise UnsupportedTable(
                f"The values of partition key {key.name!r} are not known: its projection is "
                "injected.",
                hint=f"filter by values of {key.name!r}.",
            )
        values = InjectedProjected(tuple(sorted(set(bound.drop_null().to_pylist()))))
    elif bound is not None and values.position is not None:
        numbers = map(values.position, _representable(bound))
        return values, sorted({number for number in numbers if number is not None})
    elif values.value is not None:
        return values, _between(values, predicate, key.name.lower())
    return values, range(values.count)


def _between(values: Projected, predicate: Predicate, key: str) -> range:
    """Return the range of indexes of the projected values that may match all range filters.

    These values lie between the lowest and the highest bound of each filter.
    """
    first, end, value = 0, values.count, values.value
    assert value is not None
    for matcher in predicate.matchers:
        if isinstance(matcher, RangeMatcher) and matcher.keys == (key,):
            low, high = matcher.ranges.lower[:1], matcher.ranges.upper[-1:]
            for lower in _representable(low):
                first = max(first, _count_while(lambda n, v=lower: value(n) < v, end))
            for upper in _representable(high):
                end = min(end, _count_while(lambda n, v=upper: value(n) <= v, end))
    return range(first, max(first, end))


def _count_while(holds: Any, count: int) -> int:
    """Return the first number for which ``holds`` is false, or ``count`` if there is none.

    Args:
        holds: A condition. If it is true for a number, it is true for all smaller numbers.
        count: Exclusive upper limit of the numbers, which start at 0.
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if holds(middle) else (low, middle)
    return low


def _representable(values: pa.Array) -> list[Any]:
    """Return the values as Python objects, without nulls and dates that Python cannot represent."""
    if pa.types.is_date32(values.type):
        ends = (pa.scalar(end, values.type) for end in (date.min, date.max))
        low, high = ends
        within = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
        values = values.filter(within)
    return list(values.drop_null().to_pylist())
