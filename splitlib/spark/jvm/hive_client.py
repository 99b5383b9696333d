"""Partitions by name, from the Hive client inside Spark's catalog.

Spark's own catalog gives one partition, all of them, or those that meet a filter; and a metastore
that does not work on its database directly refuses filters on keys that are no text. Hive's client
asks for any number by name, which every metastore answers. The way to it is not public, so that
another answer is needed where it is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from splitlib.hive.partition_values import stored_name
from splitlib.redaction import get_logger
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.scala import Scala

_log = get_logger(__name__)

_CATALOG = "org.apache.spark.sql.hive.HiveExternalCatalog"
_SPARK = "org.apache.spark.sql.catalyst.catalog."
_METRICS = "org.apache.spark.metrics.source.HiveCatalogMetrics"


class HivePartitions:
    """Partitions of one table.

    Args:
        scala: Of the session's JVM.
        catalog: The session's ``HiveExternalCatalog``.
        table: The ``CatalogTable``, as the catalog gives it.
    """

    def __init__(self, scala: Scala, catalog: Any, table: Any) -> None:
        functions = scala.functions
        self._scala = scala
        self._client = client = catalog.client()
        identifier = table.identifier()
        raw = client.getRawHiveTable(identifier.database().get(), identifier.table()).rawTable()
        no_arguments = scala.jvm.array("java.lang.Object", 0)
        hive = functions.declared(client.getClass(), "client").invoke(client, no_arguments)
        ask = functions.declared(
            hive.getClass(), "getPartitionsByNames", raw.getClass(), "java.util.List"
        )
        self._ask = functions.bound(functions.handle(ask), 0, hive, raw)
        # names of keys as the table spells them; Hive has them in lower case
        restore = functions.declared(
            catalog.getClass(),
            "restorePartitionMetadata",
            _SPARK + "CatalogTablePartition",
            _SPARK + "CatalogTable",
        )
        self._restore = functions.bound(
            functions.bound(functions.handle(restore), 0, catalog), 1, table
        )

    @classmethod
    def of(cls, scala: Scala, session: Any, table: Any) -> Self | None:
        """Those of a table; None if the session has another catalog, or Spark no such client.

        Args:
            scala: Of the session's JVM.
            session: Spark's.
            table: The ``CatalogTable``.
        """
        try:
            catalog = session.sharedState().externalCatalog().unwrapped()
            if catalog.getClass().getName() == _CATALOG:
                return cls(scala, catalog, table)
        except JVM_ERRORS:
            _log.debug("Hive's client is not found.", exc_info=True)
        return None

    def by_name(self, names: Sequence[str]) -> Any:
        """A ``Seq[CatalogTablePartition]`` in any order.

        Args:
            names: Those that are no longer there are left out.

        Raises:
            Py4JError: whatever the metastore raises, or if Spark has no such methods inside.
        """
        jvm, functions = self._scala.jvm, self._scala.functions
        # one call instead of one for each; a line break is escaped in a name
        lines = jvm.class_("java.util.regex.Pattern").compile("\n")
        wanted = lines.splitAsStream("\n".join(map(stored_name, names))).toList()
        # with Hive's class loader, its lock and its other attempts
        asking = functions.function(functions.bound(self._ask, 0, wanted), 0)
        found = self._client.withHiveState(asking)
        metrics = jvm.object_(_METRICS)
        metrics.incrementFetchedPartitions(found.size())
        metrics.incrementHiveClientCalls(1)
        found = jvm.class_("scala.jdk.javaapi.CollectionConverters").asScala(found).toSeq()
        if found.isEmpty():
            return found
        to_spark = functions.declared(
            self._client.getClass(), "fromHivePartition", found.head().getClass()
        )
        return found.map(
            functions.function(functions.then(functions.handle(to_spark), self._restore))
        )
