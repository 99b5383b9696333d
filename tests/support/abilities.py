"""Abilities that older versions of Spark lack."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from inspect import signature
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

import splitlib
from splitlib.spark.compat import type_of


class DataSourceTests(pytest.Module):
    """A module that imports PySpark's classes of data sources. Without them, it is skipped."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Return the tests of the module."""
        if importlib.util.find_spec("pyspark.sql.datasource") is None:
            pytest.skip("this PySpark has no data sources in Python")
        return super().collect()


def register_data_source(spark: SparkSession) -> None:
    """Register splitlib's data source; skip the test if Spark cannot."""
    if not hasattr(spark, "dataSource"):
        pytest.skip("this Spark has no data sources in Python")
    spark.dataSource.register(splitlib.SplitlibDataSource)


_WIDENS = "org.apache.spark.sql.execution.datasources.parquet.ParquetVectorUpdaterFactory"


def widens(spark: SparkSession) -> bool:
    """Whether Spark reads Parquet files with narrower types than the columns, such as INT32."""
    jvm: Any = spark._jvm
    try:
        jvm.java.lang.Class.forName(f"{_WIDENS}$IntegerToLongUpdater")
    except Py4JError:
        return False
    return True


def skip_unless_it_widens(spark: SparkSession) -> None:
    """Skip the rest of the test if :func:`widens` is false."""
    if not widens(spark):
        pytest.skip("this Spark does not read INT32 as BIGINT")


def describes_json(spark: SparkSession) -> bool:
    """Whether Spark describes a table as JSON, as reading by public API needs."""
    try:
        spark.sql("DESCRIBE TABLE EXTENDED no_such_table AS JSON")
    except ParseException:
        return False
    except AnalysisException:
        pass
    return True


def skip_unless_it_describes_json(spark: SparkSession) -> None:
    """Skip the test if :func:`describes_json` is false."""
    if not describes_json(spark):
        pytest.skip("this Spark does not describe tables as JSON")


COLLATES = "collation" in signature(StringType.__init__).parameters
"""Whether this Spark has collations."""


def without_collations(sql: str) -> str:
    """Return the SQL text as it is, or without collations if this Spark does not have them."""
    return sql if COLLATES else re.sub(r" COLLATE \w+", "", sql)


def struct_of(columns: str) -> StructType:
    """Parse the columns of a struct, as ``StructType.fromDDL`` does."""
    found = type_of(columns)
    assert isinstance(found, StructType)
    return found
