"""A filter for several readers of one table: the union of their predicates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.filtering.predicate import Predicate


class AnyOf:
    """Keeps partitions that at least one of some predicates keeps.

    A :class:`splitlib.filtering.predicate.PartitionFilter`.

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
        """Return true where a partition may match."""
        return reduce(pc.or_, (predicate.match(values) for predicate in self.predicates))
