"""Find out whether a DataFrame returns the same rows in every run.

Join keys are collected before the query runs. If the dimension returned other rows later, the join
would lose rows.
"""

from __future__ import annotations

import contextlib
import io
import re
import threading
from collections.abc import Iterator
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.conf import RuntimeConfig

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import JVM_ERRORS, analyzed_plan
from splitlib.spark.jvm.java_handles import Seq
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.scala import each
from splitlib.spark.jvm.spark_handles import CachedRdd, CatalystAttribute, LogicalPlan
from splitlib.spark.jvm.volatile import plan_text

# Operators whose output depends on the order of their input rows. LIMIT after ORDER BY is included,
# because the order may have ties. A sample that keeps all rows is excluded.
_ARRIVAL = re.compile(
    r"^[\s:+|\-]*(GlobalLimit|LocalLimit|Offset|Tail|Sample(?! 0\.0, 1\.0, false\b)"
    r"|AttachDistributedSequence)\b",
    re.MULTILINE,
)
# The same operators in a physical plan.
_ARRIVAL_OF_PHYSICAL = re.compile(
    r"\b((?:Collect|Global|Local)Limit|CollectTail|TakeOrderedAndProject"
    r"|Sample(?! 0\.0, 1\.0, false\b))\b"
)
_PARTLY_SHOWN: Final = "Spark shows only a part of its plan"
_CALLS_PYTHON: Final = "it calls Python, whose functions may not be deterministic"
_OF_ROWS_FRAME: Final = "a window with ROWS BETWEEN depends on the order of its input rows"
_SOME_ROW: Final = "dropDuplicates() depends on the order of its input rows"
_ID: Final = re.compile(r"#\d+")
_KEEPS_ROWS: Final = re.compile(r"^[\s:+|\-]*Deduplicate\b", re.MULTILINE)
# Matches an operator that keeps one row for each combination of keys, and the first operator below
# it that shows all columns of its input.
_DEDUPLICATE: Final = re.compile(
    r"\bDeduplicate \[(?P<keys>.*)\]\n(?:[\s:+|\-]*(?:SubqueryAlias|Filter)\b.*\n)*"
    r"[\s:+|\-]*(?P<input>(?:Project|Relation|LocalRelation|LogicalRDD|Range)\b.*)"
)
# Operators that pass rows to a function of Python, R, Scala or Java, or to a script. These may be
# nondeterministic. In Spark 3.5, the name of MapInArrow is PythonMapInArrow.
_FOREIGN = re.compile(
    r"^[\s:+|\-]*(ScriptTransformation|(?:Python)?MapIn\w+|MapPartitions\w*|MapElements|MapGroups"
    r"|TypedFilter|CoGroup|FlatMap(?:Co)?Groups\w+)\b",
    re.MULTILINE,
)
# Functions that depend on the order of rows, although Spark treats them as deterministic.
_ORDERED = re.compile(
    r"\b(first|last|any_value|first_value|last_value|nth_value|collect_list|collect_set|mode"
    r"|array_agg|row_number|ntile|lag|lead|max_by|min_by|listagg|string_agg|approx_percentile"
    r"|percentile_approx|approx_top_k\w*|histogram_numeric|(?:hll|kll|theta|tuple)_\w+)\(",
    re.IGNORECASE,
)
# Window frames with ROWS, except those that cover the whole partition. Rows with equal values of
# ORDER BY may be in any order, so such a frame may contain other rows each time. Ranks ignore their
# frame, so the pattern matches them without a group. A frame is written as "ROWS BETWEEN" in SQL,
# and as "RowFrame" in the text of a plan.
_ROWS_FRAME = re.compile(
    r"\b(?:dense_|percent_)?rank\(.*?(?:ROWS BETWEEN|RowFrame)"
    r"|(ROWS BETWEEN|RowFrame),? (?!UNBOUNDED ?PRECEDING(?: AND|\$\(\),) UNBOUNDED ?FOLLOWING)",
    re.IGNORECASE,
)
# Functions whose result may differ each time a query runs. The plan text is searched for these
# names if Spark's internals are unavailable.
_VOLATILE = re.compile(
    r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id"
    r"|spark_partition_id|input_file_\w+|current_timestamp|current_date|current_time"
    r"|localtimestamp|now|reflect|try_reflect|java_method"
    r"|(?:try_)?(?:cast|to_date|to_timestamp\w*)"
    # of a special date, and not of a column of this name
    r"(?=\(\s*(?:now|today|yesterday|tomorrow)\b(?!#)))\(",
    re.IGNORECASE,
)
# Operators that run Python functions. The plan text does not show whether these functions are
# deterministic.
_PYTHON = re.compile(r"\b\w*(EvalPython|InPandas|InArrow|PythonUDTF)")
_explaining = threading.Lock()
# Settings with which Spark shortens no list of columns and no plan.
_IN_FULL: Final = {
    "spark.sql.debug.maxToStringFields": "2147483647",
    "spark.sql.maxPlanStringLength": "2147483632",
}
_SHORTENED: Final = re.compile(r"\.\.\.\s\d+\smore\sfields")


