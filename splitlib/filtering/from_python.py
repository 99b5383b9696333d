"""Convert join keys given as Python values to Arrow, and reject ambiguous input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import pyarrow as pa

from splitlib.errors import InvalidFilter

_TEXT = (str, bytes, bytearray, memoryview)


def columns_of(values: Mapping[str, Iterable[Any]]) -> dict[str, pa.Array]:
    """Convert one sequence per field to one column per field.

    Raises:
        InvalidFilter: for values without a common Arrow type; for a single value, such as a text,
            instead of a sequence; for sets of several fields, whose values do not pair up.
    """
    _refuse_unnamed(values, "{'field': [value, …]}")
    columns = {}
    for name, given in values.items():
        if isinstance(given, (*_TEXT, Mapping, pa.Scalar)) or not isinstance(given, Iterable):
            # A text is iterable, but its characters are not meant.
            raise InvalidFilter(
                f"The values of {name!r} are not a sequence: {given!r}.",
                hint=f"pass {{{name!r}: [value, …]}}, also for a single value.",
            )
        if isinstance(given, Set) and len(values) > 1:
            raise InvalidFilter(
                f"The values of {name!r} are a set, which has no order to match other fields.",
                hint="pass a list per field, with the values of a tuple at the same index in each.",
            )
        try:
            columns[name] = pa.array(list(given) if isinstance(given, Set) else given)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidFilter(f"The values of {name!r} cannot form a column: {error}") from error
    return columns


def ends_of(ranges: Mapping[str, tuple[Any, Any]]) -> dict[str, tuple[pa.Scalar, pa.Scalar]]:
    """Convert a pair per field to lower and upper end, of one type; null is an open end.

    Raises:
        InvalidFilter: for anything but a pair of values with a common Arrow type.
    """
    _refuse_unnamed(ranges, "{'field': (lower, upper)}")
    found = {}
    for name, given in ranges.items():
        if isinstance(given, (*_TEXT, Mapping, Set)):
            raise _no_pair(name, given)
        try:
            low, high = pa.array(given)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise _no_pair(name, given) from error
        found[name] = (low, high)
    return found


def _no_pair(name: str, given: object) -> InvalidFilter:
    return InvalidFilter(
        f"The range of {name!r} is not a pair of values: {given!r}.",
        hint=f"pass {{{name!r}: (lower, upper)}}; None means an open end.",
    )


def _refuse_unnamed(given: object, example: str) -> None:
    if not isinstance(given, Mapping):
        raise InvalidFilter(
            f"A {type(given).__name__} has no field names.", hint=f"pass {example}."
        )
