"""Fixtures of the Iceberg tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyiceberg.table import Table
from pyspark.sql import SparkSession

import splitlib
from splitlib.spark.read.reader import TableReader
from tests.integration.iceberg.lake import Lake, full_name


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A catalog of Iceberg tables for one test module."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    yield lake
    lake.close()


@pytest.fixture(params=["auto", "paths"])
def how(request) -> str:
    """Return a value of the setting ``spark_scan``.

    With ``auto``, columns are matched by field id if possible; with ``paths``, by name.
    """
    return str(request.param)


@pytest.fixture
def read(spark: SparkSession, lake: Lake, how: str) -> Callable[[Table], TableReader]:
    """Return a function that creates a splitlib reader for a table."""

    def reader(table: Table) -> TableReader:
        found = splitlib.read(spark).table(full_name(table), connector="iceberg", **lake.options)
        return found.config(spark_scan=how)

    return reader
