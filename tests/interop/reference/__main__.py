"""Write and record all tables: ``python -m tests.interop.reference DIRECTORY JARS``."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from tests.interop.reference import TABLES
from tests.interop.reference.lake import CATALOG, NAMESPACE, SCRATCH, Lake
from tests.interop.reference.record import Version, record, save


def main() -> None:
    """Delete old tables, write all tables again, and record their rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("jars", type=Path)
    parser.add_argument("--only", default="", help="tables whose name contains this")
    arguments = parser.parse_args()
    directory = arguments.directory.resolve()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    spark = _session(directory, arguments.jars)
    for namespace in (NAMESPACE, SCRATCH):
        spark.sql(f"CREATE NAMESPACE {CATALOG}.{namespace}")

    def write(name: str) -> list[Version]:
        started = time.monotonic()
        recipe = TABLES[name]
        lake = Lake(spark, f"file:{directory}", name, recipe.format_version)
        recipe.write(lake)
        recorded = record(lake, recipe.keys, directory)
        print(f"{time.monotonic() - started:6.1f} s  {name}", file=sys.stderr)
        return recorded

    names = [name for name in TABLES if arguments.only in name]
    # On two cores, two threads take two thirds of the time of one.
    with ThreadPoolExecutor(2) as executor:
        tables = dict(zip(names, executor.map(write, names), strict=True))
    spark.stop()
    save(directory, tables)


def _session(directory: Path, jars: Path) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": "1g",
        # For hundreds of tiny queries, optimizing compilation costs more time than it saves.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.extraClassPath": f"{jars.resolve()}/*",
        "spark.local.dir": str(directory / "scratch"),
        "spark.sql.shuffle.partitions": "2",
        # A hash table takes at least one page. By default, Spark would use 8 MB pages here.
        "spark.buffer.pageSize": "256k",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        # The catalog is in SQLite, because PyIceberg must read the same catalog.
        f"spark.sql.catalog.{CATALOG}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        f"spark.sql.catalog.{CATALOG}.uri": (
            # Two threads write to the database, so each must wait for the other's lock.
            f"jdbc:sqlite:{directory}/catalog.db?busy_timeout=60000"
        ),
        f"spark.sql.catalog.{CATALOG}.jdbc.schema-version": "V1",
        f"spark.sql.catalog.{CATALOG}.warehouse": f"file:{directory}/warehouse",
        f"spark.sql.catalog.{CATALOG}.cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main()
