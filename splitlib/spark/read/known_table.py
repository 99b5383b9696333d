"""Keep the link between rows that splitlib reads and their table in the session.

Before Spark overwrites a table or a directory, it looks for it in the plan of the query. Spark also
uses the relations in a plan to find outdated cached results. A scan of explicit files does not
contain the table's relation, so it is added to the plan.
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
    """Return the relation that Spark has for the table; None if there is none.

    Args:
        spark: Session that reads the table.
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
    """Add a table's relation to the plan of ``rows``, so that Spark finds it. It is never read.

    The relation is joined with a condition that is always false, so the optimizer drops the join
    early. Without Spark's internals, return ``rows`` unchanged.

    Args:
        spark: Session that reads the table.
        rows: Rows of the table.
        relation: Relation of the table, from :func:`relation_of_table`; None = nothing to add.
    """
    if relation is None:
        return rows
    catalyst = Catalyst(spark)
    return catalyst.dataframe(catalyst.beside(analyzed_plan(rows), [relation]))


def named_by_its_table(rows: DataFrame, table: Table) -> DataFrame:
    """Give ``rows`` the table's name as qualifier of their columns, as ``spark.table`` does.

    With Spark's public API, an alias has only one part: ``t.a`` works, ``db.t.a`` does not.

    Args:
        rows: Rows of the table.
        table: The table. It has such a name only if it is in one of the session's catalogs.
    """
    own = relation_of(table)
    if own is not None:
        return own.named(rows)
    name = public_name_of(table)
    return rows if name is None else rows.alias(name)


def _relation(catalyst: Catalyst, table: Table) -> Any:
    """Return the relation by which Spark reads the table, or one of the table's directory."""
    own = relation_of(table)
    if own is not None:
        return own.leaf
    place = _location(table)
    known = table_at(catalyst, table.name, place)
    return known or analyzed_plan(relation_of_directory(catalyst.spark, place))


def _location(table: Table) -> str:
    """Return the table's location in Hadoop's spelling, which Spark uses to compare directories."""
    (location,) = canonical_paths(pa.array([table.metadata.location])).to_pylist()
    return str(location).rstrip("/")
