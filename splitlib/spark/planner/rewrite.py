"""Rewrite a query so that its plan still contains all relations that the query reads.

Spark uses the relations of a plan for two checks. Before it overwrites a table, it checks that the
query does not read the table. After a table changes, it drops the cached results that read the
table. Pruned scans and precomputed rows are not these relations, so the relations are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from splitlib.errors import ConfigError
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan, ran_a_command
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.logical_plan import Path
from splitlib.spark.planner.lineage import RELATIONS


def rewritten_query(
    catalyst: Catalyst,
    df: DataFrame,
    analyzed: Any,
    new: Mapping[Path, Any],
    narrowed: Mapping[Path, Any] | None = None,
) -> DataFrame:
    """Replace nodes of a query, and keep its original relations in the plan.

    Args:
        catalyst: Catalyst of the session.
        df: The query.
        analyzed: Analyzed plan of the query, which may read cached results.
        new: New nodes by path that do not contain the relation that they replace.
        narrowed: New nodes by path that still contain the relation that they replace.
    """
    # The relations are added outside of subqueries only, as Spark does not search subqueries.
    place = next((path for path in new if all(step >= 0 for step in path)), None)
    if place is not None:
        new = {**new, place: catalyst.beside(new[place], _relations(catalyst, df))}
    return catalyst.dataframe(catalyst.replaced(analyzed, {**new, **(narrowed or {})}))


def refresh(df: DataFrame) -> None:
    """Make Spark list the files of all relations of a query again.

    Raises:
        ConfigError: if the query reads pinned files, which cannot be listed again.
    """
    if internals_unavailable(df.sparkSession) is not None:
        return  # Spark Connect analyzes a query each time it runs
    catalyst = Catalyst(df.sparkSession)
    plan = analyzed_plan(df)
    nodes = catalyst.tree(plan).walk()
    leaves = [catalyst.node(plan, n.path) for n in nodes if n.kind == "LogicalRelation"]
    if any(catalyst.is_pinned(leaf) for leaf in leaves):
        raise ConfigError(
            "The query reads files that were selected before it was optimized.",
            hint="call replan on the result of load(), and repeat the steps that followed.",
        )
    for leaf in leaves:
        catalyst.refresh(leaf)


def is_command(df: DataFrame) -> bool:
    """Return whether ``df`` is, or may be, the result of a command, which must not run twice."""
    return internals_unavailable(df.sparkSession) is not None or ran_a_command(df)


def _relations(catalyst: Catalyst, df: DataFrame) -> list[Any]:
    """Return the distinct relations that a query reads outside of its subqueries."""
    relations = [
        leaf
        for leaf in catalyst.leaves(analyzed_plan(df))
        if catalyst.kind(leaf) in RELATIONS and not catalyst.is_pinned(leaf)
    ]
    return catalyst.distinct(relations)
