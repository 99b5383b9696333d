"""What a connector author writes: a harness, which makes tables without the connector."""

from __future__ import annotations

import itertools
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
    """Have pytest report a test as skipped: the harness cannot do what it needs.

    Args:
        what: As in "the harness has no way to ...".
    """
    pytest.skip(f"not tried: the harness has no way to {what}")


@dataclass(frozen=True, slots=True)
class TableAddress:
    """What a user passes to ``splitlib.load_table``, besides the connector's name.

    Attributes:
        name: Of the table.
        options: The connector's own.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartition:
    """Files to be added to one partition, which may exist already.

    Attributes:
        values: By key, in the table's order, as Python values; None for the null partition. Empty
            for a table without keys.
        tables: The data columns of one Parquet file each; none at all makes an empty partition.
        hidden: Names, relative to the partition's directory, of files that no reader may take for
            data. A harness ignores them where the storage cannot hold such files.
    """

    values: Mapping[str, Any]
    tables: Sequence[pa.Table] = ()
    hidden: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One data file as it lies in the storage.

    Attributes:
        path: As in a split of the connector: a plain path on the local disk, else a URI.
        size: In bytes, as the storage says, not the connector.
        values: Of its partition.
    """

    path: str
    size: int
    values: Mapping[str, Any]


class Harness(ABC):
    """Makes tables for one connector. Must not use the connector, nor share code with it.

    The first four methods are all that it needs. With each of the others more is tried; what a
    harness leaves out is reported by pytest as skipped, "not tried: the harness has no way to ...".
    """

    @abstractmethod
    def create_table(self, data_schema: pa.Schema, partition_schema: pa.Schema) -> TableAddress:
        """A new Parquet table without partitions.

        A table without partition keys (``partition_schema`` is empty) has no files. Where the
        source has not the type of a column, call :func:`not_tried`. A CHAR(n) is a string that says
        so in its metadata, see :data:`splitlib.model.LOGICAL_TYPE`.
        """

    @abstractmethod
    def add(self, table: TableAddress, partitions: Sequence[NewPartition]) -> list[WrittenFile]:
        """Add files, and the partitions that are not there yet."""

    @abstractmethod
    def drop(self, table: TableAddress, values: Mapping[str, Any]) -> None:
        """Remove one partition, its files too."""

    @abstractmethod
    def missing_table(self) -> TableAddress:
        """The address of a table that does not exist, otherwise a good one."""

    def read_file(self, path: str) -> pa.Table:
        """The rows of one data file. To be overridden where reading needs credentials."""
        with fsspec.open(path, "rb") as file:
            return pq.read_table(file)

    def watch(self, calls: SourceCalls) -> AbstractContextManager[None]:
        """Have every call of the source pass through ``calls`` while the context lasts.

        A call is what the connector counts as one in its :class:`splitlib.model.Requests`. Nearly
        always this is enough::

            return calls.patched((MyClient, "list_partitions"), (LocalFileSystem, "ls"))
        """
        not_tried("count the calls of the source, or to have them fail (watch)")

    def failure(self, fault: Literal["unavailable", "refused"]) -> Exception:
        """What a watched call raises if the source is unavailable, or refuses the credentials."""
        if fault == "unavailable":
            return ConnectionResetError("the source has closed the connection")
        return PermissionError("the source refuses the credentials")

    def garbage(self, answer: Any) -> Any:
        """What a watched call returns, instead of ``answer``, of a source that is broken."""
        return None

    def open_connections(self) -> int:
        """How many connections to the source are open."""
        not_tried("count open connections (open_connections)")

    def in_pages(self, table: TableAddress, partitions: int) -> TableAddress:
        """The same table, of which one request lists at most so many partitions."""
        not_tried("have partitions listed in small pages (in_pages)")

    def drop_table(self, table: TableAddress) -> None:
        """Remove the table and its partitions."""
        not_tried("drop a table (drop_table)")

    def replace_table(self, table: TableAddress) -> None:
        """Remove the table, and make another one of its name and columns, without partitions."""
        not_tried("put another table in the place of one (replace_table)")

    def delete_file(self, path: str) -> None:
        """Remove one file from the storage, behind the back of the catalog."""
        fs, local = fsspec.core.url_to_fs(path)
        fs.rm(local)

    def delete_rows(self, table: TableAddress, path: str, positions: Sequence[int]) -> None:
        """Mark rows of a data file as deleted, by a deletion vector."""
        not_tried("delete rows of a file by a deletion vector (delete_rows)")


def write_files(
    location: str, partition: NewPartition, **storage_options: Any
) -> list[WrittenFile]:
    """Write one partition into the directory ``location``, beside the files that it has already."""
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


# From Hive's FileUtils.escapePathName, on purpose not from splitlib: a mistake there must not hide.
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | frozenset(map(chr, range(0x20)))


_FLOATS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def hive_text(value: Any) -> str:
    """A partition value as Hive and Spark spell it."""
    if value is None:
        return "__HIVE_DEFAULT_PARTITION__"
    match value:
        case bool():
            return str(value).lower()
        case bytes():
            return value.decode()
        case datetime():  # the wall clock, which for an instant is that of UTC
            local = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return str(local)
        case float():
            return _FLOATS.get(str(value), str(value))
    return str(value)


def hive_directory(values: Mapping[str, Any]) -> str:
    """``k1=v1/k2=v2`` as Hive names the directory of a partition."""
    escaped = {
        key: "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in hive_text(value))
        for key, value in values.items()
    }
    return "/".join(f"{key}={text}" for key, text in escaped.items())
