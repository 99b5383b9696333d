"""Inspect tables of a session with Spark's public API: names, SQL statements and file listings.

Listed files are assigned to the directories that contain them, without access to storage.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from splitlib.errors import (
    AccessDenied,
    MissingPartition,
    SourceError,
    SplitlibError,
    TableNotFound,
    UnsupportedTable,
    nearest,
)
from splitlib.hive.partition_values import NULL_PARTITION
from splitlib.model import FILE_SCHEMA
from splitlib.registry import named_catalogs
from splitlib.spark.compat import condition_of, to_arrow
from splitlib.spark.conversion import quoted
from splitlib.spark.file_scan import canonical_paths
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.scan import without_globs
from splitlib.spark.session import settings_of
from splitlib.storage import refuse_outside

# Maximum number of tasks for one listing. By default, Spark creates a task for every large file.
_TASKS = 64


class PublicStatements:
    """Runs SQL statements about tables, in a classic or Spark Connect session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def described(self, name: str) -> dict[str, Any]:
        """Return the catalog's description of a table, as a dict parsed from JSON.

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
        """Return the catalog's description of a partition and its table, or None if there is none.

        Spark converts the requested values to the types of the keys. So for ``07``, the result may
        be the partition ``7``.

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
        """Return the names of all partitions, or only of those whose first keys match ``leading``.

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

    def plans(self, table: str) -> tuple[str, str]:
        """Return the analyzed and the physical plan of a query for all rows of a table, as text.

        Args:
            table: The table's name in SQL.
        """
        with _converted_errors():
            found = self._spark.sql(f"EXPLAIN EXTENDED SELECT * FROM {table}").collect()
        _, _, rest = str(found[0][0]).partition("== Analyzed Logical Plan ==\n")
        analyzed, _, others = rest.partition("\n\n== ")
        return analyzed, others.partition("== Physical Plan ==\n")[2]

    def files(self, directories: Sequence[str]) -> pa.Table:
        """List data files in and below directories, with ``path``, ``size`` and ``modified``.

        Executors request the status of each file, but do not open it.

        Raises:
            MissingPartition: if a directory does not exist.
            LocationNotAllowed: if a directory is outside ``allowed_locations``.
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
        # Versions of Spark without DESCRIBE TABLE … AS JSON report a syntax error at JSON, or at AS
        # if the setting ``spark.sql.ansi.enforceReservedKeywords`` is true.
        if condition == "PARSE_SYNTAX_ERROR" and ("'JSON'" in first or "'AS'" in first):
            raise UnsupportedTable(
                "Reading tables with Spark's public API requires DESCRIBE TABLE … AS JSON, which "
                "this version of Spark does not support.",
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
    "REQUIRES_SINGLE_PART_NAMESPACE",  # raised if the first part of the name is not a catalog
)
_NEWER = ("NOT_SUPPORTED_COMMAND_FOR_V2_TABLE",)
_DENIED = ("AccessControlException", "AccessDenied", "Permission denied")


Below = Literal["ignored", "keys refused", "refused", "read"]

_PARENT = "parent"
# Matches the scheme and authority of a URI, in the form that Hadoop's `Path` returns.
_AUTHORITY = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
# Matches locations with scheme and host. If the scheme or the host is missing, Hadoop adds a
# default when it lists the location.
_QUALIFIED = re.compile(r"^(file:/|[A-Za-z][A-Za-z0-9+.-]*://[^/]+(/|$))", re.IGNORECASE)
_LIST_BUCKET = "HIVE_DEFAULT_LIST_BUCKETING_DIR_NAME"


def files_by_directory(
    files: pa.Table, directories: Sequence[str], below: Below = "ignored"
) -> pa.RecordBatch:
    """Return the files of each directory, as a batch with the columns of :data:`FILE_SCHEMA`.

    ``partition`` is the position of the file's directory in ``directories``.

    Args:
        files: All files in or below the directories, with columns ``path``, ``size``, ``modified``.
        directories: The directories. A directory may occur several times.
        below: Treatment of files in subdirectories. ``read`` assigns them to all requested
            directories above them. ``ignored`` drops them. ``keys refused`` also drops them, but
            raises an error if the name of the subdirectory contains ``=``. ``refused`` always
            raises an error.

    Raises:
        SourceError: if a file is in none of the directories.
        UnsupportedTable: if a file in a subdirectory is refused.
    """
    paths = canonical_paths(files["path"])
    parents = pc.replace_substring_regex(paths, r"/[^/]*$", "").dictionary_encode()
    parents = parents.combine_chunks()
    places = _Places(directories)
    rows_of = places.rows_above if below == "read" else partial(places.rows_at, refused=below)
    pairs = [
        (number, row)
        for number, parent in enumerate(parents.dictionary.to_pylist())
        for row in rows_of(parent)
    ]
    rows = pa.table(
        {
            _PARENT: pa.array([number for number, _ in pairs], pa.int32()),
            "partition": pa.array([row for _, row in pairs], pa.int64()),
        }
    )
    paths = pc.replace_substring_regex(paths, r"^file:/", "/")  # local paths have no scheme
    columns = {"path": paths, "size": files["size"], "modified": files["modified"]}
    listed = pa.table({**columns, _PARENT: parents.indices})
    joined = listed.join(rows, _PARENT, join_type="inner").select(FILE_SCHEMA.names)
    joined = joined.cast(FILE_SCHEMA).combine_chunks()
    batches = joined.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], FILE_SCHEMA)


