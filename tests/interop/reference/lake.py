"""What a recipe writes its table with: SQL, and Iceberg's Java API where SQL cannot say it."""

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
    """One table that is being written."""

    def __init__(self, spark: SparkSession, root: str, name: str, format_version: int) -> None:
        self.spark = spark
        self.root = root
        """A ``file:`` URI; a table may lie anywhere below it."""
        self.name = f"{CATALOG}.{NAMESPACE}.{name}"
        self.short_name = name
        self.format_version = format_version

    def sql(self, *statements: str) -> None:
        """Run statements; ``{t}`` is the table, ``{name}`` its name as procedures take it."""
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
        """Create the table, deletes merged on read."""
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
        """One commit, and so at least one file, for each ``VALUES`` list or query."""
        for batch in batches:
            query = batch if batch.lstrip().upper().startswith("SELECT") else f"VALUES {batch}"
            self.sql(f"INSERT INTO {{t}} {query}")

    def alter(self, *changes: str) -> None:
        """``ALTER TABLE`` for each."""
        self.sql(*(f"ALTER TABLE {{t}} {change}" for change in changes))

    def call(self, procedure: str, arguments: str = "") -> None:
        """A procedure of the catalog, on the table."""
        separator = ", " if arguments else ""
        self.sql(
            f"CALL {CATALOG}.system.{procedure}(table => '{{name}}'{separator}{arguments})",
        )

    @property
    def java(self) -> Any:
        """Packages of the JVM."""
        jvm = self.spark._jvm
        assert jvm is not None
        return jvm

    def load(self, name: str | None = None) -> Any:
        """The table, or another one, as ``org.apache.iceberg.Table``, as it is now."""
        spark = self.java.org.apache.iceberg.spark
        return spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, name or self.name)

    def literal(self, value: Any) -> Any:
        """``org.apache.iceberg.expressions.Literal`` of a value, not of a column's type yet."""
        return self.java.org.apache.iceberg.expressions.Expressions.lit(value)
