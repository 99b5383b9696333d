"""Connector ``session``: open and list the tables of a session's catalogs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Self, cast

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from splitlib.config import SplitConfig
from splitlib.errors import ConfigError, TableNotFound, UnsupportedTable
from splitlib.spark.jvm.active_session import in_its_session
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.errors import errors_of_the_jvm
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.session_catalog import read_of_table
from splitlib.spark.session import active_session
from splitlib.spark.session_catalog.catalog_table import CatalogTable
from splitlib.spark.session_catalog.partitions_by_name import PartitionsByName
from splitlib.spark.session_catalog.public_table import PublicTable
from splitlib.spark.session_catalog.relation_table import ListedTable, RelationTable, WholeTable
from splitlib.spi import Connector, check_options, flag

_QUERY_OF_VIEW: Final = (
    "query it with splitlib.sql(spark, 'SELECT … JOIN …'), which prunes the tables that it uses."
)


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
            if "NOT_FOUND" not in (error.getCondition() or ""):
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
    """

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Open a table by its name, as in ``spark.table(name)``."""
        spark, config = _session(options), SplitConfig.resolve()
        threads = int(options.get("listing_threads") or config.listing_threads)
        how = str(options.get("spark_scan") or config.spark_scan)
        given = "canonical_values" in options
        canonical = flag(options, "canonical_values") if given else None
        return cast("Self", _opened(spark, name, threads, how, canonical=canonical))

    @classmethod
    def table_names(
        cls, database: str | None, options: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Yield the database and name of each table and view, without temporary views."""
        spark = _session(options)
        with errors_of_the_jvm():
            yield from names_of_tables(spark, database)


def relation_table(
    catalyst: Catalyst,
    leaf: Any,
    threads: int,
    known: dict[str, PartitionsByName] | None = None,
    *,
    canonical: bool | None = None,
) -> RelationTable | None:
    """Return the table that a leaf reads; None if splitlib cannot list its partitions.

    Args:
        catalyst: Access to the plans of the session.
        leaf: A leaf of an analyzed plan.
        threads: Number of directories listed concurrently.
        known: Partitions by the name of their table, shared by all scans of a table. New tables
            are added. None if they are not shared.
        canonical: Whether integers and dates in partition values have only one spelling; None to
            read it from the table's properties.
    """
    index = catalyst.listed_index_of(leaf)
    if index is not None:
        return ListedTable(catalyst, leaf, index)
    entry = catalyst.catalog_table_of(leaf)
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


@in_its_session
def _opened(
    spark: SparkSession, name: str, threads: int, how: str, *, canonical: bool | None
) -> Connector:
    if internals_unavailable(spark, how) is not None:
        return PublicTable(spark, name, threads, canonical=canonical)
    catalyst = Catalyst(spark)
    with errors_of_the_jvm(spark):
        read = read_of_table(catalyst, name)
    if read is None:
        raise TableNotFound("The session has no such table.", hint="check the name.")
    leaf = read.leaf
    table: RelationTable | None = None
    if catalyst.is_table(leaf):
        has_keys = not catalyst.partition_schema(leaf).isEmpty()
        if has_keys or not catalyst.is_of_hive(leaf):
            table = relation_table(catalyst, leaf, threads, canonical=canonical)
        else:
            table = WholeTable(catalyst, leaf, threads)
    if table is None:
        kind = catalyst.kind(leaf)
        if kind == "View":
            raise UnsupportedTable("The table is a view.", hint=_QUERY_OF_VIEW)
        raise UnsupportedTable(
            f"Spark reads the table with {kind}, not from files.",
            hint="query it with splitlib.sql.",
        )
    return table.read_by(read.plan).named_by(read.alias)
