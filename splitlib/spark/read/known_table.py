"""A table that splitlib has read, as the session itself knows it.

Before Spark overwrites a table, or a directory, it looks for it in the plan of the query; and by
the relations in the plan of a cached result it knows what makes that stale. In a scan of explicit
files it would find neither.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from splitlib.redaction import get_logger
from splitlib.spark.file_scan import canonical_paths
from splitlib.spark.jvm.active_session import in_its_session
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.pinned_relation import relation_of_directory
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.session_catalog import table_at
from splitlib.spark.session_catalog.relation_table import public_name_of, relation_of
from splitlib.table import Table

_log = get_logger(__name__)


@in_its_session
def relation_of_table(spark: SparkSession, table: Table) -> Any | None:
    """The relation in which Spark finds a table; None if it has none.

    Args:
        spark: Session that reads.
        table: The table.
    """
    if table.metadata.location is None or internals_unavailable(spark) is not None:
        return None
    try:
        return _relation(Catalyst(spark), table)
    except JVM_ERRORS:
        _log.debug("Spark has no relation of %s.", table.name, exc_info=True)
        return None


def saying_its_table(spark: SparkSession, rows: DataFrame, relation: Any | None) -> DataFrame:
    """``rows`` in whose plan Spark finds the table that they are of. Nothing of it is read.

    The relation is joined by a condition that never holds, and the optimizer drops it before all
    else. Without Spark's internals there is no way to it, and the rows stay as they are.

    Args:
        spark: Session that reads.
        rows: Of the table.
        relation: Of the table, by :func:`relation_of_table`.
    """
    if relation is None:
        return rows
    catalyst = Catalyst(spark)
    return catalyst.dataframe(catalyst.beside(analyzed_plan(rows), [relation]))


def named_by_its_table(rows: DataFrame, table: Table) -> DataFrame:
    """``rows`` whose columns may be named by their table, as those of ``spark.table`` may.

    Through public API alone an alias has one part: ``t.a``, not ``db.t.a``.

    Args:
        rows: Of the table.
        table: The table; only one of the session's own catalogs has such a name.
    """
    own = relation_of(table)
    if own is not None:
        return own.named(rows)
    name = public_name_of(table)
    return rows if name is None else rows.alias(name)


def _relation(catalyst: Catalyst, table: Table) -> Any:
    """The leaf that Spark would read the table by, or one of the directory that it is in."""
    own = relation_of(table)
    if own is not None:
        return own.leaf
    place = _location(table)
    known = table_at(catalyst, table.name, place)
    return known or analyzed_plan(relation_of_directory(catalyst.spark, place))


def _location(table: Table) -> str:
    """As Hadoop spells it: the directories that Spark compares are spelled so."""
    (location,) = canonical_paths(pa.array([table.metadata.location])).to_pylist()
    return str(location).rstrip("/")
