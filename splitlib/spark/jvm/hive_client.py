"""Request partitions by name from the Hive client inside Spark's catalog.

Spark's catalog API returns one partition, all partitions, or the partitions that match a filter. A
metastore without direct SQL rejects filters on keys that are not strings. Every metastore can
return any number of partitions by name, through Hive's client. Spark does not expose this client in
its public API, so callers need a fallback.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Self

from splitlib.hive.partition_values import stored_name
from splitlib.redaction import get_logger
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.java_handles import (
    ForeignObject,
    JavaClass,
    JavaMethod,
    JavaObject,
    MethodHandle,
    Seq,
)
from splitlib.spark.jvm.scala import Scala
from splitlib.spark.jvm.spark_handles import CatalogEntry, CatalogPartition, JvmSession

_log = get_logger(__name__)

_CATALOG = "org.apache.spark.sql.hive.HiveExternalCatalog"
_SPARK = "org.apache.spark.sql.catalyst.catalog."
_METRICS = "org.apache.spark.metrics.source.HiveCatalogMetrics"


class HivePartitions:
    """Requests partitions of one table by name.

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
        """Create an instance; None if the catalog is not Hive's or the client is not accessible.

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
        """Return the partitions of these names, a ``Seq[CatalogTablePartition]`` in any order.

        Args:
            names: Names of partitions. Partitions that no longer exist are skipped.

        Raises:
            Py4JError: if the metastore raises an error, or Spark lacks one of the internal methods.
        """
        jvm, functions = self._scala.jvm, self._scala.functions
        # Send all names in one call. Partition names escape line breaks.
        lines = jvm.class_("java.util.regex.Pattern").compile("\n")
        wanted = lines.splitAsStream("\n".join(map(stored_name, names))).toList()
        # ``withHiveState`` sets Hive's class loader, takes the client's lock and retries.
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
    """Returns Hive's own client. It changes when the client reconnects."""
    request: MethodHandle
    """Requests partitions of a table by name."""
    restore: MethodHandle
    """Restores the table's spelling of partition keys, which Hive stores in lower case."""


@lru_cache(maxsize=1)
def _methods(scala: Scala, catalog: JavaClass, client: JavaClass, table: JavaClass) -> _Methods:
    """Return the methods of these classes. They are kept, since each takes many JVM calls."""
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
