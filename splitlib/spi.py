"""What a storage backend implements. A connector only lists; the engine decides what matches.

A connector is a class with four methods and, where there is something to give back, ``close``. It
is found under its name by an entry point of the group ``splitlib.connectors``. Abilities beyond
that are protocols, detected by ``isinstance``. The guide is ``docs/connectors.md``,
``splitlib_files`` is small enough to copy, and ``splitlib_conformance`` is the test kit. What the
methods take and return is here, in :mod:`splitlib.model` and in :mod:`splitlib.errors`.

Whatever a method raises becomes an error of splitlib that names connector and table: a
``ConnectionError``, a ``TimeoutError`` or a status such as 503 is ``SourceUnavailable``, a
``PermissionError`` is ``AccessDenied``, all else is ``SourceError``. So an error is best left
alone, and must never become an empty answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

import pyarrow as pa

from splitlib.errors import ConfigError
from splitlib.filtering.predicate import Predicate
from splitlib.model import DeleteFile, FileBatch, PartitionBatch, TableMetadata

__all__ = [
    "Connector",
    "Predicate",
    "SupportsDeletionVectors",
    "SupportsHosts",
    "SupportsIdentityCheck",
    "SupportsPartitionDetails",
    "SupportsPhysicalNames",
    "SupportsStorageOptions",
    "SupportsTableNames",
    "check_options",
]


class Connector(ABC):
    """Read-only view of one table, as of when it was opened. Lives on the driver.

    All methods may be called from several threads at once. What one call is given, a filter above
    all, says nothing about the next.

    Attributes:
        partitions_per_listing: How many partitions one call of :meth:`list_files` is given at most.
            The engine makes many calls at the same time: 1 suits a directory listing. Raise it
            where a call costs the same for many.
        files_per_page: How many files one request tells, where it can tell those of neighbours at
            once: of partitions that come one after the other from :meth:`list_partitions`. 0 = it
            cannot. If not 0, :meth:`list_files` is given neighbours whose files probably fit in a
            page, together with those of the partitions in between, and not
            :attr:`partitions_per_listing`. Where it is not known how many files they have, or what
            is in between, it is given more. It may always list no more than the first that a
            request tells: :attr:`splitlib.model.FileBatch.partitions_listed`.
    """

    partitions_per_listing: int = 1
    files_per_page: int = 0

    @classmethod
    @abstractmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Open the table ``name``. No files are listed, and what was opened is closed if it raises.

        Raises:
            ConfigError: for a missing, unknown or malformed option.
            TableNotFound: if there is no such table.
            UnsupportedTable: if reading it could give wrong rows.
            SourceUnavailable: if the catalog does not answer; the engine tries again.
            AccessDenied: if the catalog refuses.
        """

    @abstractmethod
    def describe(self) -> TableMetadata:
        """Schema, typed partition keys and format of the table, as of when it was opened."""

    @abstractmethod
    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """All partitions, each once, in an order that is the same every time.

        An unpartitioned table has one partition without values. ``predicate`` may be used to list
        less, and may be ignored: yielding too much is right, missing a match is not. The columns
        have to be those that :attr:`PartitionBatch.values` describes. Nothing is to be listed
        before it is asked for, as in a generator, and no files at all.

        Partitions come in pages: one request, one batch. A page is as large as the source gives
        it, thousands if it does; the kit refuses less than 4 partitions a request. A source that
        lists directories needs one request for each directory above the last level.

        Raises:
            SourceUnavailable: as in :meth:`open`; tried again if nothing was yielded yet.
        """

    @abstractmethod
    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """The data files of some partitions; those of one batch are read in the same way.

        Names that start with ``_`` or ``.`` are not data, nor is what lies below such directories.
        Sizes are exact. ``predicate`` is as in :meth:`list_partitions`; its ``keys`` are the
        columns of which statistics are of use. The engine checks what it can of a batch (see
        :class:`splitlib.model.ColumnStatistics`), and names the connector in its error; what it
        cannot check has to be right, or rows are lost.

        Raises:
            MissingPartition: if a partition's directory does not exist; it is not taken for empty.
            SourceUnavailable: as in :meth:`open`; the whole call is made again.
        """

    def close(self) -> None:  # noqa: B027 - most connectors have nothing to give back
        """Give back connections. The connector is not used afterwards."""

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
    """Refuse options that a connector does not have: a misspelt one would be ignored.

    Raises:
        ConfigError: naming them.
    """
    if unknown := set(given).difference(known):
        raise ConfigError(
            f"Unknown option {', '.join(sorted(unknown))}.",
            hint=f"the options of this connector are {', '.join(sorted(known))}.",
        )


