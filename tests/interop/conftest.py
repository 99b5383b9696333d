"""Fixtures: the reference tables, and a Spark session without Iceberg's jars that reads them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

import splitlib
from splitlib.spark.read.reader import TableReader
from tests.interop.reference.lake import NAMESPACE
from tests.interop.reference.record import Version

DIRECTORY = "INTEROP_REFERENCE"
"""Environment variable with the directory where ``make interop`` writes the reference tables."""
S3_JARS = "INTEROP_S3_JARS"
"""Environment variable with the directory of the S3 jars, which ``make interop`` downloads."""
AZURE_JARS = "INTEROP_AZURE_JARS"
"""Environment variable with the directory of the Azure jars, which ``make interop`` downloads."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference tables, with methods that return expected rows and splitlib's readers."""

    spark: SparkSession
    catalog: dict[str, str]
    tables: dict[str, list[Version]]

    def schema(self, version: Version) -> StructType:
        """Return the schema that Iceberg's own reader returned, with every column nullable."""
        return StructType.fromJson(json.loads(version["schema"]))

    def expected(self, version: Version) -> list[Row]:
        """Return the rows that Iceberg's own reader returned."""
        return _collected(self.spark, version["schema"], version["rows"])

    def reader(self, table: str, version: Version) -> TableReader:
        """Return splitlib's reader for a version of a table."""
        options: dict[str, Any] = {**self.catalog, **version["options"]}
        return splitlib.read(self.spark).table(
            f"{NAMESPACE}.{table}", connector="iceberg", **options
        )


@cache
def _collected(spark: SparkSession, schema: str, path: str) -> list[Row]:
    of_type = StructType.fromJson(json.loads(schema))
    return spark.read.schema(of_type).parquet(path).collect()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a Spark session without Iceberg's jars."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": tmp_path_factory.mktemp("events").as_uri(),
        "spark.eventLog.compress": "false",
        # The tests run hundreds of tiny queries. The JVM's optimizing compiler would cost more time
        # than it saves.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
        "spark.sql.shuffle.partitions": "2",
        # A hash table takes at least one page. By default, Spark would use 8 MB pages here.
        "spark.buffer.pageSize": "256k",
        # With a zone other than UTC, wrong conversions between dates and timestamps are detected.
        "spark.sql.session.timeZone": "America/New_York",
    }
    directories = [Path(jars) for name in (S3_JARS, AZURE_JARS) if (jars := os.environ.get(name))]
    if found := sorted(str(jar) for directory in directories for jar in directory.glob("*.jar")):
        settings["spark.jars"] = ",".join(found)
    builder = SparkSession.builder.master("local[2]").appName("splitlib-interop")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def index() -> dict[str, Any]:
    """Return the content of ``reference.json``, the index of the reference tables."""
    directory = os.environ.get(DIRECTORY)
    if not directory:
        pytest.fail(f"{DIRECTORY} is not set: run these tests by `make interop`")
    found: dict[str, Any] = json.loads((Path(directory) / "reference.json").read_text())
    return found


@pytest.fixture(scope="session")
def reference(spark: SparkSession, index: dict[str, Any]) -> Reference:
    return Reference(spark, index["catalog"], index["tables"])
