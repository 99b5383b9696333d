"""Advice for each reason why a query or a scan is not pruned.

Other planner modules write each reason as a sentence. Here, a part of that sentence is mapped to
the advice to append. Settings are named as in the session's configuration, such as
``spark.splitlib.learnStatistics``.

The module also finds the columns that a query's joins compare, because the advice may be to
partition the table by these columns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final

from splitlib.config import SPARK_PREFIX, SplitConfig, option_name
from splitlib.redaction import redact
from splitlib.report import Report, respelled_report
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.decide import Costs, worth_collecting
from splitlib.spark.planner.eligibility import ScanSite
from splitlib.spark.planner.join_graph import JoinFilter, discover
from splitlib.spark.planner.lineage import leaf_ids

_UNION: Final = (
    "combined with UNION ALL. Each part has to leave out the rows of the parts before it, or they "
    "occur twice."
)
_SAME: Final = "if the query then means the same."
_RECURSIVE: Final = (
    "These keys are known only while the recursive query runs. Add a condition on the partition "
    "columns, or store the result of the recursive query in a table first."
)
_REMEDIES: Final = {
    # Reasons why Spark runs the whole query unchanged.
    "dynamicFilteringEnabled is off": "Set it to true.",
    "no access to the JVM": "Use splitlib.read(spark).table(…).filtered_by(…), or "
    "splitlib.condition: both prune there.",
    "files are read by path": "Set spark.splitlib.sparkScan to auto.",
    "PYSPARK_PIN_THREAD=false": "Unset PYSPARK_PIN_THREAD.",
    "the internals of this Spark": "Use splitlib.read(spark).table(…).filtered_by(…), which prunes "
    "without them.",
    "is a streaming query": "Call splitlib.optimize in foreachBatch.",
    "is the result of a command": "If the command reads tables, pass its text to splitlib.sql. For "
    "other commands nothing is to be done.",
    "does not plan commands with parameters": "Write the values into the text of the command.",
    "does not plan this command": "If it reads tables, write it as INSERT, CREATE TABLE AS, MERGE, "
    "UPDATE or DELETE, one command for each table that is written. For CACHE TABLE, use cache() on "
    "the result of splitlib.sql. For other commands nothing is to be done.",
    "the query has no join": "Nothing is to be done: Spark itself prunes by the conditions of a "
    "query.",
    "reads no partitioned table": "Partition a large table by a column that the query compares, or "
    "store it as a Delta or Iceberg table.",
    # Joins that keep every row of the table.
    "FULL OUTER JOIN keeps": "If rows without a match are not needed, use INNER JOIN, or an outer "
    "join that keeps the rows of the other table only.",
    "LEFT OUTER JOIN keeps": "Use INNER JOIN if rows without a match are not needed, or write the "
    "condition on the other table into WHERE.",
    "RIGHT OUTER JOIN keeps": "Use INNER JOIN if rows without a match are not needed, or write the "
    "condition on the other table into WHERE.",
    "NOT IN and NOT EXISTS keep": "These keys can leave out nothing. If only a part of the table "
    "matters, add a condition on it.",
    "only one part of an OR": f"Write the parts of the OR as queries {_UNION}",
    "a scalar subquery as a value": "Write the subquery as an inner join if rows without a match "
    "are not needed.",
    # Conditions from which no partition keys follow.
    "OR is not a supported join condition": f"Write the parts of the OR as joins {_UNION}",
    "IN is not a supported join condition": f"Write one join for each value of the list, {_UNION}",
    "NOT is not a supported join condition": "Such a condition can leave out little, because "
    "nearly every partition has a match. Add a comparison by =, <, <=, > or >= if there is one.",
    "is not a supported join condition": "Compare columns by =, <=>, <, <=, > or >=, combined with "
    "AND.",
    "with other columns": "Add a comparison of the column alone, such as a range of days.",
    "from several tables or from an outer join": "Store the join of these tables in a table, or "
    "compute it with splitlib.freeze, and join its result.",
    # Operators between the join and the table. Other operators match `keys are not applied below`.
    "below an aggregate": f"Group by the column too, or join before the aggregate, {_SAME}",
    "below a window": f"Add the column to PARTITION BY, or join before the window, {_SAME}",
    "below a rank": f"Add the column to PARTITION BY, or join before the rank, {_SAME}",
    "below an expression": "Join by the column itself.",
    "below an outer join": f"Join the table with the dimension before the outer join, {_SAME}",
    "below a scalar subquery": "Store the result of the subquery in a table first.",
    "below a recursive query": _RECURSIVE,
    "below observe()": f"Call observe() after the join, {_SAME}",
    "below zipWithIndex()": f"Number the rows after the join, {_SAME}",
    "keys are not applied below": "Join the dimension before {0}, if the query then means the "
    "same. Otherwise add a condition before {0}.",
    "compared with a computed value": "Compare the column itself.",
    "keys of a field of a struct": "Store the field as a column of its own.",
    "larger than half of this table": "Narrow the condition on the dimension, if only a part of it "
    "is needed.",
    "in another way than Spark": "Join by a column of another type, such as BIGINT or DATE.",
    "can only be compared by Spark": "Compare values of a type such as BIGINT, DATE, or STRING "
    "without a collation. Compare the fields of a struct one by one.",
    "are not deterministic": "Plan the query without these functions, and call them on the "
    "DataFrame that splitlib returns.",
    # Dimensions whose keys are not collected.
    "may return other rows when the join runs": "Use splitlib.freeze(dimension), which computes "
    "the dimension once.",
    "the source of the MERGE reads": "Add the result of splitlib.merge_condition(source, on=…) to "
    "ON. Or store the source in a table, with statistics, that is not larger than "
    "spark.splitlib.plannerDimensionBytes.",
    "reads a table of unknown size": "Run ANALYZE TABLE … COMPUTE STATISTICS for the tables of the "
    "dimension.",
    "joins a table that is pruned": "Use splitlib.freeze(subquery) if its keys occur in few "
    "partitions. It runs the subquery once.",
    "the dimension reads an RDD": "Use splitlib.freeze(dimension), or store it in a table.",
    "the dimension reads": "Raise this limit, in bytes, to read the dimension for its keys.",
    "has observe()": f"Call observe() after the join, {_SAME}",
    "a step of a recursive query": _RECURSIVE,
    "has no condition that drops rows": "Add a condition on the dimension: without one, its keys "
    "probably occur everywhere. To collect them nevertheless, use "
    "splitlib.read(spark).table(…).filtered_by(…).",
    "the keys cannot be collected": "Write the condition with functions that return null and raise "
    "no error, such as try_cast.",
    "cannot be compared as ranges": "Compare by =, or cast both sides to BIGINT, DECIMAL, DATE or "
    "TIMESTAMP.",
    # Scans that are not pruned although there are keys.
    "the table has only": "Reading all of them takes less time than collecting keys. To prune the "
    "table nevertheless, set spark.splitlib.plannerSmallFactPartitions to a smaller number.",
    "more than spark.splitlib.filter": "Raise this limit, or set spark.splitlib.filterOnExceed to "
    "range, which prunes by the least and the greatest key.",
    "more than spark.splitlib.conditionLiterals": "Raise this limit, or narrow the condition on "
    "the dimension.",
    "in a place without join keys": "Join the dimension there too, or query that part on its own.",
    "match every partition that is read": "A narrower condition on the dimension would keep fewer. "
    "If the query needs all of them, nothing is to be done.",
    "does not select all columns that it computes": "Remove unused columns from subqueries.",
    "the optimizer has copied the scan": "Store the part of the query that occurs twice in a table "
    "first.",
    # Reasons why keys of data columns or a Bloom filter are not used.
    "most row groups have nearly all of its values": "Sort the table by this column when it is "
    "written.",
    "the files have no statistics of it": "Write the files with statistics of this column. "
    "Timestamps have none if they are stored as INT96: write them while "
    "spark.sql.parquet.outputTimestampType is TIMESTAMP_MICROS.",
    "learnStatistics is off": "Set it to true.",
    "of its type are not trusted": "Nothing is to be done: Spark alone filters by nested and "
    "collated columns, and by columns with a default or a field id.",
    "keys to look up in Bloom filters": "Nothing is to be done: Spark looks up at most 10 keys.",
    "NaN is among the keys": "Leave out NaN by a condition on the dimension.",
    "most row groups have such values": "Narrow the condition on the dimension, or sort the table "
    "by this column when it is written.",
    "reader skips nothing by keys": "Join by integers, dates or strings.",
    "keeps too many rows": "Nothing is to be done: most rows have a match on the other side.",
    "too many keys for a Bloom filter": "Narrow the smaller side of the join.",
    # Reasons why no condition is added to a command.
    "does not accept conditions": "Add the result of splitlib.merge_condition to the command's own "
    "condition.",
    "not available after its rows are computed once": "Select these columns in a subquery as the "
    "source.",
    "NOT MATCHED BY SOURCE needs": "Leave out this clause, and change these rows by a DELETE or "
    "UPDATE with a condition on the partition columns.",
}
_OPERATOR: Final = re.compile(r"below (.+?), which is above")
_SETTING: Final = re.compile(
    rf"(?<![\w.`'\"])({'|'.join(spec.name for spec in fields(SplitConfig))})\b"
)


def column_names(leaf: Node, join_filter: JoinFilter) -> tuple[str, ...]:
    """Return the names of the columns of a leaf that a join filter compares, without duplicates.

    The result is empty if the filter compares an expression of columns.
    """
    names = {e.attribute_id: str(e.fields["name"]) for e in leaf.columns}
    found = [names.get(c.lineage.column) for c in join_filter.comparisons]
    return () if None in found else tuple(dict.fromkeys(n for n in found if n is not None))


def filters_by_other_columns(
    root: Node, leaves: Collection[Node], partition_columns: frozenset[int], costs: Costs
) -> Mapping[Path, Sequence[JoinFilter]]:
    """Return the join filters on columns other than partition columns, by path of the leaf.

    A filter is returned only if its dimension has a condition that drops rows, and is small enough
    to collect its keys.

    Args:
        root: An optimized plan.
        leaves: Leaves of the plan that read tables.
        partition_columns: Ids of the attributes by which these leaves can be pruned already.
        costs: Costs of the plan.
    """
    columns = frozenset(i for leaf in leaves for i in leaf_ids(leaf))
    sites = {leaf.path: ScanSite(leaf) for leaf in leaves}
    for join_filter in discover(root, columns, costs.may_run):
        path = join_filter.leaf.path
        kept = tuple(
            c
            for c in join_filter.comparisons
            if c.lineage.column is not None and c.lineage.column not in partition_columns
        )
        if path in sites and len(kept) == len(join_filter.comparisons):
            site = sites[path]
            sites[path] = replace(site, filters=(*site.filters, join_filter))
    chosen = worth_collecting(sites, costs, ())
    return {path: site.filters for path, site in chosen.items() if site.filters}


def in_session(text: str) -> str:
    """Return a text with settings named as in Spark's configuration: ``spark.splitlib.…``."""
    return _SETTING.sub(lambda found: SPARK_PREFIX + option_name(found[1]), text)


def with_remedy(reason: str) -> str:
    """Return a reason with its settings named as in Spark's configuration, and with its advice.

    A reason that already ends with its advice, or has none, gets no advice.
    """
    reason = in_session(reason)
    for part, remedy in _REMEDIES.items():
        if part in reason:
            operator = _OPERATOR.search(reason)
            advice = remedy.format(operator[1] if operator else "")
            return reason if reason.endswith(advice) else f"{reason} {advice}"
    return reason


def advised(report: Report) -> Report:
    """Return a copy of a report with advice appended to its reasons and those of its scans.

    Settings are named as in Spark's configuration, and credentials are masked.
    """
    found = respelled_report(_with_remedies(report), lambda text: redact(in_session(text)))
    return replace(_redacted(found), scans=tuple(map(_redacted, found.scans)))


def _redacted(report: Report) -> Report:
    condition = None if report.condition is None else redact(report.condition)
    return replace(report, table=redact(report.table), condition=condition)


def _with_remedies(report: Report) -> Report:
    reasons = tuple(map(with_remedy, report.reasons))
    return replace(report, reasons=reasons, scans=tuple(map(_with_remedies, report.scans)))
