"""Which keys can be compared outside of Spark: those whose equality is that of the bare values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from splitlib.spark.logical_plan import Expression
from splitlib.spark.planner.join_graph import JoinFilter

_PLAIN: Final = re.compile(
    r"binary|boolean|byte|date|decimal\(\d+,-?\d+\)|double|float|integer|long|short|timestamp"
    r"|timestamp_ntz"
)


class TypeNames(NamedTuple):
    """Spark's two names of a data type."""

    name: str
    """``typeName``, such as ``integer``."""
    in_catalog: str
    """``catalogString``, such as ``int``."""


TypeOf = Callable[[Expression], TypeNames]
"""The type of an expression of the optimized plan."""


def comparable(
    join_filter: JoinFilter, type_of: TypeOf
) -> tuple[JoinFilter | None, tuple[str, ...]]:
    """The filter without what only Spark can compare, None if nothing is left; and why, as clauses.

    Args:
        join_filter: What a join implies.
        type_of: Asked where the plan's JSON does not tell.
    """
    kept = []
    reasons: dict[str, None] = {}
    for comparison in join_filter.comparisons:
        kinds = [_other_kind(side, type_of) for side in (comparison.key, comparison.target)]
        if kinds == [None, None]:
            kept.append(comparison)
        else:
            reasons[f"keys of type {kinds[0] or kinds[1]} are not compared"] = None
    left = replace(join_filter, comparisons=tuple(kept)) if kept else None
    return left, tuple(reasons)


def _other_kind(side: Expression, type_of: TypeOf) -> str | None:
    """The type of a side, if it is none whose values can be compared as they are."""
    if side.kind in ("AttributeReference", "Cast") and _PLAIN.fullmatch(
        str(side.fields.get("dataType"))
    ):
        return None
    # a plan's JSON does not tell collations apart
    kind = type_of(side)
    return None if kind.name == "string" or _PLAIN.fullmatch(kind.name) else kind.in_catalog
