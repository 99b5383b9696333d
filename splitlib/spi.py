"""The interface of a storage backend. A connector only lists; the engine does the matching.

A connector is a class with four methods and, if it holds resources, ``close``. An entry point of
the group ``splitlib.connectors`` gives it a name. Optional abilities are protocols, detected by
``isinstance``. ``docs/connectors.md`` is the guide, ``splitlib_files`` is small enough to copy, and
``splitlib_conformance`` is the test kit. All names that a connector needs can be imported from
here, including those of :mod:`splitlib.model` and :mod:`splitlib.errors`. ``docs/releases.md``
says what may change.

The engine turns every exception into an error of splitlib that names the connector and the table: a
``ConnectionError``, a ``TimeoutError`` or a status such as 503 becomes ``SourceUnavailable``, a
``PermissionError`` becomes ``AccessDenied``, anything else ``SourceError``. So let exceptions
through, and never return an empty result in place of an exception.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import index
from types import TracebackType
from typing import Any, Final, Protocol, Self, runtime_checkable

import pyarrow as pa

from splitlib.config import setting_named
from splitlib.errors import (
    AccessDenied,
    ConfigError,
    CorruptMetadata,
    MissingFile,
    MissingPartition,
    SnapshotNotFound,
    SourceError,
    SourceUnavailable,
    TableNotFound,
    UnsupportedTable,
    did_you_mean,
)
from splitlib.filtering.predicate import Predicate
from splitlib.model import (
    FIELD_ID,
    FILE_SCHEMA,
    INITIAL_DEFAULT,
    LOGICAL_TYPE,
    SPARK_FIELD,
    ColumnStatistics,
    DeleteFile,
    FileBatch,
    Manifests,
    PartitionBatch,
    PartitionField,
    ReadFormat,
    Requests,
    TableMetadata,
    Transform,
)

__all__ = [
    "FIELD_ID",
    "FILE_SCHEMA",
    "INITIAL_DEFAULT",
    "LOGICAL_TYPE",
    "SPARK_FIELD",
    "VERSION",
    "AccessDenied",
    "ColumnStatistics",
    "ConfigError",
    "Connector",
    "CorruptMetadata",
    "DeleteFile",
    "FileBatch",
    "Manifests",
    "MissingFile",
    "MissingPartition",
    "PartitionBatch",
    "PartitionField",
    "Predicate",
    "ReadFormat",
    "Requests",
    "SnapshotNotFound",
    "SourceError",
    "SourceUnavailable",
    "SupportsDeletionVectors",
    "SupportsHosts",
    "SupportsIdentityCheck",
    "SupportsPartitionDetails",
    "SupportsPhysicalNames",
    "SupportsStorageOptions",
    "SupportsTableNames",
    "TableMetadata",
    "TableNotFound",
    "Transform",
    "UnsupportedTable",
    "check_options",
    "deleted_positions",
]

VERSION: Final = 1
"""Version of this interface. It changes only if existing connectors would stop working."""


class Connector(ABC):
    """Read-only view of one table, as it was when opened. Runs on the driver.

    All methods may be called from several threads at once. Calls are independent: the filter of one
    call must not affect the next.

    Attributes:
        partitions_per_listing: Maximum number of partitions in one call of :meth:`list_files`.
            The engine makes many calls in parallel: 1 suits a directory listing. Use more if one
            call costs the same for many partitions.
        files_per_page: Number of files in one page, for sources whose requests can list several
            neighbouring partitions at once, in the order of :meth:`list_partitions`; 0 for others.
            If it is not 0, :attr:`partitions_per_listing` is ignored: each call of
            :meth:`list_files` gets neighbouring partitions whose files probably fit in a page,
            together with the files of the partitions in between. If file counts or the partitions
            in between are unknown, a call gets more partitions. A call may always stop after the
            first page: see :attr:`splitlib.model.FileBatch.partitions_listed`.
        spi_version: The :data:`VERSION` for which the connector was written. Write it as a number
            in your class. A splitlib with another version then refuses the connector with an error.
    """

    partitions_per_listing: int = 1
    files_per_page: int = 0
    spi_version: int = VERSION

    @classmethod
    @abstractmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Open the table ``name``. On an error, close all resources.

        Do not list files, unless the table has a snapshot: :attr:`TableMetadata.snapshot_id`. Then
        all metadata of that snapshot may be loaded here. Count these requests in
        :attr:`TableMetadata.requests`.

        Raises:
            ConfigError: for a missing, unknown or malformed option.
            TableNotFound: if there is no such table.
            UnsupportedTable: if reading it could give wrong rows.
            SourceUnavailable: if the catalog does not answer; the engine retries.
            AccessDenied: if the catalog denies access.
        """

    @abstractmethod
    def describe(self) -> TableMetadata:
        """Return schema, partition keys and format of the table, as it was when opened."""

    @abstractmethod
    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield all partitions, each once, in an order that is always the same.

        An unpartitioned table has one partition without values. A connector may use ``predicate``
        to list less, or ignore it: extra partitions are allowed, missing matches are not. The
        columns must be those that :attr:`PartitionBatch.fields` describes. Send requests lazily,
        as a generator does, and list no files here.

        Yield one batch per request. Request pages as large as the source offers, thousands of
        partitions if possible; the conformance kit rejects fewer than 4 partitions per request. A
        source that lists directories needs one request per directory above the last level.

        Raises:
            SourceUnavailable: as in :meth:`open`; the engine retries before the first batch only.
        """

    @abstractmethod
    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield the data files of some partitions; all files of one batch are read in the same way.

        Skip names that start with ``_`` or ``.``, and everything below directories of such names.
        Sizes must be exact. ``predicate`` is as in :meth:`list_partitions`; its ``keys`` are the
        columns whose statistics are useful. The engine checks each batch as far as it can (see
        :class:`splitlib.model.ColumnStatistics`), and names the connector in its errors. Wrong
        data that the engine cannot detect causes lost rows.

        Raises:
            MissingPartition: if a partition's directory does not exist. Do not treat it as empty.
            SourceUnavailable: as in :meth:`open`; the engine repeats the whole call.
        """

    def close(self) -> None:  # noqa: B027 - most connectors hold no resources
        """Release connections. The connector is not used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def check_options(given: Iterable[str], known: Iterable[str]) -> None:
    """Reject unknown options, so that a misspelled option is not silently ignored.

    Raises:
        ConfigError: naming the unknown options.
    """
    if unknown := set(given).difference(known):
        hint = did_you_mean(
            min(unknown), sorted(known), otherwise="the options of this connector are"
        )
        if setting := setting_named(min(unknown)):
            hint = f"it is a setting of SplitConfig: set {setting}."
        raise ConfigError(f"Unknown option {', '.join(sorted(unknown))}.", hint=hint)


def deleted_positions(vector: bytes, expected: int | None = None) -> pa.Int64Array:
    """Return the positions in a 64-bit roaring bitmap of Iceberg or Delta, in ascending order.

    The bitmap follows its magic bytes, and may be framed by a length and a checksum, as in files.
    Needs the package ``pyroaring``.

    Args:
        vector: The bytes of the deletion vector.
        expected: Expected number of positions; None if unknown.

    Raises:
        CorruptMetadata: if the bytes are not such a vector, or have another number of positions.
    """
    # imported here because few connectors need pyroaring
    from splitlib.arrow.deletion_vectors import bitmap_in, bitmap_in_frame, positions_of

    bitmap = bitmap_in(vector) or bitmap_in_frame(vector)
    if bitmap is None:
        raise CorruptMetadata("The bytes are not a deletion vector.")
    try:
        return pa.array(positions_of(bitmap, expected))
    except ValueError as error:
        raise CorruptMetadata(f"The bytes are not a deletion vector: {error}") from error


def flag(options: Mapping[str, Any], name: str) -> bool:
    """Return a boolean option, given as a bool or as text in any letter case; False if missing.

    Raises:
        ConfigError: if it is neither true nor false.
    """
    value = options.get(name, False)
    known = {"true": True, "false": False}
    if str(value).lower() not in known:
        raise ConfigError(f"Option {name} must be true or false, not {value!r}.")
    return known[str(value).lower()]


def integer(name: str, value: Any) -> int:
    """Return an option that is a whole number, given as a number or as text.

    Raises:
        ConfigError: if it is not a whole number.
    """
    try:
        if not isinstance(value, bool):
            return int(value) if isinstance(value, str) else index(value)
    except (TypeError, ValueError):
        pass
    raise ConfigError(f"{name} must be a whole number, not {value!r}.")


def milliseconds(name: str, moment: Any) -> int:
    """Return an option that is a time, in milliseconds since the epoch.

    It may be given as a datetime or ISO 8601 text with a time zone, or in milliseconds.

    Raises:
        ConfigError: if it is not such a time.
    """
    if isinstance(moment, str) and not moment.strip().isdigit():
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise ConfigError(f"{name} is not a time in ISO 8601: {moment!r}.") from None
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ConfigError(f"{name} has no time zone.", hint="write 2024-01-31T12:00:00Z.")
        return int(moment.timestamp() * 1000)
    return integer(name, moment)


@runtime_checkable
class SupportsPartitionDetails(Protocol):
    """Listing partition names is cheap; the engine loads details of matching partitions only."""

    @property
    def partitions_per_details(self) -> int:
        """Maximum number of partitions in one call of :meth:`load_details`."""

    def load_details(self, partitions: PartitionBatch) -> PartitionBatch:
        """Return the same partitions in the same order, with the details for ``list_files``.

        Leave out partitions that were dropped since they were listed.
        """


@runtime_checkable
class SupportsIdentityCheck(Protocol):
    """The catalog can distinguish a table from a later table of the same name."""

    def check_identity(self) -> None:
        """Check that the table is still the one that was opened.

        The engine calls this at the end of an enumeration that found no partitions, or found some
        that no longer exist: the partitions may have been dropped one by one, or with the table.

        Raises:
            TableNotFound: if the table was dropped, or replaced by another of the same name, as far
                as the catalog can distinguish the two.
        """


@runtime_checkable
class SupportsTableNames(Protocol):
    """The catalog can list its tables. This is a class method because no table is open."""

    @classmethod
    def table_names(
        cls, database: str | None, options: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Yield the database and name of each table, without duplicates, sorted by both.

        Args:
            database: Database to list; None means all.
            options: Options as in :meth:`Connector.open`.

        Raises:
            TableNotFound: if there is no such database.
        """


