"""What opens a table of a session, by how the session shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self, cast

from pyspark.sql import SparkSession

from splitlib.config import SplitConfig
from splitlib.errors import ConfigError, TableNotFound, UnsupportedTable
from splitlib.spark.jvm.active_session import in_its_session
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.errors import errors_of_the_jvm
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.session_catalog import read_of_table
from splitlib.spark.session_catalog.catalog_table import CatalogTable
from splitlib.spark.session_catalog.listed_table import ListedTable
from splitlib.spark.session_catalog.partitions_by_name import PartitionsByName
from splitlib.spark.session_catalog.public_table import PublicTable
from splitlib.spark.session_catalog.relation_table import RelationTable
from splitlib.spark.session_catalog.table_names import names_of_tables
from splitlib.spark.session_catalog.whole_table import WholeTable
from splitlib.spi import Connector, check_options, flag


class SessionConnector(Connector):
    """A table of one of the session's catalogs.

    Options:
        spark: The session; by default the active one.
        listing_threads: Directories listed at the same time; by default the setting of this name.
        spark_scan: How files will be read, by default the setting of this name; by paths, nothing
            but Spark's public API is used to find them.
        canonical_values: ``true`` says that integers and dates in partition values are spelled as
            Spark writes them (never ``05``), so that partitions can be asked for by name; strings
            are without it. Where it is not so, partitions are missed. The table's property
            ``splitlib.canonical_values`` says the same, unless the option is given.
    """

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """See :meth:`Connector.open`; ``name`` is as in ``spark.table(name)``."""
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
        """See :class:`splitlib.spi.SupportsTableNames`; views too, but no temporary ones."""
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
    """The table of a leaf; None if it is no relation over partitions that can be told apart.

    Args:
        catalyst: Of the session.
        leaf: A leaf of an analyzed plan.
        threads: Directories listed at the same time.
        known: What was asked of catalogs before, by the name of the table; added to.
        canonical: Whether integers and dates in partition values have one spelling each; None = as
            the table's property says.
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
    spark: Any = options.get("spark") or SparkSession.getActiveSession()
    if not hasattr(spark, "createDataFrame"):
        raise ConfigError(
            "Tables of the session's catalog need a session, and none is active.",
            hint="pass spark=..., or another connector.",
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
        raise UnsupportedTable(
            "It is a view." if kind == "View" else f"Spark reads it by {kind}, not as files.",
            hint="use splitlib.sql, which plans the query that reads it.",
        )
    return table.read_by(read.plan).named_by(read.alias)
