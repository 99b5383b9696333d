"""What a session tells of its tables through public API: SQL statements and listings of files."""

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
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.scan.paths import without_globs
from splitlib.spark.sql_text import quoted
from splitlib.storage import refuse_outside

# Tasks of a listing: by itself Spark gives every large file one of its own.
_TASKS = 64


class PublicStatements:
    """Statements about tables, in any session.

    Args:
        spark: The session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def described(self, name: str) -> dict[str, Any]:
        """What the catalog says of a table.

        Args:
            name: As in ``spark.table(name)``.

        Raises:
            TableNotFound: if there is none.
            UnsupportedTable: for a table of a catalog of Spark's newer interface.
        """
        with _told():
            # the session's own parser takes the name apart
            statement = "DESCRIBE TABLE EXTENDED IDENTIFIER(:name) AS JSON"
            return _json(self._spark.sql(statement, args={"name": name}))

    def described_partition(
        self, table: str, values: Mapping[str, str | None]
    ) -> dict[str, Any] | None:
        """What the catalog says of a partition and its table, None if it finds no such partition.

        Spark may take the value of a number for another spelling of it, and ask for that.

        Args:
            table: Its name in SQL.
            values: The text of each key.
        """
        # as bytes: how a quote is escaped depends on the session
        spec = ", ".join(
            f"{quoted(key)} = X'{(value or NULL_PARTITION).encode().hex()}'"
            for key, value in values.items()
        )
        try:
            with _told():
                statement = f"DESCRIBE TABLE EXTENDED {table} PARTITION ({spec}) AS JSON"
                return _json(self._spark.sql(statement))
        except MissingPartition:
            return None

    def partition_names(self, table: str, leading: Mapping[str, str] | None = None) -> pa.Array:
        """The names of all partitions, or of those with some values.

        Args:
            table: Its name in SQL.
            leading: Values of keys, each with letters, digits and ``_.-`` only.
        """
        statement = f"SHOW PARTITIONS {table}"
        if leading:
            spec = ", ".join(f"{quoted(key)} = '{value}'" for key, value in leading.items())
            statement += f" PARTITION ({spec})"
        with _told():
            names = self._spark.sql(statement).toArrow()
        return names.column(0).combine_chunks().cast(pa.string())

    def schema(self, table: str) -> dict[str, Any]:
        """The columns of a table, as Spark writes a schema in JSON.

        Args:
            table: Its name in SQL.
        """
        with _told():
            found: dict[str, Any] = self._spark.table(table).schema.jsonValue()
        return found

    def analyzed_plan(self, table: str) -> str:
        """How Spark reads all rows of a table, as text.

        Args:
            table: Its name in SQL.
        """
        with _told():
            found = self._spark.sql(f"EXPLAIN EXTENDED SELECT * FROM {table}").collect()
        _, _, rest = str(found[0][0]).partition("== Analyzed Logical Plan ==\n")
        return rest.partition("\n\n== ")[0]

    def files(self, directories: Sequence[str]) -> pa.Table:
        """The data files in some directories and below them: ``path``, ``size``, ``modified``.

        No file is opened; each is asked for its status by an executor.

        Raises:
            MissingPartition: if a directory does not exist.
            LocationNotAllowed: if one is outside of ``allowed_locations``.
        """
        refuse_outside(*directories)
        paths = without_globs(pa.array(directories, pa.string()))
        with _told():
            # the format that gives a row for each file, whose columns are read only if selected
            found = self._spark.read.format("binaryFile").option("recursiveFileLookup", "true")
            columns = [
                F.col("path"),
                F.col("length").alias("size"),
                F.unix_millis("modificationTime").alias("modified"),
            ]
            return found.load(paths).select(*columns).coalesce(_TASKS).toArrow()


def _json(answer: DataFrame) -> dict[str, Any]:
    rows = answer.collect()
    found: dict[str, Any] = json.loads(rows[0][0])
    return found


@contextmanager
def _told() -> Iterator[None]:
    """Raise an error of Spark's as one of splitlib's, without the stack of a JVM in its text."""
    try:
        yield
    except JVM_ERRORS as error:
        text = str(error).strip()
        first = text.partition("\n")[0]
        condition = getattr(error, "getCondition", lambda: None)() or ""
        if condition == "PARTITIONS_NOT_FOUND":
            raise MissingPartition(first) from error
        if condition == "PATH_NOT_FOUND":
            raise MissingPartition("Its directory does not exist.") from error
        if condition.startswith(_NO_TABLE):
            raise TableNotFound("The session has no such table.") from error
        if condition in _NEWER:
            raise UnsupportedTable(
                "Spark reads it through an interface of its catalog, not as files.",
                hint="use the connector of its catalog, such as connector='iceberg'.",
            ) from error
        kind = AccessDenied if any(word in text for word in _DENIED) else SourceError
        raise kind(f"The session says: {first}") from error


_NO_TABLE = (
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "CATALOG_NOT_FOUND",
    "REQUIRES_SINGLE_PART_NAMESPACE",  # whose first part is no catalog
)
_NEWER = ("NOT_SUPPORTED_COMMAND_FOR_V2_TABLE",)
_DENIED = ("AccessControlException", "AccessDenied", "Permission denied")