@runtime_checkable
class SupportsHosts(Protocol):
    """The storage reports the hosts that store the bytes of a file."""

    def hosts(self, paths: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return the host names of each file, in the order of ``paths``; empty means unknown.

        Called in parallel, each call with the files of one listing.
        """


@runtime_checkable
class SupportsStorageOptions(Protocol):
    """Reading the table's files needs credentials that readers do not have by default."""

    def storage_options(self, protocol: str) -> Mapping[str, Any]:
        """Return fsspec options that give access to the files; an empty mapping if none are needed.

        The options come from the user, or from the catalog when the table was opened. This method
        sends no requests.

        Args:
            protocol: fsspec's name of the file system, such as ``s3``.
        """


@runtime_checkable
class SupportsPhysicalNames(Protocol):
    """Columns are matched by field id; their names in each file can be looked up."""

    def with_physical_names(self, files: FileBatch) -> Iterator[FileBatch]:
        """Yield the same files, with pairs of field id and name in ``read_format.columns``.

        All files of one batch have the same names for their columns. Used for readers that cannot
        match columns by field id. May open every file.

        Raises:
            MissingFile: if a file no longer exists.
        """


@runtime_checkable
class SupportsDeletionVectors(Protocol):
    """Deleted rows may be stored as a deletion vector, which the connector decodes."""

    def read_vector(self, delete: DeleteFile) -> pa.Int64Array:
        """Return the positions of the deleted rows in their data file, ascending.

        Raises:
            CorruptMetadata: if the bytes are not a valid deletion vector.
            MissingFile: if the file no longer exists.
        """
