"""Tables of whatever catalog the session is configured with, and their partitions.

Partitions are a ``Seq[CatalogTablePartition]``, which stays in the JVM: there may be very many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.errors import AnalysisException

from splitlib.errors import UnsupportedTable
from splitlib.redaction import get_logger
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.gateway import JVM_ERRORS, Jvm
from splitlib.spark.jvm.hive_client import HivePartitions
from splitlib.spark.jvm.listing import PATH, qualified
from splitlib.spark.jvm.pinned_relation import relation_of_directory
from splitlib.spark.jvm.scala import Scala, each
from splitlib.storage import is_restricted, refuse_outside

_log = get_logger(__name__)

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
    """The partitions of one table.

    Args:
        scala: Of the session's JVM.
        session: Spark's.
        table: The ``CatalogTable``, as the catalog gives it.
    """

    def __init__(self, scala: Scala, session: Any, table: Any) -> None:
        self._scala = scala
        self._session = session
        self._table = table
        self._identifier = table.identifier()
        self._partition_schema = table.partitionSchema()
        self._catalog = session.sessionState().catalog()
        self._hive = cache(lambda: HivePartitions.of(scala, session, table))

    @property
    def name(self) -> str:
        """Of the table."""
        return str(self._identifier.unquotedString())

    def property_of_table(self, name: str) -> str | None:
        """One of the properties of the table."""
        found = self._table.properties().get(name)
        return str(found.get()) if found.isDefined() else None

    def directories(self, partitions: Any, conf: Any) -> Any:
        """The directories of some partitions, a ``Seq[Path]``.

        Args:
            partitions: A ``Seq[CatalogTablePartition]``.
            conf: The session's Hadoop configuration.
        """
        calling = self._scala.functions.calling(_PARTITION, "location")
        return qualified(self._scala, conf, partitions.map(calling))

    def rows(self, partitions: Any) -> Any:
        """The values that some partitions give their rows, an ``Array[InternalRow]``."""
        functions = self._scala.functions
        zone = self._session.sessionState().conf().sessionLocalTimeZone()
        to_row = functions.method(_PARTITION, "toRow", _STRUCT, "java.lang.String")
        to_row = functions.function(functions.bound(to_row, 1, self._partition_schema, zone))
        return self._scala.array(_ROW, partitions.map(to_row))

    def schema(self) -> dict[str, Any]:
        """The partition columns, as Spark writes a schema in JSON."""
        found: dict[str, Any] = json.loads(self._partition_schema.json())
        return found

    def prepare(self) -> bool:
        """Find the way to partitions by name, in a request or two; whether there is one."""
        return self._hive() is not None

    def names(self) -> list[str]:
        """The names of all partitions."""
        found = self._catalog.listPartitionNames(self._identifier, self._scala.none)
        # control characters are escaped in a name: a line each
        return _lines(self._scala.text(found, "\n"))

    def names_with(self, values: Mapping[str, str]) -> list[str] | None:
        """Names of partitions with some values, and maybe of others; None if it cannot be asked.

        Args:
            values: Of leading keys, each with letters, digits and ``_.-`` only.
        """
        spec = self._scala.some(self._scala.map(values))
        try:
            found = self._catalog.listPartitionNames(self._identifier, spec)
        except JVM_ERRORS:
            _log.debug("The catalog tells no names by %s.", list(values), exc_info=True)
            return None
        return _lines(self._scala.text(found, "\n"))

    def by_name(self, names: Sequence[str]) -> Any | None:
        """Partitions of these names, but those that are gone; None if the catalog knows no way."""
        hive = self._hive()
        if hive is None:
            return None
        try:
            return hive.by_name(names)
        except JVM_ERRORS:
            _log.debug("The catalog gives no partitions by name.", exc_info=True)
            return None

    def by_condition(self, condition: str) -> Any | None:
        """Partitions that meet a condition, in SQL; None if the catalog does not take it."""
        relation = self._session.table(self._identifier.quotedString())
        plan = relation.where(condition).queryExecution().analyzed()
        conditions = self._scala.seq([plan.condition()])
        try:
            return self._catalog.listPartitionsByFilter(self._identifier, conditions)
        except JVM_ERRORS:
            _log.debug("The catalog refuses %s.", condition, exc_info=True)
            return None

    def by_values(self, values: Mapping[str, str]) -> Any | None:
        """The one partition with these texts as values; None if there is none.

        Raises:
            Py4JError: whatever the catalog raises.
            PySparkException: the same, where PySpark has a class for it.
        """
        spec = self._scala.map(values)
        try:
            return self._scala.seq([self._catalog.getPartition(self._identifier, spec)])
        except JVM_ERRORS as error:
            if "PARTITION" in str(error) and "NOT_FOUND" in str(error):
                return None
            raise

    def is_same_table(self) -> bool:
        """Whether the catalog still has the very table; not one that has taken its name."""
        try:
            now = self._catalog.getTableMetadata(self._identifier)
        except JVM_ERRORS:
            if self._catalog.tableExists(self._identifier):
                raise
            return False
        return _identity(now) == _identity(self._table)

    def names_of(self, partitions: Any) -> list[str]:
        """The names of some partitions, in their order, whose values are spelled as they are kept.

        Spark has a method that makes them in one call, but it writes ``k=5`` for ``k=05``.
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
            named = partitions.map(functions.function(made))
            columns.append(_lines(self._scala.text(named, "\n")))
        return ["/".join(parts) for parts in zip(*columns, strict=True)]

    def together(self, parts: Iterable[tuple[Any, Sequence[int] | None]]) -> Any:
        """All of these in one; of each, those at some positions, None = all."""
        found = self._scala.nil
        for whole, positions in parts:
            some = whole
            if positions is not None:
                some = self._scala.positions(pa.array(positions)).map(whole)
            found = found.appendedAll(some)
        return found


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _identity(table: Any) -> tuple[str, ...]:
    """What tells a ``CatalogTable`` from another one of its name."""
    parts = (table.createTime(), table.storage().locationUri(), table.partitionColumnNames())
    return tuple(str(part if isinstance(part, int) else part.toString()) for part in parts)


