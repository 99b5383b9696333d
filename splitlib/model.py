"""Data classes for tables, partitions, files and splits, as passed from catalog to reader.

Partitions and files are rows of Arrow batches, because a table may have millions of them. Splits
are Python objects, which are created lazily from the matching files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.redaction import show

# Metadata key of string fields for types that Arrow lacks: CHAR(n) and VARCHAR(n). The value is,
# for example, b"char(5)" or b"varchar(7)".
LOGICAL_TYPE = b"splitlib.logical_type"

# Prefix of a LOGICAL_TYPE value for strings with a collation. The collation's name follows it.
COLLATED = "string collate"

# Metadata key of a field's definition in Spark's JSON format. It is set if the field's Spark type
# cannot be derived from its Arrow type.
SPARK_FIELD = b"splitlib.spark_field"

# Metadata key of a field's id, for tables that match columns by id. Nested fields have ids too.
# Arrow uses this key for Parquet field ids.
FIELD_ID = b"PARQUET:field_id"

# Metadata key of a column's initial default: its value in files that were written before the column
# was added, as JSON, or as an SQL literal in {"sql": literal}. Without this key, it is null.
INITIAL_DEFAULT = b"splitlib.initial_default"

# Default of fields that ``__post_init__`` computes. Connectors may omit these fields or pass None.
_FILLED_IN: Any = None

# Columns of ``FileBatch.files``; the docstring of FileBatch describes them.
FILE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified", pa.int64(), nullable=False),
        pa.field("partition", pa.int64(), nullable=False),
    ]
)


class Requests(NamedTuple):
    """Number of requests that an operation made.

    Attributes:
        catalog: Requests to the catalog.
        storage: Directory listings, and files read for planning.
    """

    catalog: int = 0
    storage: int = 0


class Manifests(NamedTuple):
    """Number of manifests (a catalog's lists of files) that were opened or skipped.

    Attributes:
        total: Number of manifests.
        opened: Number of manifests that were opened.
        files_total: Number of files in all manifests.
        files_skipped: Number of files in manifests that were not opened.
    """

    total: int = 0
    opened: int = 0
    files_total: int = 0
    files_skipped: int = 0


class Transform(Protocol):
    """A function from column values to partition values. It is hashable and maps null to null."""

    @property
    def preserves_order(self) -> bool:
        """Whether the function is monotonic: a greater value never gives a smaller result."""

    def __call__(self, values: pa.Array) -> pa.Array:
        """Return partition values, in the type of their :attr:`PartitionBatch.values` column.

        Raises ValueError if a value has no result. Then the field prunes nothing.
        """

    def mistaken(self, results: pa.Array) -> pa.Array | None:
        """Return the wrong results that some buggy writers store instead of ``results``.

        A wrong result is never less than the right one. None means that no buggy writer is known.
        """


@dataclass(frozen=True, slots=True)
class PartitionField:
    """How a column of :attr:`PartitionBatch.values` derives from a column of the table.

    Attributes:
        name: Name of the column in the batch.
        source: Name of the table's column; ``a.b`` for a field of a struct.
        transform: Function from column value to partition value; None means the value itself.
    """

    name: str
    source: str
    transform: Transform | None = None

    @classmethod
    def identities(cls, columns: Iterable[str]) -> tuple[PartitionField, ...]:
        """Return fields for table columns that are partition keys without a transform."""
        return tuple(cls(name, name) for name in columns)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one column, with one row per file; null means unknown.

    The engine raises ``CorruptMetadata`` for impossible statistics: arrays whose length is not the
    number of files, wrong types, a column that is not filterable, or a lower bound above the upper
    one. The engine ignores bounds that are NaN, and ``has_value=False`` for a file with bounds.

    Attributes:
        lower: Lower bound in the column's type: no value is less, apart from null and NaN.
        upper: Upper bound in the column's type: no value is greater, apart from null and NaN.
        has_null: False for files in which no value is null.
        has_nan: False for files in which no value is NaN.
        has_value: False for files in which every value is null or NaN.
    """

    lower: pa.Array
    upper: pa.Array
    has_null: pa.BooleanArray
    has_nan: pa.BooleanArray
    has_value: pa.BooleanArray

    def take(self, indices: pa.Array) -> ColumnStatistics:
        """Return the statistics of the files at ``indices``."""
        return ColumnStatistics(*(getattr(self, each.name).take(indices) for each in fields(self)))

    @classmethod
    def concatenated(cls, parts: Sequence[ColumnStatistics]) -> ColumnStatistics:
        """Return the statistics of the files of all parts, in the same order."""
        names = [each.name for each in fields(cls)]
        return cls(*(pa.concat_arrays([getattr(p, name) for p in parts]) for name in names))


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file that lists deleted rows of data files.

    Attributes:
        kind: How the deleted rows are listed: by ``position``, as a deletion ``vector``, or by the
            values of some columns (``equality``).
        path: Path, in the same form as in :attr:`FileBatch.files`.
        size: Size of the file in bytes.
        format: ``parquet``, ``orc``, ``avro`` or, for a vector, a name that the connector defines,
            such as ``puffin``. Only the connector reads vectors.
        offset: Position of the vector in the file, in bytes.
        length: Length of the vector, in bytes.
        field_ids: Ids of the columns that an equality delete compares.
        records: Number of positions or rows in the file; None if the catalog does not record it.
        inline: The vector as text, if the catalog stores the vector itself and there is no delete
            file; ``path`` is then the data file. Otherwise empty.
    """

    kind: Literal["position", "vector", "equality"]
    path: str
    size: int
    format: str
    offset: int = 0
    length: int = 0
    field_ids: tuple[int, ...] = ()
    records: int | None = None
    inline: str = field(default="", repr=False)

    __repr__ = show


@dataclass(frozen=True, slots=True)
class ReadFormat:
    """How to read the bytes of a file.

    Attributes:
        name: ``parquet``, ``orc``, ``avro``, ``json``, ``csv``, ``text``, ``hive-text``,
            ``hive-csv``.
        options: Sorted pairs of name and value: Spark's data source options, or the SerDe's
            properties for ``hive-…``.
        columns: How columns are found in the file: by ``name``, by ``id`` (:data:`FIELD_ID`), or by
            sorted pairs of field id and name in the file, including nested fields. A field without
            a pair is not in the file.
    """

    name: str
    options: tuple[tuple[str, str], ...] = ()
    columns: Literal["name", "id"] | tuple[tuple[int, str], ...] = "name"

    @classmethod
    def of(
        cls,
        name: str,
        options: Mapping[str, str] | None = None,
        columns: Literal["name", "id"] | Mapping[int, str] = "name",
    ) -> ReadFormat:
        """Return a format with sorted options and columns, so that equality ignores their order."""
        pairs = columns if isinstance(columns, str) else tuple(sorted(columns.items()))
        return cls(name, tuple(sorted((options or {}).items())), pairs)


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """A connector's description of the table that it opened.

    Attributes:
        schema: Data columns, then partition columns, in the catalog's types. If columns are
            matched by id, all columns are in the catalog's order.
        partition_keys: The partition columns, or the columns that partition values derive from.
        read_format: How to read the files, unless a batch of files has a format of its own.
        location: Directory of the table; None if the table does not have one.
        snapshot_id: Version of the table that is read; None for tables without versions.
        spark_schema: The schema in Spark's JSON format; None if the catalog does not store it. It
            has properties that Arrow lacks: column defaults, collations, intervals.
        filter_schema: Columns that join keys can prune on; by default the partition columns. A
            field of a struct is named ``a.b``.
        dropped_schema: Columns that were dropped from the table, in their last types, with their
            :data:`FIELD_ID`. An equality delete may still compare these columns.
        has_statistics: Whether the catalog has statistics of files, so that join keys of every
            column in :attr:`filter_schema` can prune files. If not, :attr:`filter_schema` contains
            only partition columns. By default true if :attr:`filter_schema` is given.
        requests: Number of requests that loaded the snapshot when the table was opened. Zero if
            listings send requests themselves.
        table_id: Differs if the table is dropped and created again; None if unknown.
    """

    schema: pa.Schema
    partition_keys: tuple[str, ...]
    read_format: ReadFormat
    location: str | None = None
    snapshot_id: str | None = None
    spark_schema: str | None = None
    filter_schema: pa.Schema = _FILLED_IN
    dropped_schema: pa.Schema | None = None
    has_statistics: bool = _FILLED_IN
    requests: Requests = Requests()
    table_id: str | None = None

    def __post_init__(self) -> None:
        given: Any = self.has_statistics
        if given is None:
            object.__setattr__(self, "has_statistics", self.filter_schema is not None)
        if self.filter_schema is None or not self.has_statistics:
            keys = pa.schema([self.schema.field(key) for key in self.partition_keys])
            object.__setattr__(self, "filter_schema", keys)

    @property
    def partition_schema(self) -> pa.Schema:
        """Schema of the partition columns, including those inside structs."""
        return pa.schema([self.filter_schema.field(key) for key in self.partition_keys])

    @property
    def data_schema(self) -> pa.Schema:
        """Schema of the columns that are stored in the files."""
        return pa.schema([f for f in self.schema if f.name not in self.partition_keys])


@dataclass(frozen=True, slots=True)
class PartitionBatch:
    """A batch of partitions of one table.

    An unpartitioned table has one partition without values.

    Attributes:
        values: One column per partition key, in the table's order. Values have the key's type, or
            are text from the catalog, which the engine parses. Text must not contain escapes, and
            ``__HIVE_DEFAULT_PARTITION__`` must be given as null.
        refs: The connector's handle for each partition, of any Arrow type. Only the connector
            interprets it.
        requests: Number of requests made to list these partitions.
        fields: How the columns of :attr:`values` derive from the table's columns; by default each
            column is a partition key.
        file_counts: Number of files in each partition; None if unknown before listing.
        manifests: Number of manifests that were opened or skipped.
        files_each: Average number of files per partition, from the catalog's statistics. Used
            only to choose how many partitions to list together. 0 means unknown.
        asked_for: How the catalog was queried: for ``all`` partitions, by ``names``, or by a
            ``prefix`` of names. With ``names`` or ``prefix``, only partitions that the predicate
            may keep are requested. The table may have other partitions between these, and their
            number is unknown.
    """

    values: pa.RecordBatch
    refs: pa.Array
    requests: Requests = Requests()
    fields: tuple[PartitionField, ...] = _FILLED_IN
    file_counts: pa.Array | None = None
    manifests: Manifests = Manifests()
    files_each: float = 0.0
    asked_for: Literal["all", "names", "prefix"] = "all"

    def __post_init__(self) -> None:
        given: Any = self.fields
        if given is None:
            names = self.values.schema.names
            object.__setattr__(self, "fields", PartitionField.identities(names))

    @classmethod
    def whole(cls, refs: pa.Array) -> PartitionBatch:
        """Return the one partition of an unpartitioned table. Its handle is in ``refs``."""
        return cls(pa.RecordBatch.from_arrays([], names=[]), refs)

    def __len__(self) -> int:
        # Do not use values.num_rows, because it is 0 for a batch without columns.
        return len(self.refs)

    @property
    def has_gaps(self) -> bool:
        """Whether the catalog may have partitions between these that were not requested."""
        return self.asked_for != "all"

    def take(self, indices: pa.Array) -> PartitionBatch:
        """Return the partitions at ``indices``, with request counts set to 0."""
        values = self.values.take(indices) if self.values.num_columns else self.values
        counts = None if self.file_counts is None else self.file_counts.take(indices)
        refs = self.refs.take(indices)
        return self._with(values, refs, counts)

    def slice(self, offset: int, length: int) -> PartitionBatch:
        """Return ``length`` partitions from ``offset`` on, with request counts set to 0."""
        values, refs = self.values.slice(offset, length), self.refs.slice(offset, length)
        counts = None if self.file_counts is None else self.file_counts.slice(offset, length)
        return self._with(values, refs, counts)

    def joined(self, other: PartitionBatch) -> PartitionBatch:
        """Return one batch of these partitions and then those of ``other``, of the same table."""
        values = pa.Table.from_batches([self.values, other.values]).combine_chunks()
        refs = pa.concat_arrays([self.refs, other.refs])
        (batch,) = values.to_batches() if values.num_columns else [self.values]
        counts = None
        if self.file_counts is not None and other.file_counts is not None:
            counts = pa.concat_arrays([self.file_counts, other.file_counts])
        joined = self._with(batch, refs, counts)
        return joined if self.has_gaps else replace(joined, asked_for=other.asked_for)

    def _with(
        self, values: pa.RecordBatch, refs: pa.Array, file_counts: pa.Array | None
    ) -> PartitionBatch:
        """Return a copy of this batch with other partitions, and with request counts set to 0."""
        return PartitionBatch(
            values,
            refs,
            fields=self.fields,
            file_counts=file_counts,
            files_each=self.files_each,
            asked_for=self.asked_for,
        )


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Data files of one or more partitions, all read in the same way.

    Attributes:
        files: Rows with the schema :data:`FILE_SCHEMA`. ``path`` is a plain absolute path for a
            local file, or a URI as Hadoop's ``Path`` writes it, not percent-encoded. ``size`` is
            the exact length in bytes. ``modified`` is in milliseconds since the epoch; 0 means
            unknown. ``partition`` is the row of the file's partition in the batch that was listed.
        read_format: How to read all of these files.
        requests: Number of requests made to list these files.
        statistics: Statistics by column name, as in :attr:`TableMetadata.filter_schema`, with one
            row per file.
        deletes: For each file, the index of its set in :attr:`delete_sets`; null means no deletes.
        delete_sets: Sets of delete files. All files of a set apply to the same data files.
        partitions_listed: Number of requested partitions, counted from the first, whose files are
            complete in this batch. It is set if the first page does not cover all partitions. The
            batch must then be the only one, and the engine requests the remaining partitions again.
            None means that all partitions are complete.
    """

    files: pa.RecordBatch
    read_format: ReadFormat
    requests: Requests = Requests()
    statistics: Mapping[str, ColumnStatistics] = field(default_factory=lambda: MappingProxyType({}))
    deletes: pa.Array | None = None
    delete_sets: tuple[tuple[DeleteFile, ...], ...] = ()
    partitions_listed: int | None = None

    def __len__(self) -> int:
        return int(self.files.num_rows)

    def take(self, indices: pa.Array) -> FileBatch:
        """Return the files at ``indices``, with request counts set to 0."""
        return replace(
            self,
            files=self.files.take(indices),
            requests=Requests(),
            statistics={name: known.take(indices) for name, known in self.statistics.items()},
            deletes=None if self.deletes is None else self.deletes.take(indices),
        )

    def deletes_of_each(self) -> list[tuple[DeleteFile, ...]]:
        """Return a tuple of delete files for each data file, in the order of :attr:`files`."""
        if self.deletes is None:
            return [()] * len(self)
        sets = self.deletes.to_pylist()
        return [() if index is None else self.delete_sets[index] for index in sets]

    def filter(self, mask: pa.BooleanArray) -> FileBatch:
        """Return the files where ``mask`` is true, with request counts set to 0."""
        return self.take(pc.indices_nonzero(mask))


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A byte range of one file, which one reader reads. Can be pickled.

    Attributes:
        split_id: Id computed from file, partition and range only, so it is the same in every run.
            If a snapshot contains the file several times, each copy has its own id.
        path: Path, in the same form as in :attr:`FileBatch.files`.
        start: Start of the range, in bytes.
        length: Length of the range, in bytes.
        file_size: Size of the whole file, in bytes.
        modified: Modification time in milliseconds since the epoch; 0 means unknown.
        partition_values: Typed values by key; None means null. Text that Arrow and Spark may parse
            to different values, such as the date ``2020-1-5``, remains text. So does a value that
            Python cannot represent, such as a date after the year 9999.
        read_format: How to read the file.
        deletes: Delete files that remove rows of this file. A reader that cannot apply them must
            reject the split.
        hosts: Hosts that store the file, if known. Reading the split there avoids network traffic.
    """

    split_id: str
    path: str
    start: int
    length: int
    file_size: int
    modified: int = field(repr=False)
    partition_values: Mapping[str, Any]
    read_format: ReadFormat = field(repr=False)
    deletes: tuple[DeleteFile, ...] = ()
    hosts: tuple[str, ...] = field(default=(), repr=False, compare=False)

    __repr__ = show
