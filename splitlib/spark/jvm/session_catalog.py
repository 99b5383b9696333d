"""Look up tables and partitions in the session's catalog.

Partitions stay in the JVM as a ``Seq[CatalogTablePartition]``, since a table may have many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.errors import AnalysisException

from splitlib.errors import UnsupportedTable
from splitlib.redaction import get_logger
from splitlib.spark.compat import condition_of
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import JVM_ERRORS, Jvm, analyzed_plan
from splitlib.spark.jvm.hive_client import HivePartitions
from splitlib.spark.jvm.java_handles import HadoopConf, HadoopPath, JavaArray, Seq
from splitlib.spark.jvm.listing import hadoop_path, qualified
from splitlib.spark.jvm.pinned_relation import relation_of_directory
from splitlib.spark.jvm.scala import Scala, each
from splitlib.spark.jvm.spark_handles import (
    CatalogEntry,
    CatalogPartition,
    InternalRow,
    JvmSession,
    LogicalPlan,
)
from splitlib.storage import is_restricted, refuse_outside

_log = get_logger(__name__)
T = TypeVar("T")

_PARTITION: Final = "org.apache.spark.sql.catalyst.catalog.CatalogTablePartition"
_UTILS: Final = "org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils"
_STRING: Final = "java.lang.String"
_MAP: Final = "scala.collection.immutable.Map"
_STRUCT: Final = "org.apache.spark.sql.types.StructType"
_ROW: Final = "org.apache.spark.sql.catalyst.InternalRow"

_NO_SUCH_NAME: Final = (
    "CATALOG_NOT_FOUND",
    "REQUIRES_SINGLE_PART_NAMESPACE",
    "SCHEMA_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
    "PARSE_SYNTAX_ERROR",
)


class CatalogPartitions:
    """Requests partitions of one table from the catalog.

    Args:
        scala: Access to Scala's library in the session's JVM.
        session: The JVM session.
        table: The ``CatalogTable`` from the catalog.
    """

    def __init__(self, scala: Scala, session: JvmSession, table: CatalogEntry) -> None:
        self._scala = scala
        self._session = session
        self._table = table
        self._identifier = table.identifier()
        self._partition_schema = table.partitionSchema()
        self._catalog = session.sessionState().catalog()
        self._hive = cache(lambda: HivePartitions.of(scala, session, table))

    @property
    def name(self) -> str:
        """Name of the table, with its database."""
        return self._identifier.unquotedString()

    def property_of_table(self, name: str) -> str | None:
        """Return a property of the table; None if it is not set."""
        found = self._table.properties().get(name)
        return found.get() if found.isDefined() else None

    def directories(self, partitions: Seq[CatalogPartition], conf: HadoopConf) -> Seq[HadoopPath]:
        """Return the directories of partitions, a ``Seq[Path]``.

        Args:
            partitions: A ``Seq[CatalogTablePartition]``.
            conf: The session's Hadoop configuration.
        """
        calling = self._scala.functions.calling(_PARTITION, "location")
        return qualified(self._scala, conf, self._scala.mapped(partitions, calling))

    def rows(self, partitions: Seq[CatalogPartition]) -> JavaArray[InternalRow]:
        """Return the typed partition values of partitions, an ``Array[InternalRow]``."""
        functions = self._scala.functions
        zone = self._session.sessionState().conf().sessionLocalTimeZone()
        to_row = functions.method(_PARTITION, "toRow", _STRUCT, "java.lang.String")
        to_row = functions.bound(to_row, 1, self._partition_schema, zone)
        return self._scala.array(_ROW, self._scala.mapped(partitions, functions.function(to_row)))

    def schema(self) -> dict[str, Any]:
        """Return the partition columns as a schema in Spark's JSON format."""
        found: dict[str, Any] = json.loads(self._partition_schema.json())
        return found

    def prepare(self) -> bool:
        """Prepare requests by name, with one or two catalog requests.

        Returns:
            Whether the catalog supports requests by name.
        """
        return self._hive() is not None

    def names(self) -> list[str]:
        """Request the names of all partitions."""
        found = self._catalog.listPartitionNames(self._identifier, self._scala.none)
        # Partition names escape control characters, so line breaks can separate them.
        return _lines(self._scala.text(found, "\n"))

    def names_with(self, values: Mapping[str, str]) -> list[str] | None:
        """Request the names of partitions with given values of the first keys.

        The result may include partitions with other values.

        Args:
            values: Values of the first partition keys. They contain only letters, digits and
                ``_.-``.

        Returns:
            The names; None if the catalog does not support the request.
        """
        spec = self._scala.some(self._scala.map(values))
        try:
            found = self._catalog.listPartitionNames(self._identifier, spec)
        except JVM_ERRORS:
            _log.debug("The catalog cannot list names by %s.", list(values), exc_info=True)
            return None
        return _lines(self._scala.text(found, "\n"))

    def by_name(self, names: Sequence[str]) -> Seq[CatalogPartition] | None:
        """Request partitions by name, and skip partitions that do not exist.

        The result is None if the catalog does not support the request.
        """
        hive = self._hive()
        if hive is None:
            return None
        try:
            return hive.by_name(names)
        except JVM_ERRORS:
            _log.debug("The catalog cannot return partitions by name.", exc_info=True)
            return None

    def by_condition(self, condition: str) -> Seq[CatalogPartition] | None:
        """Request partitions that match a condition in SQL; None if the catalog rejects it."""
        relation = self._session.table(self._identifier.quotedString())
        plan = relation.where(condition).queryExecution().analyzed()
        conditions = self._scala.seq([plan.condition()])
        try:
            return self._catalog.listPartitionsByFilter(self._identifier, conditions)
        except JVM_ERRORS:
            _log.debug("The catalog rejected the filter %s.", condition, exc_info=True)
            return None

    def by_values(self, values: Mapping[str, str]) -> Seq[CatalogPartition] | None:
        """Request the partition with these values, given as text; None if it does not exist.

        Raises:
            Py4JError: if the catalog raises an error.
            PySparkException: if the catalog raises an error for which PySpark has a class.
        """
        spec = self._scala.map(values)
        try:
            return self._scala.seq([self._catalog.getPartition(self._identifier, spec)])
        except JVM_ERRORS as error:
            if "PARTITION" in str(error) and "NOT_FOUND" in str(error):
                return None
            raise

    def is_same_table(self) -> bool:
        """Return whether the catalog still has this table.

        The result is false if the table was dropped, even if a new table has the same name.
        """
        try:
            now = self._catalog.getTableMetadata(self._identifier)
        except JVM_ERRORS:
            if self._catalog.tableExists(self._identifier):
                raise
            return False
        return _identity(now) == _identity(self._table)

    def names_of(self, partitions: Seq[CatalogPartition]) -> list[str]:
        """Return the names of partitions, in the same order, with values as stored in the catalog.

        Spark's own method for this casts values: it returns ``k=5`` for ``k=05``.
        """
        functions = self._scala.functions
        spec = functions.method(_PARTITION, "spec")
        value = functions.method(_MAP, "apply", "java.lang.Object")
        value = functions.as_type(value, _STRING, _MAP, "java.lang.Object")
        part = functions.method(_UTILS, "getPartitionPathString", _STRING, _STRING)
        columns = []
        for key in each(self._table.partitionColumnNames()):
            value_of = functions.then(spec, functions.bound(value, 1, key))
            made = functions.then(value_of, functions.bound(part, 0, key))
            named = self._scala.mapped(partitions, functions.function(made))
            columns.append(_lines(self._scala.text(named, "\n")))
        return ["/".join(parts) for parts in zip(*columns, strict=True)]

    def together(self, parts: Iterable[tuple[Seq[T], Sequence[int] | None]]) -> Seq[T]:
        """Concatenate items of several Scala ``Seq`` into one.

        Args:
            parts: Pairs of a ``Seq`` and the positions of its items to take. Positions are None to
                take all items.
        """
        found: Seq[T] = self._scala.nil
        for whole, positions in parts:
            some = whole
            if positions is not None:
                some = self._scala.mapped(self._scala.positions(pa.array(positions)), whole)
            found = self._scala.joined(found, some)
        return found


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _identity(table: CatalogEntry) -> tuple[str, ...]:
    """Return properties that change if a ``CatalogTable`` is dropped and created again."""
    parts = (table.createTime(), table.storage().locationUri(), table.partitionColumnNames())
    return tuple(str(part if isinstance(part, int) else part.toString()) for part in parts)


