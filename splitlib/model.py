"""What travels from a catalog to a reader: tables, partitions, files, splits.

Partitions and files travel as Arrow batches; only a :class:`FileSplit`, made last, is a Python
object each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

# Arrow has no CHAR(n) or VARCHAR(n): a field of type string that is one says so in its metadata
# under this key, as b"char(5)" or b"varchar(7)".
LOGICAL_TYPE = b"splitlib.logical_type"

FILE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified", pa.int64(), nullable=False),
        pa.field("partition", pa.int64(), nullable=False),
    ]
)
"""Columns of :attr:`FileBatch.files`: the path (plain and absolute on the local disk, else a URI
spelled as Hadoop's ``Path`` does, not percent-encoded), exact length in bytes, modification time in
milliseconds since the epoch (0 = unknown), and the row of the partition in the batch it was listed
for."""


class Requests(NamedTuple):
    """How many calls something took."""

    catalog: int = 0
    storage: int = 0


@dataclass(frozen=True, slots=True)
class ReadFormat:
    """How to read the bytes of a file."""

    name: str
    """``parquet``, ``orc``, ``avro``, ``json``, ``csv``, ``text``, ``hive-text``, ``hive-csv``."""
    options: tuple[tuple[str, str], ...] = ()
    """Sorted pairs: Spark's data source options, or the SerDe's properties for ``hive-…``."""

    @classmethod
    def of(cls, name: str, options: Mapping[str, str] | None = None) -> ReadFormat:
        """A format with ``options`` in canonical order, so that equal ones compare equal."""
        return cls(name, tuple(sorted((options or {}).items())))


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """What a connector says of the table that it has opened."""

    schema: pa.Schema
    """Data columns, then partition columns, in the catalog's types."""
    partition_keys: tuple[str, ...]
    read_format: ReadFormat
    location: str | None = None
    snapshot_id: str | None = None
    spark_schema: str | None = None
    """Spark's own JSON of ``schema`` where the catalog keeps one: it can say what Arrow cannot
    (column defaults, collations, intervals)."""

    @property
    def partition_schema(self) -> pa.Schema:
        """The partition columns alone."""
        return pa.schema([self.schema.field(key) for key in self.partition_keys])

    @property
    def data_schema(self) -> pa.Schema:
        """The columns that lie in the files."""
        return pa.schema([f for f in self.schema if f.name not in self.partition_keys])


@dataclass(frozen=True, slots=True)
class PartitionBatch:
    """Some partitions of one table.

    An unpartitioned table has one partition without values.
    """

    values: pa.RecordBatch
    """A column per partition key, in the table's order: typed, or the catalog's text (unescaped,
    null for the null partition), which the engine parses with the table's type."""
    refs: pa.Array
    """The connector's own handle of each partition, of any Arrow type, opaque to everyone else."""
    requests: Requests = Requests()
    """What it took to list them."""

    def __len__(self) -> int:
        # not values.num_rows: a batch without columns has no rows
        return len(self.refs)

    def take(self, indices: pa.Array) -> PartitionBatch:
        """The partitions at ``indices``; the requests are not counted again."""
        values = self.values.take(indices) if self.values.num_columns else self.values
        return PartitionBatch(values, self.refs.take(indices))

    def slice(self, offset: int, length: int) -> PartitionBatch:
        """A view of ``length`` partitions; the requests are not counted again."""
        return PartitionBatch(self.values.slice(offset, length), self.refs.slice(offset, length))


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Files of some partitions that are read in the same way."""

    files: pa.RecordBatch
    """Columns as in :data:`FILE_SCHEMA`."""
    read_format: ReadFormat
    requests: Requests = Requests()

    def __len__(self) -> int:
        return int(self.files.num_rows)


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A byte range of one file: the unit of work of a reader. Pickles."""

    split_id: str
    """Depends on the file, its partition and the range alone: the same in every run."""
    path: str
    start: int
    length: int
    file_size: int
    modified: int = field(repr=False)
    """Milliseconds since the epoch, 0 = unknown."""
    partition_values: Mapping[str, Any]
    """Typed values by key; None for null, and for text that is no value of the key's type."""
    read_format: ReadFormat = field(repr=False)
