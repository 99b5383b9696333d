"""Check whether a DataFrame has the same rows each time it is computed."""

from __future__ import annotations

import contextlib
import io
import re
import threading

from pyspark.sql import DataFrame, SparkSession

from splitlib.spark.jvm.plan_text import plan_text
from splitlib.spark.jvm.probe import internals_unavailable

# Operators whose rows depend on the order of their input. LIMIT below ORDER BY is one of them,
# because the order may have ties. A sample of all rows is not.
_ARRIVAL = re.compile(
    r"^[\s:+|\-]*(GlobalLimit|LocalLimit|Offset|Tail|Sample(?! 0\.0, 1\.0, false\b)|Deduplicate"
    r"|AttachDistributedSequence)\b",
    re.MULTILINE,
)
# Operators that pass batches of rows to Python or to a script, which may be nondeterministic.
_FOREIGN = re.compile(
    r"^[\s:+|\-]*(ScriptTransformation|Map(?:Partitions)?In\w+|FlatMap(?:Co)?GroupsIn\w+)\b",
    re.MULTILINE,
)
# Functions that depend on the order of rows, although Spark treats them as deterministic.
_ORDERED = re.compile(
    r"\b(first|last|any_value|first_value|last_value|nth_value|collect_list|collect_set|mode"
    r"|array_agg|row_number|ntile|lag|lead|max_by|min_by|listagg|string_agg)\(",
    re.IGNORECASE,
)
# Functions whose result changes between computations. Used if only the text of the plan is known.
_VOLATILE = re.compile(
    r"\b(rand|randn|uuid|shuffle|monotonically_increasing_id|spark_partition_id|input_file_name"
    r"|current_timestamp|current_date|current_time|localtimestamp|now)\(",
    re.IGNORECASE,
)


# Operators that run Python functions. The text of a plan does not show whether those change.
_PYTHON = re.compile(r"\b\w*(EvalPython|InPandas|InArrow|PythonUDTF)")
_printing = threading.Lock()


def why_not_deterministic(df: DataFrame, *, trusts_foreign: bool = True) -> str | None:
    """Return why ``df`` may have different rows when computed again, or None if it is stable.

    Without Spark's internals, only the text of the plan is checked. There, ``rand(`` inside a
    string literal counts as a call. On Spark Connect, Python UDFs are assumed to be deterministic.

    Args:
        df: Any DataFrame.
        trusts_foreign: Assume that ``mapInPandas`` and similar operators are deterministic.
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
        return f"{arrival[1]} depends on the order of its input rows"
    foreign = None if trusts_foreign else _FOREIGN.search(text)
    if foreign:
        return f"{foreign[1]} may return different rows each time"
    return None


def explained(df: DataFrame) -> str:
    """Return the text that ``df.explain`` prints, for classic Spark and Spark Connect."""
    session: object = df.sparkSession
    if not isinstance(session, SparkSession):
        text: str = df._explain_string(extended=True)  # type: ignore[operator]  # of Connect
        return text
    # explain() prints to stdout, which the whole process shares.
    with _printing, contextlib.redirect_stdout(io.StringIO()) as printed:
        df.explain(extended=True)
    return printed.getvalue()
