"""A table that splitlib has read, as the session itself knows it.

Before Spark overwrites a table, or a directory, it looks for it in the plan of the query; and by
the relations in the plan of a cached result it knows what makes that stale. In a scan of explicit
files it would find neither.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from splitlib.redaction import get_logger
from splitlib.spark.file_scan import canonical_paths
from splitlib.spark.jvm.gateway import jvm_of
from splitlib.spark.jvm.pinned_relation import relation_of_directory
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.table import Table

_log = get_logger(__name__)

_PATH = "org.apache.hadoop.fs.Path"


def saying_its_table(spark: SparkSession, rows: DataFrame, table: Table) -> DataFrame:
    """``rows`` in whose plan Spark finds the table that they are of. Nothing of it is read.

    The relation is joined by a condition that never holds, and the optimizer drops it before all
    else. Over Spark Connect, which has no way to it, the rows stay as they are.

    Args:
        spark: Session that reads.
        rows: Of the table.
        table: The table.
    """
    if table.metadata.location is None or internals_unavailable(spark) is not None:
        return rows
    try:
        relation = _of_catalog(spark, table) or relation_of_directory(spark, _location(table))
    except (Py4JError, PySparkException):
        _log.debug("Spark has no relation of %s.", table.name, exc_info=True)
        return rows
    return rows.join(relation.where(F.lit(False)), F.lit(False), "left_anti")


def _of_catalog(spark: SparkSession, table: Table) -> DataFrame | None:
    """The session's own table of the same name and place, None if it has none."""
    # what it remembers of a table (files, too) is not for the user's session
    session = spark._jsparkSession.cloneSession()
    state = session.sessionState()
    try:
        identifier = state.sqlParser().parseTableIdentifier(table.name)
        if identifier.database().isEmpty() or not state.catalog().tableExists(identifier):
            return None
        metadata = state.catalog().getTableMetadata(identifier)
        if not _is_at(spark, metadata, _location(table)):
            return None
        plan = session.table(metadata.identifier().quotedString()).queryExecution().analyzed()
    except (Py4JError, PySparkException):
        _log.debug("The session does not know %s.", table.name, exc_info=True)
        return None
    # not there where only a Connect client is installed
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    datasets = jvm_of(spark.sparkContext._gateway).class_("org.apache.spark.sql.classic.Dataset")
    return ClassicDataFrame(datasets.ofRows(spark._jsparkSession, plan), spark)


def _is_at(spark: SparkSession, metadata: Any, location: str) -> bool:
    """Whether a ``CatalogTable`` has its files there, and its relation is made without listing."""
    if metadata.storage().locationUri().isEmpty():
        return False
    provider = metadata.provider()
    by_hive = provider.isEmpty() or provider.get().lower() == "hive"
    partitioned = not metadata.partitionColumnNames().isEmpty()
    if partitioned and not by_hive and not metadata.tracksPartitionsInCatalog():
        return False
    path = jvm_of(spark.sparkContext._gateway).class_(_PATH)
    return bool(path(metadata.location()).toUri().getPath() == path(location).toUri().getPath())


def _location(table: Table) -> str:
    """As Hadoop spells it: the directories that Spark compares are spelled so."""
    (location,) = canonical_paths(pa.array([table.metadata.location])).to_pylist()
    return str(location).rstrip("/")
