"""Two ways to read a table: from the session's catalog, or from a named catalog."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

import splitlib

CATALOG = "lake"


@dataclass(frozen=True, slots=True)
class Way:
    """Rewrites queries over the session's catalog for one of the two catalogs."""

    spark: SparkSession
    tables: Collection[str]
    """Names of the tables that the named catalog has too."""
    is_named: bool
    database: str = "default"

    def text(self, query: str) -> str:
        """Return the query, with table names of the named catalog if it is selected."""
        if not self.is_named:
            return query
        names = "|".join(self.tables)
        return re.sub(rf"(?<![\w.'])({names})\b(?!')", rf"{CATALOG}.{self.database}.\1", query)

    def sql(self, query: str) -> DataFrame:
        """Return the query planned by splitlib."""
        return splitlib.sql(self.spark, self.text(query))


def settings(uri: str) -> dict[str, str]:
    """Return the session settings that define the metastore as a named catalog."""
    return {
        f"spark.splitlib.catalog.{CATALOG}.connector": "hive",
        f"spark.splitlib.catalog.{CATALOG}.uri": uri,
    }
