"""The tables that a session's catalog has, asked through SQL, which every session understands."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from splitlib.errors import TableNotFound


def names_of_tables(spark: SparkSession, database: str | None) -> Iterator[tuple[str, str]]:
    """Database and table of each table of the current catalog, in order.

    Args:
        spark: The session.
        database: None = of all.

    Raises:
        TableNotFound: if there is no such database.
    """
    databases = [database]
    if database is None:
        databases = sorted(row[0] for row in spark.sql("SHOW DATABASES").collect())
    for name in databases:
        try:
            tables = spark.sql("SHOW TABLES IN IDENTIFIER(:name)", args={"name": name}).collect()
        except AnalysisException as error:
            if "NOT_FOUND" not in (error.getCondition() or ""):
                raise
            raise TableNotFound(f"The session has no database {name}.") from error
        found = [(row[0], row[1]) for row in tables if not row.isTemporary]
        yield from sorted(found)