class _Places:
    """Looks up directories by path. Their locations may have no scheme or host."""

    def __init__(self, directories: Sequence[str]) -> None:
        self._by_path: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
        self._loose: set[str] = set()
        spelled = canonical_paths(pa.array(directories, pa.string())).to_pylist()
        for row, (given, text) in enumerate(zip(directories, spelled, strict=True)):
            place = text.rstrip("/")
            self._by_path[_path(place)].setdefault(place, []).append(row)
            if not _QUALIFIED.match(given):
                self._loose.add(place)

    def rows_at(self, directory: str, *, refused: Below = "ignored") -> list[int]:
        """Return the positions of a directory among the requested directories.

        The result is empty if files in the directory are to be ignored.
        """
        rows = self._rows(directory)
        if rows or any(self._rows(above) for above in _above(directory)):
            name = directory.rpartition("/")[2]
            of_keys = refused == "keys refused" and ("=" in name or name == _LIST_BUCKET)
            if not rows and (refused == "refused" or of_keys):
                raise UnsupportedTable(f"The subdirectory {directory!r} may contain table rows.")
            return rows
        raise SourceError(f"Spark listed files in {directory!r}, which was not requested.")

    def rows_above(self, directory: str) -> list[int]:
        """Return the positions of a directory and its parents among the requested directories."""
        found = [row for each in (directory, *_above(directory)) for row in self._rows(each)]
        if not found:
            self.rows_at(directory)
        return found

    def _rows(self, directory: str) -> list[int]:
        spelled = self._by_path.get(_path(directory), {})
        if self._loose.isdisjoint(spelled):
            return spelled.get(directory, [])
        if len(spelled) > 1:
            raise SourceError(f"These locations may be the same directory: {', '.join(spelled)}.")
        (rows,) = spelled.values()
        return rows


def _path(place: str) -> str:
    return _AUTHORITY.sub("", place)


def _above(directory: str) -> Iterator[str]:
    root = _AUTHORITY.match(directory)
    shortest = len(root[0]) if root else 0
    while (cut := directory.rfind("/")) >= shortest:
        directory = directory[:cut]
        yield directory


_UNKNOWN: Final = "check the name."
_MOST_SHOWN: Final = 20


def similar_names(spark: SparkSession, name: str) -> str:
    """Return a hint for a table name that does not exist in the session, such as a similar name.

    Args:
        spark: The session. It is used to list catalogs, databases, and the tables of one database.
        name: The name, as the user wrote it.
    """
    try:
        return _hint(spark, name.split(".")) if "`" not in name else _UNKNOWN
    except (PySparkException, SplitlibError, *JVM_ERRORS):
        return _UNKNOWN  # the catalog cannot be listed


def _hint(spark: SparkSession, parts: list[str]) -> str:
    if len(parts) == 1:
        parts = [spark.catalog.currentDatabase(), *parts]
    catalogs = list(named_catalogs(settings_of(spark)))
    if len(parts) > 2:
        catalogs += [row[0] for row in spark.sql("SHOW CATALOGS").collect()]
        return _of_part("catalog", parts[0], catalogs) or _UNKNOWN
    databases = [row[0] for row in spark.sql("SHOW DATABASES").collect()]
    if parts[0].lower() not in databases:
        kind = "database or catalog" if catalogs else "database"
        return _of_part(kind, parts[0], [*databases, *catalogs]) or _UNKNOWN
    rows = spark.sql("SHOW TABLES IN IDENTIFIER(:name)", args={"name": parts[0]}).collect()
    near = nearest(parts[1], [row[1] for row in rows])
    return _UNKNOWN if near is None else f"did you mean '{parts[0]}.{near}'?"


def _of_part(kind: str, name: str, known: list[str]) -> str | None:
    if name in known or not known:
        return None
    names = sorted(set(known))
    near = nearest(name, names)
    if near is not None:
        return f"there is no {kind} {name!r}; did you mean {near!r}?"
    more = ", …" if len(names) > _MOST_SHOWN else ""
    return f"there is no {kind} {name!r}; there are {', '.join(names[:_MOST_SHOWN])}{more}."


def names_of_tables(spark: SparkSession, database: str | None) -> Iterator[tuple[str, str]]:
    """Yield the database and name of each table in the current catalog, in sorted order.

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
            if "NOT_FOUND" not in condition_of(error):
                raise
            raise TableNotFound(f"The session has no database {name}.") from error
        found = [(row[0], row[1]) for row in tables if not row.isTemporary]
        yield from sorted(found)
