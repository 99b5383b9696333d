"""Connector ``session``: open and list the tables of a session's catalogs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from splitlib.arrow.values import is_instant
from splitlib.config import SplitConfig
from splitlib.errors import ConfigError, MissingPartition, TableNotFound, UnsupportedTable
from splitlib.filtering.partition_names import CANONICAL_VALUES, wanted
from splitlib.hive.partition_values import split_names
from splitlib.model import FILE_SCHEMA, FileBatch, PartitionBatch, Requests, TableMetadata
from splitlib.registry import SESSION
from splitlib.remote.calls import cached_property
from splitlib.spark.conversion import session_time_zone
from splitlib.spark.jvm.active_session import active, errors_of_the_jvm
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.java_handles import FileStatus, JavaArray, Seq
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.spark_handles import InternalRow, LogicalPlan
from splitlib.spark.jvm.table_plans import read_of_table
from splitlib.spark.session import active_session
from splitlib.spark.session_catalog.partitions_by_name import PartitionsByName
from splitlib.spark.session_catalog.public_statements import names_of_tables, similar_names
from splitlib.spark.session_catalog.public_table import PublicTable, changed_rows
from splitlib.spark.session_catalog.relation import ListedTable, Relation, WholeTable
from splitlib.spi import Connector, Predicate, check_options, flag
from splitlib.storage import refuse_outside
from splitlib.table import Table

# Maximum number of partition-name prefixes to request. Each request takes several metastore calls,
# since Spark looks up the database and the table first.
_MOST_PREFIXES: Final = 4

_PARTITION = FILE_SCHEMA.get_field_index("partition")


class CatalogTable(Relation):
    """A partitioned table of the session's catalog.

    One request lists all partition names, a second one loads the matching partitions, and one JVM
    call lists their directories. If the predicate implies partition names or prefixes of names,
    only these partitions are requested.

    Args:
        catalyst: Access to the plans of the session.
        leaf: A ``LogicalRelation`` or a ``HiveTableRelation``.
        partitions: The partitions of the table. Several scans of the table may share them.
        canonical: Whether integers and dates in partition values are always written in canonical
            form (``5``, never ``05``); None to read this from the table's properties.
    """

    partitions_per_details = 1000
    """Maximum number of partitions in one call of :meth:`load_details`."""

    def __init__(
        self,
        catalyst: Catalyst,
        leaf: LogicalPlan,
        partitions: PartitionsByName,
        *,
        canonical: bool | None = None,
    ) -> None:
        super().__init__(catalyst, leaf)
        self._canonical = canonical
        self._partitions = partitions
        # A few directories for each thread: enough to keep all threads busy, and few enough to
        # return the first files soon.
        self.partitions_per_listing = 4 * partitions.threads

    @property
    def name(self) -> str:
        """Name of the table, with its database."""
        return self._partitions.table

    @property
    def can_be_empty(self) -> bool:
        """Whether replacing the table's scan by a scan without files saves work in a query.

        False if Spark reads the table with Hive's SerDes.
        """
        return self.names_files

    @cached_property
    def has_canonical_values(self) -> bool:
        """Whether the table declares integers and dates in partition values as canonical.

        They are then written as ``5`` and never as ``05``.
        """
        if self._canonical is not None:
            return self._canonical
        with errors_of_the_jvm(self._catalyst.spark):
            value = self._partitions.property_of_table(CANONICAL_VALUES)
        return flag({} if value is None else {CANONICAL_VALUES: value}, CANONICAL_VALUES)

    def prepare(self, *, by_name: bool) -> None:
        """Make catalog requests ahead of time, as described in :class:`Relation`."""
        self._partitions.prepare(by_name=by_name)

    def listed_by_spark(self) -> Relation:
        """Make Spark list and cache all partitions' files, and return a relation of these files."""
        with errors_of_the_jvm(self._catalyst.spark):
            index = self._partitions.listed_by_spark(self.leaf)
            return ListedTable(self._catalyst, self.leaf, index).read_by(self._plan)

    @property
    def has_names(self) -> bool:
        """Whether all partition names have already been listed."""
        return self._partitions.has_names

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield the partitions that may match the predicate.

        If all names were listed before, all partitions are returned without a request.

        Raises:
            UnsupportedTable: if Spark may parse timestamps in partition values in other time zones.
        """
        self._refuse_own_time_zones()
        if not self.has_names:
            keys = self._metadata.partition_schema
            for values in wanted(predicate, keys, canonical=self.has_canonical_values):
                with errors_of_the_jvm(self._catalyst.spark):
                    found = self._with(values)
                if found is not None:
                    yield from found
                    return
        before = self._partitions.requests
        with errors_of_the_jvm(self._catalyst.spark):
            names, columns = self._partitions.names()
        yield PartitionBatch(columns, names, Requests(catalog=self._partitions.requests - before))

    def _refuse_own_time_zones(self) -> None:
        """Reject a table that has, or had, an option for the time zone of its partition values.

        A partition keeps the option that the table had when the partition was added.
        """
        options = [name.lower() for name, _ in self._metadata.read_format.options]
        keys = self._metadata.partition_schema
        if "timezone" in options and any(is_instant(key.type) for key in keys):
            raise UnsupportedTable(
                "The table has the option timeZone, but partitions may have another time zone, so "
                "timestamps in partition values may be wrong.",
                hint="read the table with Spark.",
            )

    def _with(self, values: pa.Table) -> list[PartitionBatch] | None:
        """Request the partitions whose first keys have these values.

        Return None if there are too many values, or if the catalog does not support the request.
        """
        partitions, before = self._partitions, self._partitions.requests
        rows = list(zip(*values.to_pydict().values(), strict=True))
        keys = partitions.schema.names
        if values.num_columns == len(keys):
            if len(rows) > self.partitions_per_details:
                return None
            existing = partitions.existing(rows)
            if existing is None:
                return None
            names = pa.array(existing, pa.string())
            requests = Requests(catalog=partitions.requests - before)
            batch = PartitionBatch(split_names(names, keys), names, requests, asked_for="names")
            return [batch]
        if len(rows) > _MOST_PREFIXES:
            return None
        batches = []
        for leading in rows:
            before = partitions.requests
            named = partitions.names_with(leading)
            if named is None:
                return None
            names, columns = named
            requests = Requests(catalog=partitions.requests - before)
            batches.append(PartitionBatch(columns, names, requests, asked_for="prefix"))
        return batches

    def load_details(self, partitions: PartitionBatch) -> PartitionBatch:
        """Load partitions from the catalog. Partitions that no longer exist are left out.

        The details of the partitions stay in the JVM.
        """
        before, names = self._partitions.requests, partitions.refs.to_pylist()
        with errors_of_the_jvm(self._catalyst.spark):
            found = set(self._partitions.fetch(names))
            # Check the locations now, since Hive's reader lists the directories without splitlib.
            refuse_outside(self._partitions.directories(sorted(found)))
        rows = [i for i, name in enumerate(names) if name in found]
        kept = partitions.take(pa.array(rows, pa.int64()))
        requests = Requests(catalog=self._partitions.requests - before)
        return PartitionBatch(kept.values, kept.refs, requests)

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield the files of the given partitions, listed with the session's filesystems."""
        names = partitions.refs.to_pylist()
        batches = []
        with errors_of_the_jvm(self._catalyst.spark):
            listed, requests = self._partitions.files(names)
        for row, (name, files) in enumerate(zip(names, listed, strict=True)):
            if files is None:
                raise MissingPartition("The partition's directory does not exist.", partition=name)
            number = pa.repeat(pa.scalar(row, pa.int64()), len(files))
            batches.append(files.set_column(_PARTITION, FILE_SCHEMA.field(_PARTITION), number))
        # Without files, the combined table has no batch, so build one from its columns.
        columns = [c.combine_chunks() for c in pa.Table.from_batches(batches, FILE_SCHEMA).columns]
        together = pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)
        yield FileBatch(together, self._metadata.read_format, Requests(storage=requests))

    def check_identity(self) -> None:
        """Check that the table was not dropped or recreated since it was opened."""
        with errors_of_the_jvm(self._catalyst.spark):
            self._partitions.check_identity()

    def scan_of_partitions(self, selected: Iterable[PartitionBatch]) -> DataFrame | None:
        """Return a DataFrame of the selected partitions' rows.

        Return None if Spark can read a list of files, see :meth:`scan_of_files`.
        """
        if self.names_files:
            return None
        names = [name for batch in selected for name in batch.refs.to_pylist()]
        partitions = self._partitions.partitions(names)
        rows = self._rows_of(self._catalyst.relations.reading_partitions(self.leaf, partitions))
        # If a relation has a list of partitions, Spark assumes that filters on partition columns
        # were already applied to the list, and drops such filters. Spark does not push filters
        # below a sample, so it keeps filters above this sample of all rows.
        return rows.sample(withReplacement=False, fraction=1.0, seed=0)

    def _rows(self, refs: pa.Array) -> JavaArray[InternalRow]:
        return self._partitions.rows(refs.to_pylist())

    def _statuses(self, files: pa.Table) -> Seq[FileStatus]:
        return self._partitions.statuses(files["path"].to_pylist())


