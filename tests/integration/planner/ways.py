"""Two ways to one table: by its name in the session's catalog, and by that of a named catalog."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

import splitlib

CATALOG = "lake"


@dataclass(frozen=True, slots=True)
class Way:
    """One of the two, for queries that are written for the session's catalog."""

    spark: SparkSession
    tables: Collection[str]
    """The tables that a named catalog has too."""
    is_named: bool
    database: str = "default"

    def text(self, query: str) -> str:
        """The query with the names that its tables have this way."""
        if not self.is_named:
            return query
        names = "|".join(self.tables)
        return re.sub(rf"(?<![\w.'])({names})\b(?!')", rf"{CATALOG}.{self.database}.\1", query)

    def sql(self, query: str) -> DataFrame:
        """The query, planned by splitlib."""
        return splitlib.sql(self.spark, self.text(query))


def settings(uri: str) -> dict[str, str]:
    """What makes a metastore the named catalog."""
    return {
        f"spark.splitlib.catalog.{CATALOG}.connector": "hive",
        f"spark.splitlib.catalog.{CATALOG}.uri": uri,
    }
