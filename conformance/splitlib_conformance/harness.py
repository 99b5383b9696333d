"""The harness, which creates tables for the tests. A connector's author implements it."""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NoReturn

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from splitlib_conformance.source_calls import SourceCalls

_file_numbers = itertools.count()


def not_tried(what: str) -> NoReturn:
    """Skip the current test, because the harness cannot do ``what``.

    Args:
        what: A verb phrase that completes "the harness has no way to ...".
    """
    pytest.skip(f"not tried: the harness has no way to {what}")


@dataclass(frozen=True, slots=True)
class TableAddress:
    """The arguments of ``splitlib.load_table``, apart from the connector's name.

    Attributes:
        name: Name of the table.
        options: Options of the connector.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartition:
    """Files to add to one partition, which may exist already.

    Attributes:
        values: Python values by key, in the table's order. None means the null partition. Empty for
            a table without partition keys.
        tables: Data columns, as one table per Parquet file. Without tables, the partition is empty.
        hidden: Names of additional files that readers must skip, relative to the partition's
            directory. A harness does not write them if its storage does not support such files.
    """

    values: Mapping[str, Any]
    tables: Sequence[pa.Table] = ()
    hidden: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One data file in the storage.

    Attributes:
        path: Path as in the connector's splits: a plain path on the local disk, or a URI.
        size: Size in bytes, as the storage reports it.
        values: The file's partition values, by key.
    """

    path: str
    size: int
    values: Mapping[str, Any]


class Harness(ABC):
    """Creates tables for one connector, without using the connector or sharing code with it.

    Only the four abstract methods are required. Each other method enables more tests. A test that
    uses a missing method is skipped with the reason "not tried: the harness has no way to ...".
    """

    @abstractmethod
    def create_table(self, data_schema: pa.Schema, partition_schema: pa.Schema) -> TableAddress:
        """Create a Parquet table without partitions or files.

        ``partition_schema`` is empty for an unpartitioned table. If the source does not support the
        type of a column, call :func:`not_tried`. A column of type CHAR(n) is a string field with
        the type in its metadata, under the key :data:`splitlib.model.LOGICAL_TYPE`.
        """

    @abstractmethod
    def add(self, table: TableAddress, partitions: Sequence[NewPartition]) -> list[WrittenFile]:
        """Add files to partitions, creating missing partitions, and return the files."""

    @abstractmethod
    def drop(self, table: TableAddress, values: Mapping[str, Any]) -> None:
        """Remove one partition and its files."""

    @abstractmethod
    def missing_table(self) -> TableAddress:
        """Return a valid address of a table that does not exist."""

    def read_file(self, path: str) -> pa.Table:
        """Return the rows of one data file. Override this if reading needs credentials."""
        with fsspec.open(path, "rb") as file:
            return pq.read_table(file)

    def watch(self, calls: SourceCalls) -> AbstractContextManager[None]:
        """Route every call to the source through ``calls`` until the ``with`` block ends.

        Include the calls that the connector counts in its :class:`splitlib.model.Requests`, and the
        calls in ``open``, but no others. This implementation, with your clients' methods, is nearly
        always enough::

            return calls.patched(
                catalog=[(MyClient, "list_partitions")], storage=[(LocalFileSystem, "ls")]
            )
        """
        not_tried("count the calls of the source, or make them fail (watch)")

    def failure(self, fault: Literal["unavailable", "refused"]) -> Exception:
        """Return the exception that the source's client raises for a kind of failure.

        Args:
            fault: ``unavailable`` if the source does not respond, ``refused`` if it denies access.
        """
        if fault == "unavailable":
            return ConnectionResetError("the source has closed the connection")
        return PermissionError("the source refuses the credentials")

    def garbage(self, answer: Any) -> Any:
        """Return a malformed response to use in place of the correct response ``answer``."""
        return None

    def open_connections(self) -> int:
        """Return the number of open connections to the source.

        By default, this is the number of open files and sockets in this process. Override this
        method if your connections are neither files nor sockets.
        """
        try:
            return len(os.listdir("/dev/fd"))
        except FileNotFoundError:
            not_tried("count open connections (open_connections)")

    def in_pages(self, table: TableAddress, partitions: int) -> TableAddress:
        """Return an address of the same table that lists at most ``partitions`` per request.

        Other tests list a table of some thousand partitions. Override this method if your pages are
        larger than that.
        """
        not_tried("list partitions in small pages (in_pages)")

    def drop_table(self, table: TableAddress) -> None:
        """Remove the table and its partitions."""
        not_tried("drop a table (drop_table)")

    def replace_table(self, table: TableAddress) -> None:
        """Replace the table with a new one of the same name and columns, without partitions."""
        not_tried("replace a table by another (replace_table)")

    def delete_file(self, path: str) -> None:
        """Remove one file from the storage, without changing the catalog."""
        fs, local = fsspec.core.url_to_fs(path)
        fs.rm(local)

    def delete_rows(self, table: TableAddress, path: str, positions: Sequence[int]) -> None:
        """Mark rows of a data file as deleted by a deletion vector."""
        not_tried("delete rows of a file by a deletion vector (delete_rows)")


def write_files(
    location: str, partition: NewPartition, **storage_options: Any
) -> list[WrittenFile]:
    """Add the files of one partition to the directory ``location``, and return the data files."""
    fs, directory = fsspec.core.url_to_fs(location, **storage_options)
    fs.makedirs(directory, exist_ok=True)
    for name in partition.hidden:
        path = f"{directory}/{name}"
        fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        fs.pipe_file(path, b"not data")
    written = []
    for table in partition.tables:
        name = f"part-{next(_file_numbers):05}.parquet"
        with fs.open(f"{directory}/{name}", "wb") as file:
            pq.write_table(table, file)
        size = int(fs.size(f"{directory}/{name}"))
        written.append(WrittenFile(f"{location}/{name}", size, partition.values))
    return written


# Characters that Hive escapes. They are copied from Hive's FileUtils.escapePathName and not from
# splitlib, so that tests find errors in splitlib's own list.
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | frozenset(map(chr, range(0x20)))


_FLOATS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def hive_text(value: Any) -> str:
    """Return a partition value as Hive and Spark write it."""
    if value is None:
        return "__HIVE_DEFAULT_PARTITION__"
    match value:
        case bool():
            return str(value).lower()
        case bytes():
            return value.decode()
        case datetime():  # Instants are written in UTC.
            local = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return str(local)
        case float():
            return _FLOATS.get(str(value), str(value))
    return str(value)


def hive_directory(values: Mapping[str, Any]) -> str:
    """Return the name that Hive gives a partition's directory, such as ``k1=v1/k2=v2``."""
    escaped = {
        key: "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in hive_text(value))
        for key, value in values.items()
    }
    return "/".join(f"{key}={text}" for key, text in escaped.items())
