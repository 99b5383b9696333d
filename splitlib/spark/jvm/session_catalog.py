"""Request the partitions of a table from the session's catalog.

Partitions stay in the JVM as a ``Seq[CatalogTablePartition]``, since a table may have many.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, Self, TypeVar

import pyarrow as pa

from splitlib.hive.partition_values import stored_name
from splitlib.redaction import get_logger
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.java_handles import (
    ForeignObject,
    HadoopConf,
    HadoopPath,
    JavaArray,
    JavaClass,
    JavaMethod,
    JavaObject,
    MethodHandle,
    Seq,
)
from splitlib.spark.jvm.listing import qualified
from splitlib.spark.jvm.scala import Scala, each
from splitlib.spark.jvm.spark_handles import CatalogEntry, CatalogPartition, InternalRow, JvmSession

_CATALOG = "org.apache.spark.sql.hive.HiveExternalCatalog"
_SPARK = "org.apache.spark.sql.catalyst.catalog."
_METRICS = "org.apache.spark.metrics.source.HiveCatalogMetrics"


class HivePartitions:
    """Requests partitions of one table by name, from the Hive client inside Spark's catalog.

    Spark's catalog API returns one partition, all partitions, or the partitions that match a
    filter. A metastore without direct SQL rejects filters on keys that are not strings. Every
    metastore can return any number of partitions by name, through Hive's client. Spark does not
    expose this client in its public API, so callers need a fallback.

    Args:
        scala: Access to Scala's library in the session's JVM.
        catalog: The session's ``HiveExternalCatalog``.
        table: The ``CatalogTable`` from the catalog.
    """

    def __init__(self, scala: Scala, catalog: ForeignObject, table: CatalogEntry) -> None:
        self._scala = scala
        self._client = client = catalog.client()
        identifier = table.identifier()
        raw = client.getRawHiveTable(identifier.database().get(), identifier.table()).rawTable()
        methods = _methods(scala, catalog.getClass(), client.getClass(), raw.getClass())
        hive = methods.hive.invoke(client, scala.jvm.array("java.lang.Object", 0))
        self._request = methods.request.bindTo(hive).bindTo(raw)
        self._restore = scala.functions.bound(methods.restore.bindTo(catalog), 1, table)

    @classmethod
    def of(cls, scala: Scala, session: JvmSession, table: CatalogEntry) -> Self | None:
        """Create an instance, or return None if Spark has no accessible Hive client.

        Args:
            scala: Access to Scala's library in the session's JVM.
            session: The JVM session.
            table: The ``CatalogTable``.
        """
        try:
            catalog = session.sharedState().externalCatalog().unwrapped()
            if catalog.getClass().getName() == _CATALOG:
                return cls(scala, catalog, table)
        except JVM_ERRORS:
            _log.debug("Spark's Hive client is not accessible.", exc_info=True)
        return None

    def by_name(self, names: Sequence[str]) -> Seq[CatalogPartition]:
        """Return the partitions with these names as a ``Seq[CatalogTablePartition]``, in any order.

        Args:
            names: Names of partitions. Partitions that no longer exist are skipped.

        Raises:
            Py4JError: if the metastore raises an error, or Spark lacks one of the internal methods.
        """
        jvm, functions = self._scala.jvm, self._scala.functions
        # Send all names in one call, one per line. Line breaks in partition names are escaped.
        lines = jvm.class_("java.util.regex.Pattern").compile("\n")
        wanted = lines.splitAsStream("\n".join(map(stored_name, names))).toList()
        # ``withHiveState`` sets Hive's class loader, takes the client's lock, and retries failures.
        requesting = functions.function(functions.bound(self._request, 0, wanted), 0)
        found = self._client.withHiveState(requesting)
        metrics = jvm.object_(_METRICS)
        metrics.incrementFetchedPartitions(found.size())
        metrics.incrementHiveClientCalls(1)
        of_hive: Seq[JavaObject] = self._scala.seq_of_array(found.toArray())
        if of_hive.isEmpty():
            return self._scala.nil
        to_spark = functions.declared(
            self._client.getClass(), "fromHivePartition", of_hive.head().getClass()
        )
        restored = functions.then(functions.handle(to_spark), self._restore)
        return self._scala.mapped(of_hive, functions.function(restored))


class _Methods(NamedTuple):
    """Private methods of Spark's Hive catalog and of its client."""

    hive: JavaMethod
    """Returns Hive's own client. After a reconnect, it returns another object."""
    request: MethodHandle
    """Requests partitions of a table by name."""
    restore: MethodHandle
    """Restores the table's spelling of partition keys, which Hive stores in lower case."""


