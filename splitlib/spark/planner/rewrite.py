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
from splitlib.spark.jvm.catalyst import Catalyst, each
from splitlib.spark.jvm.pinned_relation import PINNED_ROOT
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.logical_plan import Path, parse_plan
from splitlib.spark.planner.lineage import RELATIONS

_FILES = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"


def rewritten_query(
    catalyst: Catalyst, df: DataFrame, analyzed: Any, new: Mapping[Path, Any]
) -> DataFrame:
    """A query with other nodes at some paths, which still names the relations that it had.

    Args:
        catalyst: Of the session.
        df: The query.
        analyzed: Its plan, in which what is cached may be read from there.
        new: Nodes by path.
    """
    # those that subqueries read are not looked for by Spark either
    place = next((path for path in new if all(step >= 0 for step in path)), None)
    if place is not None:
        new = {**new, place: catalyst.beside(new[place], _relations(catalyst, df))}
    return catalyst.dataframe(catalyst.replaced(analyzed, new))


def refresh(df: DataFrame) -> None:
    """Let Spark list again what it has listed for the relations of a query.

    Raises:
        ConfigError: if files are given in it, which are not listed.
    """
    if internals_unavailable(df.sparkSession) is not None:
        return  # on Spark Connect a query is analyzed whenever it runs
    catalyst = Catalyst(df.sparkSession)
    execution: Any = df._jdf.queryExecution()
    plan = execution.analyzed()
    leaves = [node for node in parse_plan(plan.toJSON()).walk() if node.kind == "LogicalRelation"]
    relations = [catalyst.node(plan, leaf.path) for leaf in leaves]
    if any(_is_pinned(catalyst, relation) for relation in relations):
        raise ConfigError(
            "The query reads files that were selected before it was optimized.",
            hint="give replan what load() returned, and repeat the steps that followed.",
        )
    for relation in relations:
        relation.refresh()


def is_command(df: DataFrame) -> bool:
    """Whether ``df`` is the result of a command, or may be: it would not be run twice."""
    if internals_unavailable(df.sparkSession) is not None:
        return True
    execution: Any = df._jdf.queryExecution()
    # a command may stand below others, as in WITH … INSERT
    return not execution.commandExecuted().fastEquals(execution.analyzed())


def _relations(catalyst: Catalyst, df: DataFrame) -> list[Any]:
    """The relations among the leaves of a query, each once."""
    execution: Any = df._jdf.queryExecution()
    found = []
    seen = catalyst.seq([])
    for leaf in each(execution.analyzed().collectLeaves()):
        if leaf.nodeName().partition(" ")[0] not in RELATIONS or _is_pinned(catalyst, leaf):
            continue
        same = leaf.canonicalized()
        if not seen.contains(same):
            seen = seen.prepended(same)
            found.append(leaf)
    return found


def _is_pinned(catalyst: Catalyst, leaf: Any) -> bool:
    """Whether a leaf reads given files, whatever becomes of the table."""
    if leaf.nodeName() == "HiveTableRelation" or not catalyst.is_a(leaf.relation(), _FILES):
        return False
    return str(leaf.relation().location().rootPaths().mkString(" ")).startswith(PINNED_ROOT)
