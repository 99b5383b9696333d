"""Run a test's queries on tables of the session's catalog or of a named catalog."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

import splitlib

CATALOG = "lake"


@dataclass(frozen=True, slots=True)
class Way:
    """The catalog from which queries read their tables: the session's or a named one."""

    spark: SparkSession
    tables: Collection[str]
    """Names of the tables that queries read from the named catalog."""
    is_named: bool
    database: str = "default"

    def text(self, query: str) -> str:
        """Return the query. For the named catalog, add the catalog to the names of its tables."""
        if not self.is_named:
            return query
        names = "|".join(self.tables)
        return re.sub(rf"(?<![\w.'])({names})\b(?!')", rf"{CATALOG}.{self.database}.\1", query)

    def sql(self, query: str) -> DataFrame:
        """Plan the query with ``splitlib.sql``, and return its DataFrame."""
        return splitlib.sql(self.spark, self.text(query))


def settings(uri: str) -> dict[str, str]:
    """Return the session settings that define a named catalog for the metastore."""
    return {
        f"spark.splitlib.catalog.{CATALOG}.connector": "hive",
        f"spark.splitlib.catalog.{CATALOG}.uri": uri,
    }
