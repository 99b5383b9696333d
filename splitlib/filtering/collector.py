"""Collect join keys in limited memory: keep values, or only ranges if there are too many keys."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.tables import values_nbytes
from splitlib.errors import ConfigError, InvalidFilter
from splitlib.filtering.data import DynamicFilteringData, passed_limit
from splitlib.filtering.domains import (
    Domain,
    RangeDomain,
    Ranges,
    ValueDomain,
    has_range,
    in_order,
    plain_rows,
    plain_schema,
    rows_of,
    unique,
)

# Batches are merged with the kept keys only when the batches together are larger than this value
# and than the kept keys. So each key is deduplicated only a few times, even if batches are small.
WAITING_BYTES = 4 * 2**20


class DynamicFilteringDataCollector:
    """Collects distinct join keys in limited memory.

    Args:
        schema: Key fields, named like the columns of the added batches.
        threshold_bytes: Maximum size of the distinct keys, in bytes; 0 or less means no limit.
        max_values: Maximum number of distinct keys; None means no limit.
        on_exceed: Behaviour when a limit is exceeded. ``range`` keeps each field's values or, if
            there are too many, their minimum and maximum. ``all`` keeps nothing, so the filter
            prunes nothing.
        null_safe: Whether to keep keys that contain a null, for joins by ``<=>``. Joins by ``=`` do
            not need them.

    Raises:
        ConfigError: if a limit or ``on_exceed`` is not one of the values above.
        InvalidFilter: if ``schema`` has no fields, a repeated name, or an unsupported type.
    """

    def __init__(
        self,
        schema: pa.Schema,
        threshold_bytes: int = 32 * 2**20,
        max_values: int | None = None,
        on_exceed: str = "range",
        *,
        null_safe: bool = False,
    ) -> None:
        if on_exceed not in ("range", "all"):
            raise ConfigError(f"on_exceed must be 'range' or 'all', not {on_exceed!r}.")
        if not isinstance(threshold_bytes, int):
            raise ConfigError(f"threshold_bytes must be int, not {threshold_bytes!r}.")
        if max_values is not None and (not isinstance(max_values, int) or max_values < 1):
            raise ConfigError(f"max_values must be at least 1 or None, not {max_values!r}.")
        self._schema = plain_schema(schema)
        self._threshold_bytes = threshold_bytes
        self._max_values = max_values
        self._on_exceed = on_exceed
        self._null_safe = null_safe
        self._passed_limit = ""
        # If no limit is exceeded, this list has one table with all fields. Otherwise, it has a
        # table with one field for each field whose values are still within the limits.
        self._values = [self._schema.empty_table()]
        self._ranges: dict[str, RangeDomain] = {}
        self._waiting: list[pa.Table] = []
        """Batches that are not yet merged. A merge after every batch would take quadratic time."""
        self._waiting_bytes = 0

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add the keys in one batch. Columns other than the key fields are ignored.

        Raises:
            InvalidFilter: if a field is missing, or cannot be converted to its type without loss.
        """
        if self._passed_limit and not self._values and not self._ranges:
            return
        table = rows_of(batch)
        try:
            given = plain_rows(table.select(self._schema.names))
            rows = given.cast(self._schema)
        except (KeyError, pa.ArrowException) as error:
            raise InvalidFilter(
                f"The batch does not match the fields {self._schema.names}.",
                hint="it needs a column for each field, whose values fit the field's type.",
            ) from error
        for before, after in zip(given.itercolumns(), rows.itercolumns(), strict=True):
            if _is_rounded(before, after):
                raise InvalidFilter(
                    f"{before.type} keys cannot be converted to {after.type} without loss."
                )
        if not self._null_safe:
            rows = rows.drop_null()
        self._waiting.append(rows)
        self._waiting_bytes += values_nbytes(rows)
        if self._waiting_bytes > max(WAITING_BYTES, sum(map(values_nbytes, self._values))):
            self._take_in(more_may_follow=True)

    def finish(self) -> DynamicFilteringData:
        """Return the filtering data for all added keys."""
        self._take_in(more_may_follow=False)
        domains: list[Domain] = [ValueDomain(in_order(rows)) for rows in self._values]
        domains += self._ranges.values()
        return DynamicFilteringData(
            self._schema,
            domains,
            exceeds_threshold=bool(self._passed_limit),
            passed_limit=self._passed_limit,
        )

    def _take_in(self, *, more_may_follow: bool) -> None:
        """Merge the waiting batches into the kept values and ranges, within the limits."""
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        for name, domain in self._ranges.items():
            self._ranges[name] = _widen(domain, rows[name])
        self._values = [
            unique(pa.concat_tables([kept, rows.select(kept.column_names)]))
            for kept in self._values
        ]
        if not self._passed_limit and (limit := self._too_large(is_least=more_may_follow)):
            self._passed_limit = limit
            single = self._values[0]
            self._values = []
            if self._on_exceed == "range":
                self._values = [unique(single.select([name])) for name in single.column_names]
        while self._passed_limit and self._too_large():
            most = self._max_values
            many = [rows for rows in self._values if most is not None and rows.num_rows > most]
            self._degrade(max(many or self._values, key=values_nbytes))

    def _too_large(self, *, is_least: bool = True) -> str:
        """Return a clause that names the limit that the kept values exceed, or an empty string."""
        size = sum(values_nbytes(rows) for rows in self._values)
        most = max((rows.num_rows for rows in self._values), default=0)
        return passed_limit(most, size, self._max_values, self._threshold_bytes, is_least=is_least)

    def _degrade(self, rows: pa.Table) -> None:
        self._values = [kept for kept in self._values if kept is not rows]
        field = rows.schema.field(0)
        if has_range(field.type):
            null = pa.scalar(None, field.type)
            nothing = RangeDomain(field, Ranges.between(null, null))
            self._ranges[field.name] = _widen(nothing, rows[field.name])


def _is_rounded(before: pa.ChunkedArray, after: pa.ChunkedArray) -> bool:
    """Return whether a cast to a float changed a value. Arrow checks only casts of integers."""
    if before.type == after.type or not pa.types.is_floating(after.type):
        return False
    if pa.types.is_decimal(before.type):
        # The text is the shortest that parses to the float. If it equals the decimal, the cast has
        # changed no digit.
        digits = [Decimal(repr(one)) for one in after.drop_null().to_pylist()]
        return bool(digits != before.drop_null().to_pylist())
    if not pa.types.is_floating(before.type):
        return False
    same = pc.or_(pc.equal(after.cast(before.type), before), pc.is_nan(before))
    return not pc.all(same, min_count=0).as_py()


def _widen(domain: RangeDomain, column: pa.ChunkedArray) -> RangeDomain:
    with_nulls = domain.includes_null or column.null_count > 0
    values = pa.chunked_array([domain.ranges.ends, *column.chunks])
    if pa.types.is_duration(column.type):  # Arrow does not compare durations
        values = values.cast(pa.int64())
    ends = pc.min_max(values)
    low, high = ends["min"].cast(column.type), ends["max"].cast(column.type)
    return RangeDomain(domain.field, Ranges.between(low, high), with_nulls)
