"""Column names that users pass: pairs of columns of a join, and qualified names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from splitlib.errors import InvalidFilter

_PAIRS = "on={'fact_column': 'dim_column'}"
# Matches one part of a column name: either text in backticks, or text up to the next dot.
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def given_pairs(on: Any) -> dict[str, str]:
    """Convert the argument ``on`` to a mapping from fact columns to key columns.

    Args:
        on: A mapping, one name, several names, or pairs of names. A single name means that
            the fact column and the key column both have this name.

    Raises:
        InvalidFilter: if ``on`` is empty or has another type.
    """
    if isinstance(on, str):
        return {on: on}
    if isinstance(on, Mapping):
        items = list(on.items())
    elif isinstance(on, Iterable) and not isinstance(on, bytes) and not _is_of_spark(on):
        items = [(item, item) if isinstance(item, str) else item for item in on]
    else:
        items = [on]
    if not items:
        raise InvalidFilter("'on' is empty.", hint=_PAIRS)
    pairs: dict[str, str] = {}
    for item in items:
        match item:
            case (str() as name, str() as column) if name not in pairs:
                pairs[name] = column
            case _:
                raise InvalidFilter(
                    f"'on' contains {_shown(item)}. Each item must be a pair of column names, and "
                    "each fact column may occur once.",
                    hint=_PAIRS,
                )
    return pairs


def _shown(item: Any) -> str:
    return f"a {type(item).__name__}" if _is_of_spark(item) else repr(item)


def _is_of_spark(value: Any) -> bool:
    return type(value).__module__.startswith("pyspark.")


def name_parts(name: str) -> list[str]:
    """Split a column name such as ``t.day`` at its dots. A part may be in backticks.

    Raises:
        InvalidFilter: if ``name`` is not a column name.
    """
    parts, end = [], -1
    while end < len(name):
        found = _PART.match(name, end + 1)
        if found is None or name[found.end() : found.end() + 1] not in ("", "."):
            raise InvalidFilter(
                f"{name!r} is not a column name.",
                hint="put a part that contains a dot or a backtick in backticks: `a.b`.",
            )
        parts.append(found[2] or found[1].replace("``", "`"))
        end = found.end()
    return parts
