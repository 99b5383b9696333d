"""What a connector author writes: a harness, which makes tables without the connector."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

_file_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class TableAddress:
    """What a user passes to ``splitlib.load_table``, besides the connector's name."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartition:
    """Files to be added to one partition, which may exist already."""

    values: Mapping[str, Any]
    """By key, in the table's order, as Python values; None for the null partition. Empty for a
    table without keys."""
    tables: Sequence[pa.Table] = ()
    """The data columns of one Parquet file each; none at all makes an empty partition."""
    hidden: Sequence[str] = ()
    """Names, relative to the partition's directory, of files that no reader may take for data. A
    harness ignores them where the storage cannot hold such files."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One data file as it lies in the storage."""

    path: str
    """As in a split of the connector: a plain path on the local disk, else a URI."""
    size: int
    """In bytes, as the storage says, not the connector."""
    values: Mapping[str, Any]
    """Of its partition."""


class Harness(ABC):
    """Makes tables for one connector. Must not use the connector, nor share code with it."""

    @abstractmethod
    def create_table(self, data_schema: pa.Schema, partition_schema: pa.Schema) -> TableAddress:
        """A new Parquet table without partitions.

        A table without partition keys (``partition_schema`` is empty) has no files.
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


def hive_text(value: Any) -> str:
    """A partition value as Hive and Spark spell it."""
    if value is None:
        return "__HIVE_DEFAULT_PARTITION__"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def hive_directory(values: Mapping[str, Any]) -> str:
    """``k1=v1/k2=v2`` as Hive names the directory of a partition."""
    escaped = {
        key: "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in hive_text(value))
        for key, value in values.items()
    }
    return "/".join(f"{key}={text}" for key, text in escaped.items())
