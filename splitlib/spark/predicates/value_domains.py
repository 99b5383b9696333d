"""Convert sets of values to the domains that prune files and partitions: values or a range.

In the sets, numbers, dates and times are integers in their smallest unit. Floats are pairs that
sort NaN after all other values, as Spark does. Strings and bytes represent themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa

from splitlib.filtering.domains import Domain, RangeDomain, ValueDomain, has_range
from splitlib.filtering.key_rows import distinct
from splitlib.filtering.ranges import Ranges
from splitlib.spark.predicates.value_sets import NOT_NULL, Cut, ValueSet

_WIDE: Final = Context(prec=100)


def key_of(value: Any, kind: pa.DataType) -> Any:
    """Represent a value of type ``kind`` for use in a set. Dates and times are given as numbers."""
    if pa.types.is_floating(kind):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    if pa.types.is_decimal(kind):
        return int(_WIDE.scaleb(value, kind.scale))
    return int(value) if _is_discrete(kind) else value


def domain_of(values: ValueSet, field: pa.Field) -> Domain | None:
    """Return a domain that covers the values; None if all values are possible.

    The domain is wider than the set if an interval excludes its end, and the type has no next
    value to use instead.
    """
    kind = field.type
    ends = [_closed(interval, kind) for interval in values.intervals if _has_room(interval, kind)]
    ends = [(low, high) for low, high in ends if low is None or high is None or low <= high]
    if all(low is not None and low == high for low, high in ends):
        keys = [low for low, _ in ends]
        array = _array([*keys, *([None] if values.null else [])], kind)
        return ValueDomain(distinct(pa.table({field.name: array})))
    # Statistics of float columns ignore NaN.
    if not has_range(kind) or (ends == [(None, None)] and values != NOT_NULL):
        return None
    lower, upper = (_array(keys, kind) for keys in zip(*ends, strict=True))
    if lower[1:].null_count or upper[:-1].null_count:
        lower, upper = lower[:1], upper[-1:]
    return RangeDomain(field.remove_metadata(), Ranges(lower, upper), values.null)


def is_exact(values: ValueSet, domain: Domain | None) -> bool:
    """Whether a domain made from ``values`` contains exactly these values."""
    if isinstance(domain, RangeDomain):
        # Only discrete types have a next and a previous value. The extreme values have no neighbor.
        open_ends = [len(cut) == 1 for interval in values.intervals for cut in interval]
        known = [not end.is_valid for ends in domain.ranges for end in ends]
        return open_ends == known and (_is_discrete(domain.field.type) or all(known))
    return isinstance(domain, ValueDomain)


def _has_room(interval: tuple[Cut, Cut], kind: pa.DataType) -> bool:
    """Whether an interval of text has values. Between a text and its successor there are none."""
    low, high = interval
    is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
    if not is_text or (low[-1], high[-1]) != (1, 0):  # includes one of its ends
        return True
    return bool(_closed(interval, kind)[0] != high[1])


def _closed(interval: tuple[Cut, Cut], kind: pa.DataType) -> tuple[Any, Any]:
    """Return the first and last value of an interval; None = open end."""
    low, high = interval
    if pa.types.is_boolean(kind):
        first = 0 if len(low) == 1 else low[1] + low[2]
        last = 1 if len(high) == 1 else high[1] - 1 + high[2]
        # Both values together are one range without ends, not two intervals.
        return (first, last) if first == last or first > last else (None, None)
    first, last = (None if len(cut) == 1 else cut[1] for cut in interval)
    if _is_discrete(kind):
        first = first + low[2] if first is not None else None
        last = last - 1 + high[2] if last is not None else None
    elif low[-1] == 1 and first is not None and not pa.types.is_floating(kind):
        first = first + ("\0" if pa.types.is_string(kind) else b"\0")
    return first, last


def _array(keys: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert keys to Arrow values. Keys outside the range of the type become null."""
    if pa.types.is_floating(kind):
        return pa.array([k and (math.nan if k[0] else k[1]) for k in keys], kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if k is None else _decimal(k, kind) for k in keys], kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if k is None else bool(k) for k in keys], kind)
    if _is_discrete(kind):
        ticks = kind if pa.types.is_integer(kind) else pa.int32()
        ticks = pa.int64() if pa.types.is_timestamp(kind) else ticks
        bound = 2 ** (ticks.bit_width - 1)
        within = [k if k is not None and -bound <= k < bound else None for k in keys]
        return pa.array(within, ticks).cast(kind)
    return pa.array(keys, kind)


def _decimal(key: int, kind: pa.DataType) -> Decimal | None:
    fits = len(str(abs(key))) <= kind.precision
    return _WIDE.scaleb(Decimal(key), -kind.scale) if fits else None


def _is_discrete(kind: pa.DataType) -> bool:
    """Whether each value has a next value, as integers and dates do."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    )