class TableRead(NamedTuple):
    """Spark's plan for a table name."""

    plan: LogicalPlan
    """Plan that reads the table's rows."""
    leaf: LogicalPlan
    """Relation that this plan reads; the plan itself if it does not read exactly one relation."""
    alias: LogicalPlan | None = None
    """``SubqueryAlias`` above the plan, which qualifies columns with the table's name; None if
    there is none."""


def read_of_table(catalyst: Catalyst, name: str) -> TableRead | None:
    """Return Spark's plan for a table name; None if there is no such table.

    Args:
        catalyst: Access to the plans of the session.
        name: The name, as in ``spark.table(name)``.

    Raises:
        UnsupportedTable: if Spark does not have the table's data source.
        LocationNotAllowed: if the table is outside of ``allowed_locations``.
    """
    _refuse_location(catalyst, name)
    try:
        # A clone of the session resolves the name, so that the table and its files do not enter the
        # caches of the user's session.
        plan = catalyst.execution.own_session.table(name).queryExecution().analyzed()
    except JVM_ERRORS as error:
        if isinstance(error, AnalysisException) and condition_of(error) in _NO_SUCH_NAME:
            return None
        provider = re.search(r"\[DATA_SOURCE_NOT_FOUND\] (.*?)\.\s", str(error))
        if provider is None:
            raise
        hint = "add its packages to the session; spark.table needs them as well."
        raise UnsupportedTable(f"{provider[1]}.", hint=hint) from error
    alias = plan if catalyst.plans.kind(plan) == "SubqueryAlias" else None
    while catalyst.plans.kind(plan) == "SubqueryAlias":
        plan = plan.child()
    if catalyst.relations.is_table(plan):
        leaf = plan.newInstance()  # new attribute ids
        return TableRead(leaf, leaf, alias)
    return TableRead(plan, _relation_below(catalyst, plan) or plan, alias)


