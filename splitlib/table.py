"""``Table``: an open table, which calls its connector with retries, deadlines and checks.

Errors from these calls name the connector and the table.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar, runtime_checkable

import pyarrow as pa

from splitlib.arrow.parquet_footer import footer
from splitlib.arrow.values import in_zone, is_instant
from splitlib.checks import (
    PartitionsOnce,
    check_listed_in_part,
    check_same_files,
    checked_files,
    checked_partitions,
    files_once,
    paths_in,
)
from splitlib.config import SplitConfig, refuse_other_than_config
from splitlib.errors import CorruptMetadata, UnsupportedTable, error_context
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import Predicate
from splitlib.model import DeleteFile, FileBatch, PartitionBatch, TableMetadata
from splitlib.redaction import redact, remember
from splitlib.remote.calls import current_call, run_bounded
from splitlib.remote.retry import source_call
from splitlib.spi import (
    Connector,
    SupportsDeletionVectors,
    SupportsHosts,
    SupportsIdentityCheck,
    SupportsPartitionDetails,
    SupportsPhysicalNames,
    SupportsStorageOptions,
)
from splitlib.storage import StoredFile, located, only_within, refuse_outside

if TYPE_CHECKING:
    from splitlib.storage import Storage

T = TypeVar("T")

# Maximum number of files that one call opens, because all of them share the call's deadline.
_FILES_PER_CALL: Final = 500
# Maximum size of a footer that is read for statistics, in bytes. A footer needs about 100 bytes per
# column and row group.
_MOST_FOOTER: Final = 32 << 20


@runtime_checkable
class ReadsFooters(Protocol):
    """A connector that reads footers itself, because no fsspec options give access to its files."""

    def read_end(self, path: str, size: int, length: int) -> bytes:
        """Return the last ``length`` bytes of a file of ``size`` bytes. Must be thread-safe."""


@runtime_checkable
class KeepsListings(Protocol):
    """A connector that may return an old list of files, because Spark caches these lists."""

    may_be_old: bool

    def unchanged(self, files: pa.RecordBatch, threads: int) -> pa.BooleanArray:
        """Return a mask of the files that still have the listed size and modification time."""


class Table:
    """An open table, with its metadata at the time of opening.

    All calls to a connector go through this class. Calls are retried while the source is
    unavailable, until the call's deadline. Errors name the connector and the table. Results are
    checked, and an incomplete result raises an error.

    Args:
        name: Name of the table.
        connector_name: Name of the connector, for errors.
        connector: The connector.
        config: Settings for methods that are called without ``config``; by default taken from
            environment variables. Its ``allowed_locations`` apply to every call, in addition to
            those of the settings passed to a method.
        storage_options: Options of the fsspec filesystem with which the table was opened; None to
            use the connector's options.

    Raises:
        LocationNotAllowed: if the table is outside of ``allowed_locations``.
    """

    def __init__(
        self,
        name: str,
        connector_name: str,
        connector: Connector,
        config: SplitConfig | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.connector_name = connector_name
        self.connector = connector
        self._config = config
        self._given_storage = storage_options
        self._storages: dict[str, Storage] = {}
        self._time_zone: str | None = None
        with self._context():
            self.metadata: TableMetadata = connector.describe()
            with self._only_allowed(self.settings(config)):
                self._refuse_location()
            names = [key.lower() for key in self.partition_keys]
            if len({*names}) < len(names):
                raise UnsupportedTable(
                    f"Partition columns differ only in case: {', '.join(self.partition_keys)}.",
                    hint="rename one of them.",
                )

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema with the catalog's types: the data columns, then the partition columns."""
        return self.metadata.schema

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Names of the partition columns, in order."""
        return self.metadata.partition_keys

    def list_accepted_filter_fields(self) -> tuple[str, ...]:
        """Return the names of the columns on which join keys can prune partitions or files."""
        return tuple(self.metadata.filter_schema.names)

    def in_time_zone(self, zone: str) -> Self:
        """Return a copy of this table that uses the time zone ``zone`` for timestamps.

        Hive stores a partition's timestamp as wall-clock text, so the instant depends on the
        reader's time zone. Comparisons of dates or local times with instants also depend on it.

        Raises:
            ConfigError: if Arrow does not have this time zone.
        """
        moved = copy.copy(self)
        moved._time_zone = zone
        moved.metadata = replace(
            self.metadata,
            schema=in_zone(self.schema, zone),
            filter_schema=in_zone(self.metadata.filter_schema, zone),
        )
        return moved

    def in_its_time_zone(self, data: DynamicFilteringData) -> DynamicFilteringData:
        """Return a filter with the time zone of :meth:`in_time_zone`, if this has been called."""
        return data if self._time_zone is None else data.in_time_zone(self._time_zone)

    def list_partitions(
        self, predicate: Predicate, config: SplitConfig | None = None
    ) -> Iterator[PartitionBatch]:
        """Yield batches of partitions, including all that match the predicate.

        See :meth:`splitlib.spi.Connector.list_partitions`. Failed calls are retried only until the
        first batch arrives, because a later retry could repeat batches.
        """
        config = self.settings(config)

        self._refuse_other_time_zone()

        def begin() -> tuple[Iterator[PartitionBatch], PartitionBatch | None]:
            self._refuse_location()
            batches = self.connector.list_partitions(predicate)
            return batches, following(batches)

        def following(batches: Iterator[PartitionBatch]) -> PartitionBatch | None:
            batch = next(batches, None)
            return None if batch is None else checked_partitions(batch, self.metadata)

        batches, batch = self._call(begin, config)
        once = replace(config, retry_attempts=1)
        partitions = PartitionsOnce()
        while batch is not None:
            yield partitions.first_of(batch)
            batch = self._call(lambda: following(batches), once)

    def _refuse_other_time_zone(self) -> None:
        """Reject timestamps in partition values if a read option sets another time zone for them.

        Spark parses them in the zone of the option, and splitlib in the zone of this table.
        """
        options = {name.lower(): value for name, value in self.metadata.read_format.options}
        own, zone = options.get("timezone"), self._time_zone or "UTC"
        if own not in (None, zone) and any(
            is_instant(field.type) for field in self.metadata.partition_schema
        ):
            raise UnsupportedTable(
                f"The table's option timeZone is {own}, and the time zone in use is {zone}, so its "
                "timestamps in partition values would be wrong.",
                hint=f"set spark.sql.session.timeZone to {own}, or read the table with Spark.",
            )

    @property
    def partitions_per_listing(self) -> int:
        """Maximum number of partitions in one call to :meth:`list_files`."""
        return self.connector.partitions_per_listing

    @property
    def files_per_page(self) -> int:
        """Number of files per page, or 0 if one request cannot list several partitions."""
        return self.connector.files_per_page

    @property
    def partitions_per_details(self) -> int | None:
        """Maximum number of partitions per call to :meth:`load_details`.

        None means that the connector does not load details.
        """
        if isinstance(self.connector, SupportsPartitionDetails):
            return self.connector.partitions_per_details
        return None

    def load_details(
        self, partitions: PartitionBatch, config: SplitConfig | None = None
    ) -> PartitionBatch:
        """Return the partitions with the details that are required to list their files.

        See :meth:`splitlib.spi.SupportsPartitionDetails.load_details`.
        """
        connector = self.connector
        assert isinstance(connector, SupportsPartitionDetails)

        def load() -> PartitionBatch:
            loaded = connector.load_details(partitions)
            return checked_partitions(loaded, self.metadata)

        return self._call(load, config)

    def check_identity(self, config: SplitConfig | None = None) -> None:
        """Check that the table was not dropped or replaced, if the connector can detect this.

        See :meth:`splitlib.spi.SupportsIdentityCheck.check_identity`.
        """
        if isinstance(connector := self.connector, SupportsIdentityCheck):
            self._call(connector.check_identity, config)

    def list_files(
        self, partitions: PartitionBatch, predicate: Predicate, config: SplitConfig | None = None
    ) -> list[FileBatch]:
        """Return all data files of ``partitions``.

        See :meth:`splitlib.spi.Connector.list_files`. An incomplete listing raises an error.

        Raises:
            LocationNotAllowed: if a file is outside of ``allowed_locations``.
        """

        def find() -> list[FileBatch]:
            found = self.connector.list_files(partitions, predicate)
            batches = [checked_files(batch, partitions, self.metadata) for batch in found]
            check_listed_in_part(batches)
            refuse_outside(paths_in(batches))
            if self.metadata.snapshot_id is not None:
                # A snapshot may contain a file twice. Its rows then count twice, so keep both.
                return batches
            return files_once(batches)

        return self._call(find, config)

    def hosts(
        self, paths: Sequence[str], config: SplitConfig | None = None
    ) -> list[Sequence[str]] | None:
        """Return a list of host names per file, or None if the connector does not report hosts."""
        connector = self.connector
        if not isinstance(connector, SupportsHosts):
            return None

        def request() -> list[Sequence[str]]:
            found = list(connector.hosts(paths))
            if len(found) != len(paths):
                raise CorruptMetadata(
                    f"The connector returned the hosts of {len(found)} files, not {len(paths)}."
                )
            for hosts in found:
                if isinstance(hosts, str) or not all(isinstance(host, str) for host in hosts):
                    raise CorruptMetadata(f"The hosts of a file must be names, not {hosts!r}.")
            return found

        return self._call(request, config)

    def storage_options(self, protocol: str) -> Mapping[str, Any]:
        """Return the fsspec options to open the table's files; empty if the connector has none.

        See :meth:`splitlib.spi.SupportsStorageOptions.storage_options`.
        """
        if not isinstance(connector := self.connector, SupportsStorageOptions):
            return {}
        with self._context():
            found = connector.storage_options(protocol)
        remember(self.name, found)
        return found

    def read_footer(self, file: StoredFile, config: SplitConfig | None = None) -> bytes:
        """Return the last bytes of a listed Parquet file, which include its footer.

        If the connector cannot read files itself, the bytes are read with the table's storage
        options. Failed reads are not retried.

        Raises:
            SplitlibError: if the file cannot be read, or has changed.
            pyarrow.ArrowInvalid: if the footer is too large.
        """
        return footer(file.size, lambda length: self.read_end(file, length, config), _MOST_FOOTER)

    def read_end(self, file: StoredFile, length: int, config: SplitConfig | None = None) -> bytes:
        """Return the last ``length`` bytes of a listed file, as for :meth:`read_footer`."""
        with self._context(), self._only_allowed(self.settings(config)):
            refuse_outside([file.path])
            if isinstance(self.connector, ReadsFooters):
                return self.connector.read_end(file.path, file.size, length)
            return self._storage(file.path).read_end(file, length)

    @property
    def may_be_old(self) -> bool:
        """Whether the connector's lists of files may be out of date."""
        return isinstance(self.connector, KeepsListings) and self.connector.may_be_old

    def unchanged(self, files: pa.RecordBatch, config: SplitConfig) -> pa.BooleanArray:
        """Return a mask of the files that still have the listed size and modification time."""
        if isinstance(self.connector, KeepsListings) and self.may_be_old and len(files):
            with self._context():
                return self.connector.unchanged(files, config.listing_threads)
        return pa.repeat(pa.scalar(True), len(files))

    def _storage(self, path: str) -> Storage:
        """Return the storage client for a path. Clients are cached, one per protocol."""
        from splitlib.storage import Storage  # Imported here because it imports fsspec (slow).

        protocol = located(path).protocol
        if protocol not in self._storages:
            given = self._given_storage
            options = self.storage_options(protocol) if given is None else given
            self._storages.setdefault(protocol, Storage(options))
        return self._storages[protocol]

    @property
    def knows_physical_names(self) -> bool:
        """Whether :meth:`with_physical_names` can look up column names in each file."""
        return isinstance(self.connector, SupportsPhysicalNames)

    def with_physical_names(
        self, files: FileBatch, config: SplitConfig | None = None
    ) -> list[FileBatch]:
        """Return batches of the files, with the column names that each file uses.

        See :meth:`splitlib.spi.SupportsPhysicalNames.with_physical_names`. Several batches may have
        the same column names.
        """
        connector = self.connector
        assert isinstance(connector, SupportsPhysicalNames)

        def named(piece: FileBatch) -> list[FileBatch]:
            found = list(connector.with_physical_names(piece))
            check_same_files(found, piece)
            return found

        rows = pa.array(range(len(files)), pa.int64())
        pieces = (
            files.take(rows[start : start + _FILES_PER_CALL])
            for start in range(0, len(files), _FILES_PER_CALL)
        )
        return [one for piece in pieces for one in self._call(partial(named, piece), config)]

    def read_vector(self, delete: DeleteFile, config: SplitConfig | None = None) -> pa.Int64Array:
        """Return the row positions that a deletion vector deletes, in ascending order.

        Raises:
            UnsupportedTable: if the connector does not decode deletion vectors.
        """
        connector = self.connector
        if not isinstance(connector, SupportsDeletionVectors):
            name = self.connector_name
            raise UnsupportedTable(f"Connector {name} does not decode deletion vectors.")

        def read() -> pa.Int64Array:
            found = connector.read_vector(delete)
            if found.type != pa.int64() or found.null_count:
                raise CorruptMetadata(
                    "The positions of a deletion vector must be int64 without nulls."
                )
            return found

        return self._call(read, config)

    def close(self) -> None:
        """Close the connector and its connections."""
        with self._context():
            self.connector.close()

    def _call(self, work: Callable[[], T], config: SplitConfig | None) -> T:
        config = self.settings(config)

        def call() -> T:
            with self._only_allowed(config):
                return source_call(work, config, connector=self.connector_name, table=self.name)

        if current_call() is not None:  # Nested call: the outer call has the deadline.
            return call()
        with self._context():
            return run_bounded(call, config)

    def refuse_outside(self, paths: Iterable[str], config: SplitConfig | None = None) -> None:
        """Check the locations of table files that the connector did not list.

        Raises:
            LocationNotAllowed: if a path is outside of ``allowed_locations``.
        """
        with self._context(), self._only_allowed(self.settings(config)):
            refuse_outside(paths)

    def _only_allowed(self, config: SplitConfig) -> AbstractContextManager[None]:
        """Restrict a ``with`` block to locations that the table's settings and ``config`` allow."""
        own = None if self._config is None else self._config.allowed_locations
        if own is None and config.allowed_locations is None:
            return nullcontext()
        return only_within(own, config.allowed_locations)

    def _refuse_location(self) -> None:
        refuse_outside(filter(None, [self.metadata.location]))

    def settings(self, config: SplitConfig | None) -> SplitConfig:
        """Return ``config``, or the table's own settings if it is None."""
        refuse_other_than_config(config)
        return config or self._config or SplitConfig.resolve()

    def _context(self) -> Any:
        return error_context(connector=self.connector_name, table=self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        keys = ", ".join(self.partition_keys) or "unpartitioned"
        return f"Table({redact(self.name)!r}, connector={self.connector_name!r}, keys=[{keys}])"