_QUERY_OF_VIEW: Final = (
    "query it with splitlib.sql(spark, 'SELECT … JOIN …'), which prunes the tables that it uses."
)


class SessionConnector(Connector):
    """Connector for tables of the session's catalogs.

    The connector keeps the partitions and files that it has listed, as a DataFrame of Spark does.
    Open the table again to see changes.

    Options:
        spark (SparkSession): The session; by default the active session.
        listing_threads (int): Number of directories listed concurrently; by default the setting of
            this name.
        spark_scan (str): ``auto``, ``pinned`` or ``paths``; by default the setting of this name.
            With ``paths``, only Spark's public API is used.
        canonical_values (bool): ``true`` if integers and dates in partition values are spelled as
            Spark writes them (``5``, never ``05``). Then partitions can be requested by name. If
            this is not true for the table, partitions are missed. String keys do not need this
            option. The default is the table's property ``splitlib.canonical_values``.

    Args:
        lists: The object that lists the table's partitions and files.
    """

    def __init__(self, lists: Relation | PublicTable) -> None:
        self._lists = lists
        self.relation = lists if isinstance(lists, Relation) else None
        """Spark's relation that reads the table; None if only Spark's public API is used."""
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
                return cls(_relation(spark, name, threads, canonical=canonical))
            except TableNotFound as error:
                error.hint = similar_names(spark, name)
                raise

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
        """Return the partitions that still exist, with the details for :meth:`list_files`."""
        return self._lists.load_details(partitions)

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield the files of the given partitions."""
        return self._lists.list_files(partitions, predicate)

    @property
    def may_be_old(self) -> bool:
        """Whether Spark has listed the files before this plan, so that they may have changed."""
        return self.relation is not None and self.relation.may_be_old

    def unchanged(self, files: pa.RecordBatch, threads: int) -> pa.BooleanArray:
        """Return a mask of the files that still have the listed size and modification time."""
        assert self.relation is not None
        return self.relation.unchanged(files, threads)

    def check_identity(self) -> None:
        """Check that the table was not dropped or recreated since it was opened."""
        self._lists.check_identity()

    def read_end(self, path: str, size: int, length: int) -> bytes:
        """Return the last bytes of a file, read with the session's filesystems and credentials.

        Raises:
            UnsupportedTable: if Spark's internals are not used.
        """
        if self.relation is None:
            raise UnsupportedTable("Spark's public API does not read parts of files.")
        return self.relation.read_end(path, size, length)

    def named(self, rows: DataFrame) -> DataFrame:
        """Return ``rows`` with columns qualified by the table's name, as in ``spark.table``."""
        return self._lists.named(rows)


