"""Register the TPC-DS tables in Spark's catalog, in a Hive metastore."""

from __future__ import annotations

from pyspark.sql import SparkSession

from benchmarks.tpcds.data import Data
from benchmarks.tpcds.tables import FACTS
from splitlib.hive.partition_values import NULL_PARTITION
from splitlib.testing import HiveMetastore


def create_tables(
    spark: SparkSession,
    metastore: HiveMetastore,
    data: Data,
    database: str,
    root: str | None = None,
) -> None:
    """Create the tables in a new database, and add their partitions directly to the metastore.

    Adding partitions through Spark would take minutes: one call for each hundred partitions.

    Args:
        spark: A session on the metastore.
        metastore: A running metastore.
        data: The generated tables.
        database: Name of the new database.
        root: URL of the directory of all tables. None: the directory of ``data``.
    """
    root = root or data.directory.as_uri()
    spark.sql(f"CREATE DATABASE {database}")
    for name, table in data.tables.items():
        columns = ", ".join(f"{column} {kind}" for column, kind in table.columns.items())
        partitioned = f"PARTITIONED BY ({FACTS[name]})" if name in FACTS else ""
        spark.sql(
            f"CREATE TABLE {database}.{name} ({columns}) USING parquet {partitioned}"
            f" LOCATION '{root}/{name}'"
        )
        if key := FACTS.get(name):
            # The metastore cannot access S3, so it does not have the locations of tables there.
            locations = [f"{root}/{name}/{key}={value or NULL_PARTITION}" for value in table.keys]
            metastore.bulk_add_partitions(
                database, name, [(value,) for value in table.keys], locations
            )