def why_not_deterministic(df: DataFrame, *, trusts_foreign: bool = True) -> str | None:
    """Return why ``df`` may return different rows in another run, or None if it is deterministic.

    If Spark's internals are unavailable, only the plan text is checked, so ``rand(`` in a string
    literal counts as a call. On Spark Connect, Python UDFs are assumed to be deterministic.

    Args:
        df: The DataFrame to check.
        trusts_foreign: Whether to assume that ``mapInPandas`` and similar operators are
            deterministic.
    """
    if df.isStreaming:
        return "it is a stream"
    if internals_unavailable(df.sparkSession) is None:
        plan = plan_text(df)
        if plan.volatile is not None:
            return plan.volatile
        if "Deduplicate" in plan.operators and _keeps_some_row(analyzed_plan(df)):
            return _SOME_ROW
        if "InMemoryRelation" in plan.operators:
            catalyst = Catalyst(df.sparkSession)
            leaves = catalyst.plans.all_leaves(analyzed_plan(df))
            cached = (one for one in leaves if one.nodeName() == "InMemoryRelation")
            for builder in (leaf.cacheBuilder() for leaf in cached):
                if why := _why_other_rows(catalyst, builder, trusts_foreign=trusts_foreign):
                    return why
        text, aggregates = plan.operators, plan.aggregates
        calls = _ORDERED.search(aggregates)
    else:
        everything = explained(df)
        if _SHORTENED.search(everything):
            return _PARTLY_SHOWN
        if isinstance(df.sparkSession, SparkSession) and _PYTHON.search(everything):
            return _CALLS_PYTHON
        text = everything.partition("== Analyzed Logical Plan ==")[2]
        text = aggregates = text.partition("== Optimized")[0]
        if _shows_that_some_row_is_kept(text):
            return _SOME_ROW
        calls = _VOLATILE.search(text) or _ORDERED.search(text)
    if calls:
        return f"it calls {calls[1].lower()}()"
    if any(frame[1] for frame in _ROWS_FRAME.finditer(aggregates)):
        return _OF_ROWS_FRAME
    arrival = _ARRIVAL.search(text)
    if arrival:
        return f"{arrival[1]} depends on the order of its input rows"
    foreign = None if trusts_foreign else _FOREIGN.search(text)
    if foreign:
        return f"{foreign[1]} may return different rows each time"
    return None


def _why_other_rows(catalyst: Catalyst, builder: CachedRdd, *, trusts_foreign: bool) -> str | None:
    """Return why a cached result may have other rows if Spark computes it again, or None.

    Spark does this after ``unpersist()``, or after executors are lost.
    """
    try:
        rows = catalyst.execution.dataframe(builder.logicalPlan())
    except JVM_ERRORS:  # Spark 3.5 keeps only the physical plan
        with _explaining, _in_full(catalyst.spark.conf):
            text = builder.cachedPlan().toString()
    else:
        return why_not_deterministic(rows, trusts_foreign=trusts_foreign)
    if _SHORTENED.search(text):
        return _PARTLY_SHOWN
    if _PYTHON.search(text):
        return _CALLS_PYTHON
    if calls := _VOLATILE.search(text) or _ORDERED.search(text):
        return f"it calls {calls[1].lower()}()"
    if any(frame[1] for frame in _ROWS_FRAME.finditer(text)):
        return _OF_ROWS_FRAME
    arrival = _ARRIVAL_OF_PHYSICAL.search(text)
    return f"{arrival[1]} depends on the order of its input rows" if arrival else None


def _keeps_some_row(plan: LogicalPlan) -> bool:
    """Return whether a plan keeps an arbitrary one of several rows with the same keys.

    ``distinct()`` does not count: its keys are all columns, so rows with the same keys are equal.
    """
    if plan.nodeName() == "Deduplicate" and not _ids(plan.output()) <= _ids(plan.keys()):
        return True
    parts = (*each(plan.children()), *each(plan.innerChildren()))
    return any(map(_keeps_some_row, parts))


def _ids(columns: Seq[CatalystAttribute]) -> set[int]:
    return {column.exprId().id() for column in each(columns)}


def _shows_that_some_row_is_kept(text: str) -> bool:
    """Return whether a plan's text shows that any one of several rows with equal keys is kept.

    The result is also true if the text does not show all columns of a ``Deduplicate`` operator.
    """
    found = list(_DEDUPLICATE.finditer(text))
    ids = ({*_ID.findall(one["input"])} - {*_ID.findall(one["keys"])} for one in found)
    return len(_KEEPS_ROWS.findall(text)) > len(found) or any(ids)


def explained(df: DataFrame) -> str:
    """Return the whole text that ``df.explain`` prints, in classic Spark or Spark Connect.

    By default, Spark shows only the first 25 columns of each operator. The text stays shortened if
    the server does not let clients change this setting.
    """
    session: object = df.sparkSession
    with _explaining, _in_full(df.sparkSession.conf):
        if not isinstance(session, SparkSession):
            text: str = df._explain_string(extended=True)  # type: ignore[operator]  # only in Connect
            return text
        # explain() prints to stdout. All threads share it, so only one may redirect it at a time.
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            df.explain(extended=True)
    return printed.getvalue()


def has_subquery(df: DataFrame) -> bool:
    """Return whether a DataFrame's plan has a subquery: a scalar one, IN or EXISTS."""
    return shows_subquery(explained(df))


def shows_subquery(plan: str) -> bool:
    """Return whether the text of a plan has a subquery. ``list#1`` alone is a column's name."""
    return re.search(r"\bsubquery#\d|\b(?:list|exists)#\d+ \[", plan) is not None


@contextlib.contextmanager
def _in_full(conf: RuntimeConfig) -> Iterator[None]:
    """Apply the settings :data:`_IN_FULL` in the ``with`` block, if the server allows it."""
    before: dict[str, str | None] = {}
    try:
        with contextlib.suppress(PySparkException):
            for name, value in _IN_FULL.items():
                old = conf.get(name)
                conf.set(name, value)
                before[name] = old
        yield
    finally:
        for name, given in before.items():
            conf.unset(name)
            if given is not None and conf.get(name) != given:
                conf.set(name, given)