def _refuse_location(catalyst: Catalyst, name: str) -> None:
    """Check a table's location, before Spark lists its directory to resolve the table.

    Raises:
        LocationNotAllowed: if the table is outside of ``allowed_locations``.
    """
    if not is_restricted():
        return
    state = catalyst.execution.own_session.sessionState()
    try:
        identifier = state.sqlParser().parseTableIdentifier(name)
        if not state.catalog().tableExists(identifier):
            return
        location = state.catalog().getTableMetadata(identifier).storage().locationUri()
    except JVM_ERRORS:
        _log.debug("The catalog lookup of %s failed.", name, exc_info=True)
        return
    if location.isDefined():
        refuse_outside([hadoop_path(catalyst.scala.jvm, location.get()).toString()])


def _relation_below(catalyst: Catalyst, plan: LogicalPlan) -> LogicalPlan | None:
    """Return the relation that a plan reads, if the plan does not change partition values.

    The plan may consist of projections and filters: Spark pads CHAR columns with a projection, and
    access control adds row filters and column masks. The result is None for any other plan.
    """
    shown = []
    while catalyst.plans.kind(plan) in ("Project", "Filter"):
        if catalyst.plans.kind(plan) == "Project":
            shown.append(list(each(plan.projectList())))
        plan = plan.child()
    if not catalyst.relations.is_table(plan):
        return None
    keys = {str(name) for name in catalyst.relations.partition_schema(plan).fieldNames()}
    changed = (
        expression
        for expressions in shown
        for expression in expressions
        if expression.name() in keys and expression.nodeName() != "AttributeReference"
    )
    return plan if all("readSidePadding(" in one.sql() for one in changed) else None


def table_at(catalyst: Catalyst, name: str, location: str) -> LogicalPlan | None:
    """Return a leaf for the session's table of this name, if its files are at this location.

    The leaf is never read. It is added to plans because Spark searches them for tables, for example
    before it overwrites a table. No files are listed. To create the relation of an unpartitioned
    table, Spark would list it, so the leaf of such a table has no columns.

    Args:
        catalyst: Access to the plans of the session.
        name: The name of the table.
        location: The directory, in Hadoop's spelling.

    Returns:
        The leaf; None if there is no such table at this location.
    """
    state = catalyst.execution.own_session.sessionState()
    try:
        identifier = state.sqlParser().parseTableIdentifier(name)
        if identifier.database().isEmpty() or not state.catalog().tableExists(identifier):
            return None
        metadata = state.catalog().getTableMetadata(identifier)
        if not _is_at(catalyst.scala.jvm, metadata, location):
            return None
        if _is_listed(metadata):
            leaf = analyzed_plan(relation_of_directory(catalyst.spark, location))
            return catalyst.plans.with_arguments(leaf, {2: catalyst.scala.some(metadata)})
        read = read_of_table(catalyst, metadata.identifier().quotedString())
        return read.leaf if read is not None and catalyst.relations.is_table(read.leaf) else None
    except JVM_ERRORS:
        _log.debug("The catalog lookup of %s failed.", name, exc_info=True)
        return None


def _is_at(jvm: Jvm, metadata: CatalogEntry, location: str) -> bool:
    """Return whether a ``CatalogTable`` is at the location, with its partitions in the catalog."""
    if metadata.storage().locationUri().isEmpty():
        return False
    partitioned = not metadata.partitionColumnNames().isEmpty()
    if partitioned and not _is_by_hive(metadata) and not metadata.tracksPartitionsInCatalog():
        return False
    paths = [hadoop_path(jvm, place).toUri().getPath() for place in (metadata.location(), location)]
    return paths[0] == paths[1]


def _is_by_hive(metadata: CatalogEntry) -> bool:
    provider = metadata.provider()
    return provider.isEmpty() or provider.get().lower() == "hive"


def _is_listed(metadata: CatalogEntry) -> bool:
    """Return whether Spark lists the files of a ``CatalogTable`` to create its relation."""
    if not metadata.partitionColumnNames().isEmpty():
        return False
    # Spark reads Hive tables in these formats with its own readers.
    serde = metadata.storage().serde().toString()
    return not _is_by_hive(metadata) or re.search("(?i)parquet|orc", serde) is not None
