"""Partitions by name, from the Hive client inside Spark's catalog.

Spark's own catalog gives one partition, all of them, or those that meet a filter; and a metastore
that does not work on its database directly refuses filters on keys that are no text. Hive's client
asks for any number by name, which every metastore answers. The way to it is not public, so that
another answer is needed where it is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from splitlib.spark.planner.catalyst import Catalyst

_CATALOG = "org.apache.spark.sql.hive.HiveExternalCatalog"
_SPARK = "org.apache.spark.sql.catalyst.catalog."
_METRICS = "org.apache.spark.metrics.source.HiveCatalogMetrics"


def partitions_by_name(catalyst: Catalyst, table: Any, names: Sequence[str]) -> Any | None:
    """A ``Seq[CatalogTablePartition]`` in any order; None if the session has another catalog.

    Args:
        catalyst: Of the session.
        table: The ``CatalogTable``, as the catalog gives it.
        names: Those that are no longer there are left out.

    Raises:
        Py4JError: whatever the metastore raises, or if Spark has no such client inside.
    """
    catalog = catalyst.session.sharedState().externalCatalog().unwrapped()
    if catalog.getClass().getName() != _CATALOG:
        return None
    functions = catalyst.functions
    client = catalog.client()
    identifier = table.identifier()
    raw = client.getRawHiveTable(identifier.database().get(), identifier.table()).rawTable()
    no_arguments = catalyst.jvm.array("java.lang.Object", 0)
    hive = functions.declared(client.getClass(), "client").invoke(client, no_arguments)
    # one call instead of one for each; a line break is escaped in a name
    lines = catalyst.jvm.class_("java.util.regex.Pattern").compile("\n")
    wanted = lines.splitAsStream("\n".join(map(_as_stored, names))).toList()
    ask = functions.declared(
        hive.getClass(), "getPartitionsByNames", raw.getClass(), "java.util.List"
    )
    asking = functions.bound(functions.handle(ask), 0, hive, raw, wanted)
    # with Hive's class loader, its lock and its other attempts
    found = client.withHiveState(functions.function(asking, 0))
    catalyst.jvm.object_(_METRICS).incrementFetchedPartitions(found.size())
    catalyst.jvm.object_(_METRICS).incrementHiveClientCalls(1)
    found = catalyst.jvm.class_("scala.jdk.javaapi.CollectionConverters").asScala(found).toSeq()
    if found.isEmpty():
        return found
    to_spark = functions.declared(client.getClass(), "fromHivePartition", found.head().getClass())
    # names of keys as the table spells them; Hive has them in lower case
    restore = functions.declared(
        catalog.getClass(),
        "restorePartitionMetadata",
        _SPARK + "CatalogTablePartition",
        _SPARK + "CatalogTable",
    )
    restored = functions.bound(functions.bound(functions.handle(restore), 0, catalog), 1, table)
    return found.map(functions.function(functions.then(functions.handle(to_spark), restored)))


def _as_stored(name: str) -> str:
    """The name of a partition with its keys in lower case, as Hive has them."""
    pairs = (part.partition("=") for part in name.split("/"))
    return "/".join(f"{key.lower()}={value}" for key, _, value in pairs)