class TableRead(NamedTuple):
    """What Spark has for the name of a table."""

    plan: Any
    """How its rows are read."""
    leaf: Any
    """The relation in that plan; the plan itself if it reads something else."""
    alias: Any = None
    """The ``SubqueryAlias`` above the plan, by which columns have the table's name; None = none."""


def read_of_table(catalyst: Catalyst, name: str) -> TableRead | None:
    """What Spark has for the name of a table; None if nothing.

    Args:
        catalyst: Of the session.
        name: As in ``spark.table(name)``.

    Raises:
        UnsupportedTable: if Spark has no data source for it.
        LocationNotAllowed: if it lies outside of ``allowed_locations``.
    """
    _refuse_location(catalyst, name)
    try:
        # what it remembers of a table (files, too) is not for the user's session
        plan = catalyst.own_session.table(name).queryExecution().analyzed()
    except JVM_ERRORS as error:
        if isinstance(error, AnalysisException) and error.getCondition() in _NO_SUCH_NAME:
            return None
        provider = re.search(r"\[DATA_SOURCE_NOT_FOUND\] (.*?)\.\s", str(error))
        if provider is None:
            raise
        hint = "add its packages to the session; spark.table needs them as well."
        raise UnsupportedTable(f"{provider[1]}.", hint=hint) from error
    alias = plan if catalyst.kind(plan) == "SubqueryAlias" else None
    while catalyst.kind(plan) == "SubqueryAlias":
        plan = plan.child()
    if catalyst.is_table(plan):
        leaf = plan.newInstance()  # under attributes of its own
        return TableRead(leaf, leaf, alias)
    return TableRead(plan, _relation_below(catalyst, plan) or plan, alias)


