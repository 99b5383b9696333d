"""Which keys can be compared outside of Spark: those whose equality is that of the bare values."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.logical_plan import Expression
from splitlib.spark.planner.join_graph import JoinFilter

_PLAIN: Final = re.compile(
    r"binary|boolean|byte|date|decimal\(\d+,-?\d+\)|double|float|integer|long|short|timestamp"
    r"|timestamp_ntz"
)


def comparable(
    catalyst: Catalyst, plan: Any, join_filter: JoinFilter
) -> tuple[JoinFilter | None, list[str]]:
    """The filter without what only Spark can compare, None if nothing is left; and why, as clauses.

    Args:
        catalyst: Of the session.
        plan: In which the comparisons stand.
        join_filter: What a join implies.
    """
    kept = []
    reasons: dict[str, None] = {}
    for comparison in join_filter.comparisons:
        kinds = [_other_kind(catalyst, plan, x) for x in (comparison.key, comparison.target)]
        if kinds == [None, None]:
            kept.append(comparison)
        else:
            reasons[f"keys of type {kinds[0] or kinds[1]} are not compared"] = None
    left = replace(join_filter, comparisons=tuple(kept)) if kept else None
    return left, list(reasons)


def _other_kind(catalyst: Catalyst, plan: Any, side: Expression) -> str | None:
    """The type of a side, if it is none whose values can be compared as they are."""
    if side.kind in ("AttributeReference", "Cast") and _PLAIN.fullmatch(
        str(side.fields.get("dataType"))
    ):
        return None
    # a plan's JSON does not tell collations apart
    kind = catalyst.expression_at(plan, side.place).dataType()
    name = str(kind.typeName())
    return None if name == "string" or _PLAIN.fullmatch(name) else str(kind.catalogString())
