"""``splitlib.load_table``, the public function that opens a table, with or without Spark.

This module may import ``splitlib.spark``. Lower layers open tables with
:func:`splitlib.registry.open_table`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from splitlib.config import SplitConfig
from splitlib.registry import SESSION, connector_class, open_table
from splitlib.rows.table import ReadableTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load_table(
    name: str,
    connector: str | None = None,
    *,
    spark: SparkSession | None = None,
    config: SplitConfig | None = None,
    **options: Any,
) -> ReadableTable:
    """Open a table.

    Args:
        name: Name of the table in the form that the connector expects: ``database.table``, a path
            or a URI. For a catalog that the Spark configuration or the environment defines:
            ``catalog.database.table``.
        connector: Name of the connector. May be omitted if the catalog defines it, or if
            ``spark`` has the table in its own catalogs.
        spark: Session whose configuration defines named catalogs
            (``spark.splitlib.catalog.NAME.*``). Other names are looked up in its own catalogs.
            With ``connector="session"`` the default is ``SparkSession.active()``.
        config: Settings of the table; by default those of the session and the environment.
        options: Options of the connector, such as ``uri``. They override the catalog's.

    Raises:
        SplitlibError: see :mod:`splitlib.errors`.
    """
    spark_conf = {}
    if spark is None and connector == SESSION:
        connector_class(connector)  # without PySpark, the error names the package to install
        from splitlib.spark.session import active_session

        # The active session depends on the thread, and another thread opens the table.
        spark = active_session()
    if spark is not None:
        from splitlib.spark.session import settings_of

        spark_conf = settings_of(spark)
    return open_table(name, connector, spark=spark, spark_conf=spark_conf, config=config, **options)
