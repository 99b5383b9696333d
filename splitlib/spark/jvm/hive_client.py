"""Partitions by name, from the Hive client inside Spark's catalog.

Spark's own catalog gives one partition, all of them, or those that meet a filter; and a metastore
that does not work on its database directly refuses filters on keys that are no text. Hive's client
asks for any number by name, which every metastore answers. The way to it is not public, so that
another answer is needed where it is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from splitlib.redaction import get_logger
from splitlib.spark.jvm.catalyst import Catalyst

_log = get_logger(__name__)

_CATALOG = "org.apache.spark.sql.hive.HiveExternalCatalog"
_SPARK = "org.apache.spark.sql.catalyst.catalog."
_METRICS = "org.apache.spark.metrics.source.HiveCatalogMetrics"


class HivePartitions:
    """Partitions of one table.

    Args:
        catalyst: Of the session.
        catalog: Its ``HiveExternalCatalog``.
        table: The ``CatalogTable``, as the catalog gives it.
    """

    def __init__(self, catalyst: Catalyst, catalog: Any, table: Any) -> None:
        functions = catalyst.functions
        self._catalyst = catalyst
        self._client = client = catalog.client()
        identifier = table.identifier()
        raw = client.getRawHiveTable(identifier.database().get(), identifier.table()).rawTable()
        no_arguments = catalyst.jvm.array("java.lang.Object", 0)
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
    def of(cls, catalyst: Catalyst, table: Any) -> Self | None:
        """Those of a table; None if the session has another catalog, or Spark no such client."""
        try:
            catalog = catalyst.session.sharedState().externalCatalog().unwrapped()
            if catalog.getClass().getName() == _CATALOG:
                return cls(catalyst, catalog, table)
        except (Py4JError, PySparkException):
            _log.debug("Hive's client is not found.", exc_info=True)
        return None

    def by_name(self, names: Sequence[str]) -> Any:
        """A ``Seq[CatalogTablePartition]`` in any order.

        Args:
            names: Those that are no longer there are left out.

        Raises:
            Py4JError: whatever the metastore raises, or if Spark has no such methods inside.
        """
        catalyst, functions = self._catalyst, self._catalyst.functions
        # one call instead of one for each; a line break is escaped in a name
        lines = catalyst.jvm.class_("java.util.regex.Pattern").compile("\n")
        wanted = lines.splitAsStream("\n".join(map(_as_stored, names))).toList()
        # with Hive's class loader, its lock and its other attempts
        asking = functions.function(functions.bound(self._ask, 0, wanted), 0)
        found = self._client.withHiveState(asking)
        metrics = catalyst.jvm.object_(_METRICS)
        metrics.incrementFetchedPartitions(found.size())
        metrics.incrementHiveClientCalls(1)
        found = catalyst.jvm.class_("scala.jdk.javaapi.CollectionConverters").asScala(found).toSeq()
        if found.isEmpty():
            return found
        to_spark = functions.declared(
            self._client.getClass(), "fromHivePartition", found.head().getClass()
        )
        return found.map(
            functions.function(functions.then(functions.handle(to_spark), self._restore))
        )


def _as_stored(name: str) -> str:
    """The name of a partition with its keys in lower case, as Hive has them."""
    pairs = (part.partition("=") for part in name.split("/"))
    return "/".join(f"{key.lower()}={value}" for key, _, value in pairs)