def session_connector(table: Table) -> SessionConnector | None:
    """Return the connector of ``table`` if it is a ``SessionConnector``, or None."""
    connector = table.connector
    return connector if isinstance(connector, SessionConnector) else None


def relation_of(table: Table) -> Relation | None:
    """Return the relation with which Spark reads a table, or None if the table has none."""
    connector = session_connector(table)
    return None if connector is None else connector.relation


def table_of(spark: SparkSession, name: str, relation: Relation, config: SplitConfig) -> Table:
    """Return a :class:`splitlib.table.Table` for a relation, in the session's time zone."""
    table = Table(name, SESSION, SessionConnector(relation), config)
    return table.in_time_zone(session_time_zone(spark))


def relation_of_leaf(
    catalyst: Catalyst,
    leaf: LogicalPlan,
    threads: int,
    known: dict[str, PartitionsByName] | None = None,
    *,
    canonical: bool | None = None,
) -> Relation | None:
    """Return the relation of a plan leaf, or None if splitlib cannot list its partitions.

    Args:
        catalyst: Access to the plans of the session.
        leaf: A leaf of an analyzed plan.
        threads: Number of directories listed concurrently.
        known: Partitions by table name, for scans that read the same table. The function adds the
            leaf's table. None if scans do not share partitions.
        canonical: Whether integers and dates in partition values are always written in canonical
            form (``5``, never ``05``); None to read this from the table's properties.
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
        has_keys = catalyst.relations.is_partitioned(leaf)
        if has_keys or not catalyst.relations.is_of_hive(leaf):
            relation = relation_of_leaf(catalyst, leaf, threads, canonical=canonical)
        else:
            relation = WholeTable(catalyst, leaf, threads)
    if relation is None:
        kind = catalyst.plans.kind(leaf)
        if kind == "View":
            raise UnsupportedTable("The table is a view.", hint=_QUERY_OF_VIEW)
        if kind in ("Filter", "Project"):
            raise changed_rows(kind)
        raise UnsupportedTable(
            f"Spark reads the table with {kind}, not from files.",
            hint="query it with splitlib.sql.",
        )
    return relation.read_by(read.plan, read.alias)
