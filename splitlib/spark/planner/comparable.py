"""Find the join keys that can be compared outside of Spark.

Such keys are equal exactly if their plain values are equal. This excludes collated strings, for
example, which can be equal although they differ.
"""

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
    """The two names that Spark has for a data type."""

    name: str
    """Result of Spark's ``typeName``, such as ``integer``."""
    in_catalog: str
    """Result of Spark's ``catalogString``, such as ``int``."""


TypeOf = Callable[[Expression], TypeNames]
"""Function that returns the type of an expression of the optimized plan."""


def comparable(
    join_filter: JoinFilter, type_of: TypeOf
) -> tuple[JoinFilter | None, tuple[str, ...]]:
    """Drop the comparisons of a join filter that only Spark can evaluate.

    Args:
        join_filter: Filter that a join implies.
        type_of: Return the type of an expression. Called only if the plan's JSON is not enough.

    Returns:
        The remaining filter, None if no comparison remains; and the reasons, as clauses.
    """
    kept = []
    reasons: dict[str, None] = {}
    for comparison in join_filter.comparisons:
        kinds = [_other_kind(side, type_of) for side in (comparison.key, comparison.target)]
        if kinds == [None, None]:
            kept.append(comparison)
        else:
            reasons[f"keys of type {kinds[0] or kinds[1]} can only be compared by Spark"] = None
    left = replace(join_filter, comparisons=tuple(kept)) if kept else None
    return left, tuple(reasons)


def _other_kind(side: Expression, type_of: TypeOf) -> str | None:
    """Return the type of a side if its values cannot be compared outside of Spark, else None."""
    if side.kind in ("AttributeReference", "Cast") and _PLAIN.fullmatch(
        str(side.fields.get("dataType"))
    ):
        return None
    # The plan's JSON does not contain collations, so the JVM is needed.
    kind = type_of(side)
    return None if kind.name == "string" or _PLAIN.fullmatch(kind.name) else kind.in_catalog
