"""Inspect tables of a session with Spark's public API: SQL statements and file listings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from splitlib.errors import (
    AccessDenied,
    MissingPartition,
    SourceError,
    TableNotFound,
    UnsupportedTable,
)
from splitlib.hive.partition_values import NULL_PARTITION
from splitlib.spark.compat import condition_of, to_arrow
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.scan import without_globs
from splitlib.spark.sql_text import quoted
from splitlib.storage import refuse_outside

# Maximum number of tasks of a listing. By default Spark creates a task for every large file.
_TASKS = 64


class PublicStatements:
    """Runs statements about tables, in a classic or Spark Connect session.

    Args:
        spark: The session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def described(self, name: str) -> dict[str, Any]:
        """Return the catalog's description of a table, parsed from JSON.

        Args:
            name: The name, as in ``spark.table(name)``.

        Raises:
            TableNotFound: if there is no such table.
            UnsupportedTable: if the table belongs to a DataSource V2 catalog.
        """
        with _converted_errors():
            # IDENTIFIER makes the session's own parser split the name.
            statement = "DESCRIBE TABLE EXTENDED IDENTIFIER(:name) AS JSON"
            return _json(self._spark.sql(statement, args={"name": name}))

    def described_partition(
        self, table: str, values: Mapping[str, str | None]
    ) -> dict[str, Any] | None:
        """Return the catalog's description of a partition and its table; None if not found.

        The partition may differ from the request in the spelling of numbers: for ``07``, Spark
        looks up ``7``.

        Args:
            table: The table's name in SQL.
            values: The value of each key, as text.
        """
        # Values are written as bytes, because session settings affect how quotes are escaped.
        spec = ", ".join(
            f"{quoted(key)} = X'{(value or NULL_PARTITION).encode().hex()}'"
            for key, value in values.items()
        )
        try:
            with _converted_errors():
                statement = f"DESCRIBE TABLE EXTENDED {table} PARTITION ({spec}) AS JSON"
                return _json(self._spark.sql(statement))
        except MissingPartition:
            return None

    def partition_names(self, table: str, leading: Mapping[str, str] | None = None) -> pa.Array:
        """Return the names of all partitions, or of the partitions with given values.

        Args:
            table: The table's name in SQL.
            leading: Values of the first keys, with letters, digits and ``_.-`` only; None to return
                the names of all partitions.
        """
        statement = f"SHOW PARTITIONS {table}"
        if leading:
            spec = ", ".join(f"{quoted(key)} = '{value}'" for key, value in leading.items())
            statement += f" PARTITION ({spec})"
        with _converted_errors():
            names = to_arrow(self._spark.sql(statement))
        return names.column(0).combine_chunks().cast(pa.string())

    def schema(self, table: str) -> dict[str, Any]:
        """Return the columns of a table as a schema in Spark's JSON format.

        Args:
            table: The table's name in SQL.
        """
        with _converted_errors():
            found: dict[str, Any] = self._spark.table(table).schema.jsonValue()
        return found

    def analyzed_plan(self, table: str) -> str:
        """Return the analyzed plan of a query for all rows of a table, as text.

        Args:
            table: The table's name in SQL.
        """
        with _converted_errors():
            found = self._spark.sql(f"EXPLAIN EXTENDED SELECT * FROM {table}").collect()
        _, _, rest = str(found[0][0]).partition("== Analyzed Logical Plan ==\n")
        return rest.partition("\n\n== ")[0]

    def files(self, directories: Sequence[str]) -> pa.Table:
        """List data files in and below directories, with ``path``, ``size`` and ``modified``.

        Executors request the status of each file, but do not open it.

        Raises:
            MissingPartition: if a directory does not exist.
            LocationNotAllowed: if a directory is outside of ``allowed_locations``.
        """
        refuse_outside(directories)
        paths = without_globs(pa.array(directories, pa.string()))
        with _converted_errors():
            # The format binaryFile returns one row per file. A file is opened only if the query
            # selects its content.
            found = self._spark.read.format("binaryFile").option("recursiveFileLookup", "true")
            columns = [
                F.col("path"),
                F.col("length").alias("size"),
                F.unix_millis("modificationTime").alias("modified"),
            ]
            return to_arrow(found.load(paths).select(*columns).coalesce(_TASKS))


def _json(answer: DataFrame) -> dict[str, Any]:
    rows = answer.collect()
    found: dict[str, Any] = json.loads(rows[0][0])
    return found


@contextmanager
def _converted_errors() -> Iterator[None]:
    """Convert Spark's errors to splitlib errors, without the Java stack trace."""
    try:
        yield
    except JVM_ERRORS as error:
        text = str(error).strip()
        first = text.partition("\n")[0]
        condition = condition_of(error)
        if condition == "PARTITIONS_NOT_FOUND":
            raise MissingPartition(first) from error
        if condition == "PATH_NOT_FOUND":
            raise MissingPartition("The directory does not exist.") from error
        if condition.startswith(_NO_TABLE):
            raise TableNotFound("The session has no such table.") from error
        if condition == "PARSE_SYNTAX_ERROR" and "'JSON'" in first:
            raise UnsupportedTable(
                "This Spark cannot describe a table as JSON, as reading by public API needs.",
                hint="use a classic session with spark_scan='auto', or connector='hive'.",
            ) from error
        if condition in _NEWER:
            raise UnsupportedTable(
                "The table belongs to a DataSource V2 catalog. Spark does not read it from files.",
                hint="use the connector for this catalog, such as connector='iceberg'.",
            ) from error
        kind = AccessDenied if any(word in text for word in _DENIED) else SourceError
        raise kind(f"Spark raised an error: {first}") from error


_NO_TABLE = (
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "CATALOG_NOT_FOUND",
    "REQUIRES_SINGLE_PART_NAMESPACE",  # the first part of the name is not a catalog
)
_NEWER = ("NOT_SUPPORTED_COMMAND_FOR_V2_TABLE",)
_DENIED = ("AccessControlException", "AccessDenied", "Permission denied")
