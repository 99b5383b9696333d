"""``splitlib.load_table``: the public way to open a table, which may name a Spark session.

It stands above ``splitlib.spark``, which asks the session; everything below opens tables with
:func:`splitlib.registry.open_table`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from splitlib.config import SplitConfig
from splitlib.registry import open_table
from splitlib.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load_table(
    name: str,
    connector: str | None = None,
    *,
    spark: SparkSession | None = None,
    config: SplitConfig | None = None,
    **options: Any,
) -> Table:
    """Open a table.

    Args:
        name: What the connector calls a table: ``database.table``, a path, a URI; or
            ``catalog.rest`` with a catalog named in the Spark configuration or the environment.
        connector: Name of the connector; may be left out where the catalog says it, or where
            ``spark`` has the table itself.
        spark: Session whose configuration names catalogs (``spark.splitlib.catalog.NAME.*``), and
            whose own catalogs have the other tables.
        config: How often to try again.
        options: The connector's own, such as ``uri``; they win over the catalog's.

    Raises:
        SplitlibError: see :mod:`splitlib.errors`; every subclass says what to do.
    """
    spark_conf = {}
    if spark is not None:
        from splitlib.spark.session import settings_of

        spark_conf = settings_of(spark)
    return open_table(name, connector, spark=spark, spark_conf=spark_conf, config=config, **options)
