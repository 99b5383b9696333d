"""Helpers with which recipes write their tables, by SQL or by Iceberg's Java API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

CATALOG = "interop"
NAMESPACE = "db"
SCRATCH = "scratch"

_MERGE_ON_READ = {
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
}


class Lake:
    """One table that a recipe writes."""

    def __init__(self, spark: SparkSession, root: str, name: str, format_version: int) -> None:
        self.spark = spark
        self.root = root
        """``file:`` URI of the directory that contains all tables."""
        self.name = f"{CATALOG}.{NAMESPACE}.{name}"
        self.short_name = name
        self.format_version = format_version

    def sql(self, *statements: str) -> None:
        """Run SQL statements.

        In a statement, ``{t}`` stands for the table and ``{name}`` for its name in procedure calls.
        """
        for statement in statements:
            named = statement.replace("{t}", self.name).replace(
                "{name}", f"{NAMESPACE}.{self.short_name}"
            )
            self.spark.sql(named)

    def create(
        self,
        columns: str,
        partitioned_by: str = "",
        *,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create the table with merge-on-read deletes."""
        settings = {
            "format-version": str(self.format_version),
            **_MERGE_ON_READ,
            **(properties or {}),
        }
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in settings.items())
        partitioning = f"PARTITIONED BY ({partitioned_by})" if partitioned_by else ""
        place = f"LOCATION '{location}'" if location else ""
        self.sql(
            f"CREATE TABLE {{t}} ({columns}) USING iceberg {partitioning} {place} "
            f"TBLPROPERTIES ({pairs})"
        )

    def insert(self, *batches: str) -> None:
        """Insert each ``VALUES`` list or query in a separate commit, with new files."""
        for batch in batches:
            query = batch if batch.lstrip().upper().startswith("SELECT") else f"VALUES {batch}"
            self.sql(f"INSERT INTO {{t}} {query}")

    def alter(self, *changes: str) -> None:
        """Run ``ALTER TABLE`` for each change."""
        self.sql(*(f"ALTER TABLE {{t}} {change}" for change in changes))

    def call(self, procedure: str, arguments: str = "") -> None:
        """Call a procedure of the catalog on the table."""
        separator = ", " if arguments else ""
        self.sql(
            f"CALL {CATALOG}.system.{procedure}(table => '{{name}}'{separator}{arguments})",
        )

    @property
    def java(self) -> Any:
        """The root of the JVM's packages."""
        jvm = self.spark._jvm
        assert jvm is not None
        return jvm

    def load(self, name: str | None = None) -> Any:
        """Return the current ``org.apache.iceberg.Table`` of this table or another one."""
        spark = self.java.org.apache.iceberg.spark
        return spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, name or self.name)

    def literal(self, value: Any) -> Any:
        """Return an untyped ``org.apache.iceberg.expressions.Literal``."""
        return self.java.org.apache.iceberg.expressions.Expressions.lit(value)
