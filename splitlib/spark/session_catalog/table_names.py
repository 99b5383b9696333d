"""List the tables of a session's catalog with SQL, which works in all kinds of sessions."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from splitlib.errors import TableNotFound


def names_of_tables(spark: SparkSession, database: str | None) -> Iterator[tuple[str, str]]:
    """Yield database and name of each table of the current catalog, sorted.

    Args:
        spark: The session.
        database: The database to list; None for all databases.

    Raises:
        TableNotFound: if the database does not exist.
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