def _refuse_location(catalyst: Catalyst, name: str) -> None:
    """Make sure that a table may be read, before Spark lists its directory to make sense of it."""
    if not is_restricted():
        return
    state = catalyst.own_session.sessionState()
    try:
        identifier = state.sqlParser().parseTableIdentifier(name)
        if not state.catalog().tableExists(identifier):
            return
        location = state.catalog().getTableMetadata(identifier).storage().locationUri()
    except JVM_ERRORS:
        _log.debug("The session does not know %s.", name, exc_info=True)
        return
    if location.isDefined():
        refuse_outside(str(catalyst.scala.jvm.class_(PATH)(location.get()).toString()))


def _relation_below(catalyst: Catalyst, plan: Any) -> Any | None:
    """The relation whose rows a plan shows with their partition values unchanged, or None.

    Spark itself pads CHAR where it is read, and what guards a table may hide rows and values of it.
    """
    shown = []
    while catalyst.kind(plan) in ("Project", "Filter"):
        if catalyst.kind(plan) == "Project":
            shown.append(list(each(plan.projectList())))
        plan = plan.child()
    if not catalyst.is_table(plan):
        return None
    keys = {str(name) for name in catalyst.partition_schema(plan).fieldNames()}
    changed = (
        expression
        for expressions in shown
        for expression in expressions
        if expression.name() in keys and expression.nodeName() != "AttributeReference"
    )
    return plan if all("readSidePadding(" in str(one.sql()) for one in changed) else None


def table_at(catalyst: Catalyst, name: str, location: str) -> Any | None:
    """A leaf with the session's own table of a name, if it has its files in this very place.

    It is for Spark to find in a plan. Nothing is listed for it: Spark lists a table without
    partitions to make its relation, so that of such a one the leaf has no columns.

    Args:
        catalyst: Of the session.
        name: Of the table.
        location: As Hadoop spells it.
    """
    state = catalyst.own_session.sessionState()
    try:
        identifier = state.sqlParser().parseTableIdentifier(name)
        if identifier.database().isEmpty() or not state.catalog().tableExists(identifier):
            return None
        metadata = state.catalog().getTableMetadata(identifier)
        if not _is_at(catalyst.scala.jvm, metadata, location):
            return None
        if _is_listed(metadata):
            leaf = analyzed_plan(relation_of_directory(catalyst.spark, location))
            return catalyst.with_arguments(leaf, {2: catalyst.scala.some(metadata)})
        read = read_of_table(catalyst, metadata.identifier().quotedString())
        return read.leaf if read is not None and catalyst.is_table(read.leaf) else None
    except JVM_ERRORS:
        _log.debug("The session does not know %s.", name, exc_info=True)
        return None


def _is_at(jvm: Jvm, metadata: Any, location: str) -> bool:
    """Whether a ``CatalogTable`` has its files there, and its relation is made without listing."""
    if metadata.storage().locationUri().isEmpty():
        return False
    partitioned = not metadata.partitionColumnNames().isEmpty()
    if partitioned and not _is_by_hive(metadata) and not metadata.tracksPartitionsInCatalog():
        return False
    path = jvm.class_(PATH)
    return bool(path(metadata.location()).toUri().getPath() == path(location).toUri().getPath())


def _is_by_hive(metadata: Any) -> bool:
    provider = metadata.provider()
    return bool(provider.isEmpty() or provider.get().lower() == "hive")


def _is_listed(metadata: Any) -> bool:
    """Whether Spark lists the files of a ``CatalogTable`` to make its relation."""
    if not metadata.partitionColumnNames().isEmpty():
        return False
    # of Hive's tables it reads these by itself
    serde = str(metadata.storage().serde().toString())
    return not _is_by_hive(metadata) or re.search("(?i)parquet|orc", serde) is not None
