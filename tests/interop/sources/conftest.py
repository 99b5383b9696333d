"""A Spark session with Delta tables in ``spark_catalog`` and Iceberg tables in ``ice``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

JARS = "SOURCES_JARS"
"""Environment variable with the directory of the jars, which ``make interop`` downloads."""

FORMATS = {"delta": "spark_catalog.default", "iceberg": "ice.db"}
"""Catalog and schema of the tables, by format."""

_number = count()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a Spark session that supports both formats."""
    jars = sorted(str(path) for path in Path(os.environ[JARS]).glob("*.jar"))
    root = tmp_path_factory.mktemp("sources")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.local.dir": str(root / "local"),
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.jars": ",".join(jars),
        "spark.sql.shuffle.partitions": "2",
        "spark.buffer.pageSize": "256k",
        # Delta processes a table's file list in this many Spark partitions.
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(root / "iceberg"),
        "spark.sql.session.timeZone": "America/New_York",
    }
    builder = SparkSession.builder.master("local[2]").appName("splitlib-sources")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.sql("CREATE NAMESPACE ice.db")
    yield session
    session.stop()


@pytest.fixture(scope="session", params=sorted(FORMATS))
def format_(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def created(spark: SparkSession, format_: str, rows: str, partitioned_by: str = "day") -> str:
    """Create a table with the rows of a query. Return its name."""
    name = f"{FORMATS[format_]}.t{next(_number)}"
    partitions = f"PARTITIONED BY ({partitioned_by})" if partitioned_by else ""
    spark.sql(f"CREATE TABLE {name} USING {format_} {partitions} AS {rows}")
    return name