def flag(options: Mapping[str, Any], name: str) -> bool:
    """An option that is either true or false, in whatever case; false where it is not given.

    Raises:
        ConfigError: if it is neither.
    """
    value = options.get(name, False)
    known = {"true": True, "false": False}
    if str(value).lower() not in known:
        raise ConfigError(f"Option {name} must be true or false, not {value!r}.")
    return known[str(value).lower()]


@runtime_checkable
class SupportsPartitionDetails(Protocol):
    """Names are cheap and the rest is not: details are loaded for matching partitions only."""

    @property
    def partitions_per_details(self) -> int:
        """How many partitions one call of :meth:`load_details` is given at most."""

    def load_details(self, partitions: PartitionBatch) -> PartitionBatch:
        """The same partitions in the same order, with what :meth:`Connector.list_files` needs.

        Partitions that have been dropped since they were listed are left out.
        """


@runtime_checkable
class SupportsIdentityCheck(Protocol):
    """The catalog can tell a table from another one that has taken its name."""

    def check_identity(self) -> None:
        """Make sure that the table is still the one that was opened.

        Asked at the end of an enumeration for which partitions had gone, or that found none: they
        may have been dropped one by one, or with the table.

        Raises:
            TableNotFound: if it was dropped, also if there is another of its name by now, as far as
                the catalog can tell the two.
        """


@runtime_checkable
class SupportsTableNames(Protocol):
    """The catalog says which tables it has; the class is asked, as no table is open."""

    @classmethod
    def table_names(
        cls, database: str | None, options: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Database and table of each table, each once, in order.

        Args:
            database: None = of all.
            options: The same as for :meth:`Connector.open`.

        Raises:
            TableNotFound: if there is no such database.
        """


@runtime_checkable
class SupportsHosts(Protocol):
    """The storage says on which hosts the bytes of a file lie."""

    def hosts(self, paths: Sequence[str]) -> Sequence[Sequence[str]]:
        """The names of the hosts of each file, in the order of ``paths``; empty = not known.

        Asked with the files of one listing at a time, in parallel.
        """


@runtime_checkable
class SupportsStorageOptions(Protocol):
    """The table's files are reached with credentials that its readers do not have by themselves."""

    def storage_options(self, protocol: str) -> Mapping[str, Any]:
        """Options of fsspec's filesystem of ``protocol`` that reach the files; empty = none needed.

        They are those that the user has given, or that the catalog has handed out for this table,
        as of when it was opened. Nothing is asked of the source.

        Args:
            protocol: fsspec's name of it, such as ``s3``.
        """


@runtime_checkable
class SupportsPhysicalNames(Protocol):
    """Columns are found by identifier; the names that they have in each file can be looked up."""

    def with_physical_names(self, files: FileBatch) -> Iterator[FileBatch]:
        """The same files, with the names in them as pairs in ``read_format.columns``.

        Those of one batch have the same names. For a reader that cannot find columns by
        identifier; it may open every file.

        Raises:
            MissingFile: if a file has gone.
        """


@runtime_checkable
class SupportsDeletionVectors(Protocol):
    """Deleted rows may be kept as a vector, decoded here and not by the reader."""

    def read_vector(self, delete: DeleteFile) -> pa.Int64Array:
        """The positions of the deleted rows in their data file, ascending.

        Raises:
            CorruptMetadata: if the bytes are no such vector.
            MissingFile: if the file has gone.
        """
