"""Whether a DataFrame gives the same rows each time it is computed."""

from __future__ import annotations

import contextlib
import io
import re
import threading

from pyspark.sql import DataFrame, SparkSession

from splitlib.spark.jvm.plan_text import plan_text
from splitlib.spark.jvm.probe import internals_unavailable

# Operators whose rows depend on the order in which others happen to arrive. A LIMIT below an ORDER
# BY is among them: nothing says that the order has no ties. A sample of all rows is not.
_ARRIVAL = re.compile(
    r"^[\s:+|\-]*(GlobalLimit|LocalLimit|Offset|Tail|Sample(?! 0\.0, 1\.0, false\b)|Deduplicate)\b",
    re.MULTILINE,
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


# Operators that call Python, of whose functions a plan's text does not say what they depend on.
_PYTHON = re.compile(r"\b\w*(EvalPython|InPandas|InArrow|PythonUDTF)")
_printing = threading.Lock()


def why_not_deterministic(df: DataFrame) -> str | None:
    """Why ``df`` may give other rows when it is computed again; None if it gives the same.

    Without Spark's internals there is the text of a plan alone: there a name such as ``rand(``
    inside a literal is taken for the function. Over Spark Connect a Python UDF is believed to be
    deterministic.
    """
    if df.isStreaming:
        return "it is a stream"
    if internals_unavailable(df.sparkSession) is None:
        plan = plan_text(df)
        if plan.volatile is not None:
            return plan.volatile
        text, calls = plan.operators, _ORDERED.search(plan.aggregates)
    else:
        everything = explained(df)
        if isinstance(df.sparkSession, SparkSession) and _PYTHON.search(everything):
            return "it calls Python, whose functions may not be deterministic"
        text = everything.partition("== Analyzed Logical Plan ==")[2]
        text = text.partition("== Optimized")[0]
        calls = _VOLATILE.search(text) or _ORDERED.search(text)
    if calls:
        return f"it calls {calls[1].lower()}()"
    arrival = _ARRIVAL.search(text)
    if arrival:
        return f"{arrival[1]} takes whatever rows arrive first"
    return None


def explained(df: DataFrame) -> str:
    """What ``df.explain`` prints, by whichever class of DataFrame."""
    session: object = df.sparkSession
    if not isinstance(session, SparkSession):
        text: str = df._explain_string(extended=True)  # type: ignore[operator]  # of Connect
        return text
    # what is printed goes to a file of the whole process
    with _printing, contextlib.redirect_stdout(io.StringIO()) as printed:
        df.explain(extended=True)
    return printed.getvalue()
