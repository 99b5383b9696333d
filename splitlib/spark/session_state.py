"""Detect changes of a session that would change the meaning of a query.

Such changes are another current database, other settings and other temporary views.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from pyspark.sql import SparkSession

from splitlib.config import SPARK_CATALOG_PREFIX
from splitlib.errors import ConfigError
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.session_settings import all_settings, temporary_views

_SQL: Final = "spark.sql."
# Settings that change how a query runs, but not its result. Most of them are also settings that
# Spark does not store with views.
_HOW: Final = (
    "spark.sql.adaptive.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.cbo.",
    "spark.sql.codegen.",
    "spark.sql.execution.",
    "spark.sql.files.",
    "spark.sql.inMemoryColumnarStorage.",
    "spark.sql.join.",
    "spark.sql.optimizer.",
    "spark.sql.orc.",
    "spark.sql.parquet.",
    "spark.sql.shuffle.",
    "spark.sql.sources.parallelPartitionDiscovery.",
    "spark.sql.statistics.",
)


@dataclass(frozen=True, slots=True)
class SessionState:
    """The state of a session at the time when a query was planned."""

    catalog: str
    """Current catalog."""
    database: str
    """Current database."""
    settings: Mapping[str, str]
    """Settings that may change the result of a query."""
    views: Mapping[str, int]
    """A number for each temporary view that the query may read. A new view gets a new number."""

    @classmethod
    def of(cls, spark: SparkSession, text: str = "") -> Self:
        """Return the current state of a session.

        Args:
            spark: The session.
            text: The text of a query. Temporary views are included if their names occur in it.
        """
        inside = internals_unavailable(spark) is None
        settings = all_settings(spark) if inside else dict(spark.conf.getAll)
        return cls(
            spark.catalog.currentCatalog(),
            spark.catalog.currentDatabase(),
            {name: value for name, value in settings.items() if _changes_meaning(name)},
            temporary_views(spark, text) if inside and text else {},
        )

    def check(
        self,
        spark: SparkSession,
        text: str = "",
        *,
        catalog: bool = True,
        database: bool = True,
    ) -> None:
        """Check that the session has not changed since this state.

        Args:
            spark: The session.
            text: The text of the query, as for :meth:`of`.
            catalog: Whether to compare the current catalog.
            database: Whether to compare the current database.

        Raises:
            ConfigError: if the session has changed.
        """
        now = self.of(spark, text)
        moved = catalog and now.catalog != self.catalog
        if moved or (database and now.database != self.database):
            before, after = (f"`{s.catalog}`.`{s.database}`" for s in (self, now))
            raise ConfigError(
                f"The query was planned in {before}, but the current database is now {after}.",
                hint=f"run USE {before} before replan, or create the DataFrame again with full "
                "table names.",
            )
        if changed := _different(self.settings, now.settings):
            raise ConfigError(
                f"Settings have changed since the query was planned: {', '.join(changed)}.",
                hint="restore them before replan, or create the DataFrame again.",
            )
        if changed := _different(self.views, now.views):
            raise ConfigError(
                "Temporary views were created, replaced or dropped since the query was planned: "
                f"{', '.join(changed)}.",
                hint="create the DataFrame again.",
            )


def _changes_meaning(name: str) -> bool:
    if name.startswith(SPARK_CATALOG_PREFIX):
        return True
    return name.startswith(_SQL) and not name.startswith(_HOW)


def _different(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
