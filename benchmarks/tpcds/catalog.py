"""The tables in Spark's catalog, on a Hive metastore."""

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
    """Make them in a new database, as tables of Spark's; partitions go straight to the metastore.

    Spark itself would take a call per hundred partitions, and minutes for all of them.

    Args:
        spark: A session on the metastore.
        metastore: A running one.
        data: What the tables are.
        database: Its name.
        root: URL below which the files are, by default where ``data`` has them.
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
            # the metastore cannot reach S3: Spark leaves it without the locations of tables there
            locations = [f"{root}/{name}/{key}={value or NULL_PARTITION}" for value in table.keys]
            metastore.bulk_add_partitions(
                database, name, [(value,) for value in table.keys], locations
            )
