"""Connector ``session``: open and list the tables of a session's catalogs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from splitlib.config import SplitConfig
from splitlib.errors import ConfigError, SplitlibError, TableNotFound, UnsupportedTable, nearest
from splitlib.model import FileBatch, PartitionBatch, TableMetadata
from splitlib.registry import SESSION, named_catalogs
from splitlib.spark.compat import condition_of
from splitlib.spark.jvm.active_session import active
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.errors import errors_of_the_jvm
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.session_catalog import read_of_table
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.session import active_session, settings_of
from splitlib.spark.session_catalog.catalog_table import CatalogTable
from splitlib.spark.session_catalog.partitions_by_name import PartitionsByName
from splitlib.spark.session_catalog.public_table import PublicTable
from splitlib.spark.session_catalog.relation import ListedTable, Relation, WholeTable
from splitlib.spark.time_zones import session_time_zone
from splitlib.spi import Connector, Predicate, check_options, flag
from splitlib.table import Table

_UNKNOWN: Final = "check the name."
_MOST_SHOWN: Final = 20
_QUERY_OF_VIEW: Final = (
    "query it with splitlib.sql(spark, 'SELECT … JOIN …'), which prunes the tables that it uses."
)


def similar_names(spark: SparkSession, name: str) -> str:
    """Return a hint for the name of a table that a session does not have.

    Args:
        spark: The session. It lists catalogs, databases, and the tables of one database.
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


class SessionConnector(Connector):
    """Connector for tables of the session's catalogs.

    Options:
        spark: The session; by default the active session.
        listing_threads: Number of directories listed concurrently; by default the setting of this
            name.
        spark_scan: ``auto``, ``pinned`` or ``paths``; by default the setting of this name. With
            ``paths``, only Spark's public API is used.
        canonical_values: ``true`` if integers and dates in partition values are spelled as Spark
            writes them (``5``, never ``05``). Then partitions can be requested by name. If this is
            not true for the table, partitions are missed. String keys do not need this option. The
            default is the table's property ``splitlib.canonical_values``.

    Args:
        lists: The table, which lists its partitions and files.
        relation: Spark's relation that reads the table; None with Spark's public API alone.
    """

    def __init__(self, lists: Relation | PublicTable, relation: Relation | None = None) -> None:
        self._lists = lists
        self.relation = relation
        self.partitions_per_listing = lists.partitions_per_listing
        self.partitions_per_details = lists.partitions_per_details

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Open a table by its name, as in ``spark.table(name)``."""
        spark, config = _session(options), SplitConfig.resolve()
        threads = int(options.get("listing_threads") or config.listing_threads)
        how = str(options.get("spark_scan") or config.spark_scan)
        given = "canonical_values" in options
        canonical = flag(options, "canonical_values") if given else None
        with active(spark):
            try:
                if internals_unavailable(spark, how) is not None:
                    return cls(PublicTable(spark, name, threads, canonical=canonical))
                relation = _relation(spark, name, threads, canonical=canonical)
            except TableNotFound as error:
                error.hint = similar_names(spark, name)
                raise
        return cls(relation, relation)

    @classmethod
    def table_names(
        cls, database: str | None, options: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Yield the database and name of each table and view, without temporary views."""
        spark = _session(options)
        with errors_of_the_jvm():
            yield from names_of_tables(spark, database)

    def describe(self) -> TableMetadata:
        """Return the metadata of the table."""
        return self._lists.describe()

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield the partitions that may match the predicate."""
        return self._lists.list_partitions(predicate)

    def load_details(self, partitions: PartitionBatch) -> PartitionBatch:
        """Return the partitions that still exist, with what :meth:`list_files` needs."""
        return self._lists.load_details(partitions)

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield the files of partitions."""
        return self._lists.list_files(partitions, predicate)

    def check_identity(self) -> None:
        """Check that the table was not dropped or recreated since it was opened."""
        self._lists.check_identity()

    def read_end(self, path: str, size: int, length: int) -> bytes:
        """Return the last bytes of a file, with the session's own access to files.

        Raises:
            UnsupportedTable: without Spark's internals.
        """
        if self.relation is None:
            raise UnsupportedTable("Spark's public API does not read parts of files.")
        return self.relation.read_end(path, size, length)

    def named(self, rows: DataFrame) -> DataFrame:
        """Qualify the columns of rows with the table's name, as ``spark.table`` does."""
        return self._lists.named(rows)


def session_connector(table: Table) -> SessionConnector | None:
    """Return the connector of a table of the session; None for a table of another connector."""
    connector = table.connector
    return connector if isinstance(connector, SessionConnector) else None


def relation_of(table: Table) -> Relation | None:
    """Return the relation with which Spark reads a table; None if there is none."""
    connector = session_connector(table)
    return None if connector is None else connector.relation


def table_of(spark: SparkSession, name: str, relation: Relation, config: SplitConfig) -> Table:
    """Return the table that a relation reads, in the session's time zone."""
    table = Table(name, SESSION, SessionConnector(relation, relation), config)
    return table.in_time_zone(session_time_zone(spark))


def relation_of_leaf(
    catalyst: Catalyst,
    leaf: LogicalPlan,
    threads: int,
    known: dict[str, PartitionsByName] | None = None,
    *,
    canonical: bool | None = None,
) -> Relation | None:
    """Return the relation of a leaf; None if splitlib cannot list its partitions.

    Args:
        catalyst: Access to the plans of the session.
        leaf: A leaf of an analyzed plan.
        threads: Number of directories listed concurrently.
        known: Partitions by the name of their table, shared by all scans of a table. New tables
            are added. None if they are not shared.
        canonical: Whether integers and dates in partition values have only one spelling; None to
            read it from the table's properties.
    """
    index = catalyst.relations.listed_index_of(leaf)
    if index is not None:
        return ListedTable(catalyst, leaf, index)
    entry = catalyst.relations.catalog_table_of(leaf)
    if entry is None:
        return None
    partitions = PartitionsByName.of(catalyst, entry, threads)
    if known is not None:
        partitions = known.setdefault(partitions.table, partitions)
    return CatalogTable(catalyst, leaf, partitions, canonical=canonical)


def _session(options: Mapping[str, Any]) -> Any:
    check_options(options, ("spark", "listing_threads", "spark_scan", "canonical_values"))
    spark: Any = options.get("spark") or active_session()
    if not hasattr(spark, "createDataFrame"):
        raise ConfigError(
            "The connector 'session' needs a Spark session, but there is none.",
            hint="pass spark=..., or use another connector.",
        )
    return spark


def _relation(spark: SparkSession, name: str, threads: int, *, canonical: bool | None) -> Relation:
    catalyst = Catalyst(spark)
    with errors_of_the_jvm(spark):
        read = read_of_table(catalyst, name)
    if read is None:
        raise TableNotFound("The session has no such table.")
    leaf = read.leaf
    relation: Relation | None = None
    if catalyst.relations.is_table(leaf):
        has_keys = not catalyst.relations.partition_schema(leaf).isEmpty()
        if has_keys or not catalyst.relations.is_of_hive(leaf):
            relation = relation_of_leaf(catalyst, leaf, threads, canonical=canonical)
        else:
            relation = WholeTable(catalyst, leaf, threads)
    if relation is None:
        kind = catalyst.plans.kind(leaf)
        if kind == "View":
            raise UnsupportedTable("The table is a view.", hint=_QUERY_OF_VIEW)
        raise UnsupportedTable(
            f"Spark reads the table with {kind}, not from files.",
            hint="query it with splitlib.sql.",
        )
    return relation.read_by(read.plan, read.alias)