@lru_cache(maxsize=1)
def _methods(scala: Scala, catalog: JavaClass, client: JavaClass, table: JavaClass) -> _Methods:
    """Look up the private methods. The result is cached, since this takes many JVM calls."""
    functions = scala.functions
    hive = functions.declared(client, "client")
    request = functions.declared(
        hive.getReturnType(), "getPartitionsByNames", table, "java.util.List"
    )
    restore = functions.declared(
        catalog,
        "restorePartitionMetadata",
        _SPARK + "CatalogTablePartition",
        _SPARK + "CatalogTable",
    )
    return _Methods(hive, functions.handle(request), functions.handle(restore))


_log = get_logger(__name__)
T = TypeVar("T")

_PARTITION: Final = "org.apache.spark.sql.catalyst.catalog.CatalogTablePartition"
_UTILS: Final = "org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils"
_STRING: Final = "java.lang.String"
_MAP: Final = "scala.collection.immutable.Map"
_STRUCT: Final = "org.apache.spark.sql.types.StructType"
_ROW: Final = "org.apache.spark.sql.catalyst.InternalRow"


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
        """Return a table property, or None if it is not set."""
        found = self._table.properties().get(name)
        return found.get() if found.isDefined() else None

    def directories(self, partitions: Seq[CatalogPartition], conf: HadoopConf) -> Seq[HadoopPath]:
        """Return the directories of the partitions as a ``Seq[Path]``.

        Args:
            partitions: A ``Seq[CatalogTablePartition]``.
            conf: The session's Hadoop configuration.
        """
        calling = self._scala.functions.calling(_PARTITION, "location")
        return qualified(self._scala, conf, self._scala.mapped(partitions, calling))

    def rows(self, partitions: Seq[CatalogPartition]) -> JavaArray[InternalRow]:
        """Return the typed values of the partitions as an ``Array[InternalRow]``."""
        functions = self._scala.functions
        zone = self._session.sessionState().conf().sessionLocalTimeZone()
        to_row = functions.method(_PARTITION, "toRow", _STRUCT, "java.lang.String")
        to_row = functions.bound(to_row, 1, self._partition_schema, zone)
        return self._scala.array(_ROW, self._scala.mapped(partitions, functions.function(to_row)))

    def schema(self) -> dict[str, Any]:
        """Return the schema of the partition columns, as a dict in Spark's JSON format."""
        found: dict[str, Any] = json.loads(self._partition_schema.json())
        return found

    def prepare(self) -> bool:
        """Prepare requests for partitions by name. This takes one or two catalog requests.

        Returns:
            Whether the catalog supports requests by name.
        """
        return self._hive() is not None

    def names(self) -> list[str]:
        """Request and return the names of all partitions."""
        found = self._catalog.listPartitionNames(self._identifier, self._scala.none)
        # Partition names escape control characters, so line breaks can separate them.
        return _lines(self._scala.text(found, "\n"))

    def names_with(self, values: Mapping[str, str]) -> list[str] | None:
        """Request the names of the partitions that have the given values of the first keys.

        The result may also include other partitions, so callers have to filter it.

        Args:
            values: Values of the first partition keys. They contain only letters, digits and
                ``_.-``.

        Returns:
            The names, or None if the catalog does not support the request.
        """
        spec = self._scala.some(self._scala.map(values))
        try:
            found = self._catalog.listPartitionNames(self._identifier, spec)
        except JVM_ERRORS:
            _log.debug("The catalog cannot list partitions by %s.", list(values), exc_info=True)
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
        """Request partitions that match an SQL condition. Return None if the catalog rejects it."""
        relation = self._session.table(self._identifier.quotedString())
        plan = relation.where(condition).queryExecution().analyzed()
        conditions = self._scala.seq([plan.condition()])
        try:
            return self._catalog.listPartitionsByFilter(self._identifier, conditions)
        except JVM_ERRORS:
            _log.debug("The catalog rejected the filter %s.", condition, exc_info=True)
            return None

    def by_values(self, values: Mapping[str, str]) -> Seq[CatalogPartition] | None:
        """Request the partition with these values as text, or return None if it does not exist.

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

        Spark's own method for this is not used, because it casts values: it returns ``k=5`` for
        ``k=05``.
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

    def together(self, parts: Iterable[tuple[Seq[T], Sequence[int]]]) -> Seq[T]:
        """Concatenate selected items of several Scala ``Seq`` objects into one ``Seq``.

        Args:
            parts: Pairs of a ``Seq`` and the positions of its items to take.
        """
        found: Seq[T] = self._scala.nil
        for whole, positions in parts:
            some = self._scala.mapped(self._scala.positions(pa.array(positions)), whole)
            found = self._scala.joined(found, some)
        return found


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _identity(table: CatalogEntry) -> tuple[str, ...]:
    """Return the properties that change if a ``CatalogTable`` is dropped and created again."""
    parts = (table.createTime(), table.storage().locationUri(), table.partitionColumnNames())
    return tuple(str(part if isinstance(part, int) else part.toString()) for part in parts)
