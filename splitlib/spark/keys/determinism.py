"""Whether a DataFrame gives the same rows each time it is computed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from splitlib.spark.jvm.gateway import jvm_of

# Operators whose rows depend on the order in which others happen to arrive. A LIMIT below an ORDER
# BY is among them: nothing says that the order has no ties.
_ARRIVAL = re.compile(
    r"^[\s:+|\-]*(GlobalLimit|LocalLimit|Offset|Tail|Sample|Deduplicate)\b", re.MULTILINE
)
# Functions whose result depends on that order, and which Spark believes to be deterministic.
_ORDERED = re.compile(
    r"\b(first|last|any_value|first_value|last_value|nth_value|collect_list|collect_set|mode"
    r"|array_agg|row_number|ntile|lag|lead)\(",
    re.IGNORECASE,
)
# Functions that differ between two computations, where only the plan's text can be read.
_VOLATILE = re.compile(
    r"\b(rand|randn|uuid|shuffle|monotonically_increasing_id|spark_partition_id|input_file_name"
    r"|current_timestamp|current_date|current_time|localtimestamp|now)\(",
    re.IGNORECASE,
)


def why_not_deterministic(df: DataFrame) -> str | None:
    """Why ``df`` may give other rows when it is computed again; None if it gives the same.

    Spark Connect shows a plan as text only: there a name such as ``rand(`` inside a literal is
    taken for the function, and a Python UDF is believed to be deterministic.
    """
    if df.isStreaming:
        return "it is a stream"
    jdf: Any = getattr(df, "_jdf", None)
    if jdf is None:
        text = df._explain_string(extended=True)  # type: ignore[operator]  # of Connect
        text = text.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized")[0]
        calls = _VOLATILE.search(text) or _ORDERED.search(text)
    else:
        plan = jdf.queryExecution().analyzed()
        jvm = jvm_of(df.sparkSession.sparkContext._gateway)
        patterns = jvm.class_("org.apache.spark.sql.catalyst.trees.TreePattern")
        if not plan.deterministic():
            return "it calls a function that is not deterministic"
        if plan.containsPattern(patterns.CURRENT_LIKE()):
            return "it asks for the current time"
        text = plan.treeString()
        calls = _ORDERED.search("\n".join(_expressions(plan)))
    if calls:
        return f"it calls {calls[1].lower()}()"
    arrival = _ARRIVAL.search(text)
    if arrival:
        return f"{arrival[1]} takes whatever rows arrive first"
    return None


def _expressions(plan: Any) -> Iterator[str]:
    """The aggregates and windows of a plan as text; a plan's own text leaves out long lists."""
    if plan.nodeName() in ("Aggregate", "Window"):
        expressions = plan.expressions().iterator()
        while expressions.hasNext():
            yield expressions.next().toString()
    children = plan.children()
    for i in range(children.size()):
        yield from _expressions(children.apply(i))
