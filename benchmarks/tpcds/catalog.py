"""The tables in Spark's catalog, on a Hive metastore."""

from __future__ import annotations

from pyspark.sql import SparkSession

from benchmarks.tpcds.data import Data
from benchmarks.tpcds.tables import FACTS
from splitlib.testing import HiveMetastore


def create_tables(spark: SparkSession, metastore: HiveMetastore, data: Data, database: str) -> None:
    """Make them in a new database, as tables of Spark's; partitions go straight to the metastore.

    Spark itself would take a call per hundred partitions, and minutes for all of them.
    """
    spark.sql(f"CREATE DATABASE {database}")
    for name, table in data.tables.items():
        columns = ", ".join(f"{column} {kind}" for column, kind in table.columns.items())
        partitioned = f"PARTITIONED BY ({FACTS[name]})" if name in FACTS else ""
        spark.sql(
            f"CREATE TABLE {database}.{name} ({columns}) USING parquet {partitioned}"
            f" LOCATION '{(data.directory / name).as_uri()}'"
        )
        if name in FACTS:
            metastore.bulk_add_partitions(database, name, [(key,) for key in table.keys])
