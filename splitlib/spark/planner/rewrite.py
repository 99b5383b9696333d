"""What a rewritten query says that it reads: all that it read as it was written.

Before Spark overwrites a table it looks for it in the plan of the query, and by the relations in
the plan of a cached result it knows what makes that stale. A pruned scan is no longer the relation
that it was, and rows that were computed beforehand are none at all.
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
    """A query with other nodes at some paths, which still names the relations that it had.

    Args:
        catalyst: Of the session.
        df: The query.
        analyzed: Its plan, in which what is cached may be read from there.
        new: Nodes by path, in which nothing is left of what stood there.
        narrowed: Nodes by path, in which what stood there is read as before.
    """
    # those that subqueries read are not looked for by Spark either
    place = next((path for path in new if all(step >= 0 for step in path)), None)
    if place is not None:
        new = {**new, place: catalyst.beside(new[place], _relations(catalyst, df))}
    return catalyst.dataframe(catalyst.replaced(analyzed, {**new, **(narrowed or {})}))


def refresh(df: DataFrame) -> None:
    """Let Spark list again what it has listed for the relations of a query.

    Raises:
        ConfigError: if files are given in it, which are not listed.
    """
    if internals_unavailable(df.sparkSession) is not None:
        return  # on Spark Connect a query is analyzed whenever it runs
    catalyst = Catalyst(df.sparkSession)
    plan = analyzed_plan(df)
    nodes = catalyst.tree(plan).walk()
    leaves = [catalyst.node(plan, n.path) for n in nodes if n.kind == "LogicalRelation"]
    if any(catalyst.is_pinned(leaf) for leaf in leaves):
        raise ConfigError(
            "The query reads files that were selected before it was optimized.",
            hint="give replan what load() returned, and repeat the steps that followed.",
        )
    for leaf in leaves:
        catalyst.refresh(leaf)


def is_command(df: DataFrame) -> bool:
    """Whether ``df`` is the result of a command, or may be: it would not be run twice."""
    return internals_unavailable(df.sparkSession) is not None or ran_a_command(df)


def _relations(catalyst: Catalyst, df: DataFrame) -> list[Any]:
    """The relations that a query reads outside of its subqueries, each once."""
    relations = [
        leaf
        for leaf in catalyst.leaves(analyzed_plan(df))
        if catalyst.kind(leaf) in RELATIONS and not catalyst.is_pinned(leaf)
    ]
    return catalyst.distinct(relations)
