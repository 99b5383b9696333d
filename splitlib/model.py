"""What travels from a catalog to a reader: tables, partitions, files, splits.

Partitions and files travel as Arrow batches; only a :class:`FileSplit`, made last, is a Python
object each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.redaction import show

# Arrow has no CHAR(n) or VARCHAR(n): a field of type string that is one says so in its metadata
# under this key, as b"char(5)" or b"varchar(7)".
LOGICAL_TYPE = b"splitlib.logical_type"

# What LOGICAL_TYPE begins with where strings are not compared by their bytes; then the collation.
COLLATED = "string collate"

# Spark's own JSON of a field, where Arrow's type does not say what it is to Spark.
SPARK_FIELD = b"splitlib.spark_field"

# Where columns are found by identifier, each field of the table's schema, nested ones too, carries
# its own under the key that Arrow uses for Parquet's.
FIELD_ID = b"PARQUET:field_id"

# The value, as JSON, that rows of files older than the column have in it; none = null.
INITIAL_DEFAULT = b"splitlib.initial_default"

# The default of a field that ``__post_init__`` fills in; a connector may leave it out or give None.
_FILLED_IN: Any = None

# What the columns are is said at FileBatch, whose files have them.
FILE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified", pa.int64(), nullable=False),
        pa.field("partition", pa.int64(), nullable=False),
    ]
)


class Requests(NamedTuple):
    """How many calls something took.

    Attributes:
        catalog: Calls of the catalog.
        storage: Listings of directories, and files read to plan.
    """

    catalog: int = 0
    storage: int = 0


class Manifests(NamedTuple):
    """What a catalog that keeps lists of files did not have to open.

    Attributes:
        total: How many lists there are.
        opened: How many were opened.
        files_total: Files in all of them.
        files_skipped: Files in those that were not opened.
    """

    total: int = 0
    opened: int = 0
    files_total: int = 0
    files_skipped: int = 0


class Transform(Protocol):
    """How a partition value follows from a column. Hashable; null gives null."""

    @property
    def preserves_order(self) -> bool:
        """Whether a greater value never gives a smaller result."""

    def __call__(self, values: pa.Array) -> pa.Array:
        """The partition values, of the type that :attr:`PartitionBatch.values` has."""

    def mistaken(self, results: pa.Array) -> pa.Array | None:
        """What faulty writers are known to have computed for the same values; None if nothing else.

        It is never less than ``results``.
        """


@dataclass(frozen=True, slots=True)
class PartitionField:
    """What a column of :attr:`PartitionBatch.values` says of a column of the table.

    Attributes:
        name: Of the column in the batch.
        source: The table's column; ``a.b`` for a field of a struct.
        transform: None = the value itself.
    """

    name: str
    source: str
    transform: Transform | None = None

    @classmethod
    def identities(cls, columns: Iterable[str]) -> tuple[PartitionField, ...]:
        """The fields of columns that have the table's own names and values."""
        return tuple(cls(name, name) for name in columns)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known of one column in each of some files, a row each; null = not known.

    The engine refuses with ``CorruptMetadata`` what cannot be right: arrays of another length than
    there are files, other types, a column that is not filterable, a lower bound above the upper. It
    does not use a bound that is NaN, nor that a file has no value where it has bounds.

    Attributes:
        lower: In the column's type. No value that is neither null nor NaN is less.
        upper: In the column's type. No value that is neither null nor NaN is greater.
        has_null: False where no value is null.
        has_nan: False where no value is NaN.
        has_value: False where every value is null or NaN.
    """

    lower: pa.Array
    upper: pa.Array
    has_null: pa.BooleanArray
    has_nan: pa.BooleanArray
    has_value: pa.BooleanArray

    def take(self, indices: pa.Array) -> ColumnStatistics:
        """The statistics of the files at ``indices``."""
        return ColumnStatistics(
            self.lower.take(indices),
            self.upper.take(indices),
            self.has_null.take(indices),
            self.has_nan.take(indices),
            self.has_value.take(indices),
        )


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file that says which rows of data files are deleted.

    Attributes:
        kind: How it says so: positions, a deletion vector, or the values of columns.
        path: Spelled as in :attr:`FileBatch.files`.
        size: In bytes.
        format: ``parquet``, ``orc``, ``avro`` or, for a vector, ``puffin``.
        offset: Of the vector in the file.
        length: Of the vector in bytes.
        field_ids: The columns that an equality delete compares.
        records: How many positions or rows it holds, where the catalog says so.
    """

    kind: Literal["position", "vector", "equality"]
    path: str
    size: int
    format: str
    offset: int = 0
    length: int = 0
    field_ids: tuple[int, ...] = ()
    records: int | None = None

    __repr__ = show


@dataclass(frozen=True, slots=True)
class ReadFormat:
    """How to read the bytes of a file.

    Attributes:
        name: ``parquet``, ``orc``, ``avro``, ``json``, ``csv``, ``text``, ``hive-text``,
            ``hive-csv``.
        options: Sorted pairs: Spark's data source options, or the SerDe's properties for
            ``hive-…``.
        columns: How a column is found in the file: by its name; by its :data:`FIELD_ID`; or by
            these sorted pairs of field identifier and name in the file, nested fields too, and what
            has no pair is not in the file.
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
        """A format with its pairs in canonical order, so that equal ones compare equal."""
        pairs = columns if isinstance(columns, str) else tuple(sorted(columns.items()))
        return cls(name, tuple(sorted((options or {}).items())), pairs)


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """What a connector says of the table that it has opened.

    Attributes:
        schema: Data columns, then partition columns, in the catalog's types; in the catalog's order
            where columns are found by identifier.
        partition_keys: The partition columns, or the columns that partition values follow from.
        read_format: How files are read, unless a batch of files says otherwise.
        location: The table's directory, where it has one.
        snapshot_id: The version that the table is pinned to: it shows nothing that comes later.
            None = it has no versions.
        spark_schema: Spark's own JSON of ``schema`` where the catalog keeps one: it can say what
            Arrow cannot (column defaults, collations, intervals).
        filter_schema: The columns whose join keys can prune, ``a.b`` for a field of a struct; by
            default the partition columns.
        dropped_schema: Columns that the table no longer has, in their last types, with their
            :data:`FIELD_ID`: an equality delete may compare them.
        has_statistics: Whether the catalog has statistics of files, by which any column of
            :attr:`filter_schema` prunes them; by default, whether that is given. Without statistics
            only partition columns prune, and :attr:`filter_schema` holds just those of
            :attr:`schema`.
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

    def __post_init__(self) -> None:
        given: Any = self.has_statistics
        if given is None:
            object.__setattr__(self, "has_statistics", self.filter_schema is not None)
        if self.filter_schema is None or not self.has_statistics:
            keys = pa.schema([self.schema.field(key) for key in self.partition_keys])
            object.__setattr__(self, "filter_schema", keys)

    @property
    def filterable(self) -> pa.Schema:
        """The columns whose join keys can prune."""
        return self.filter_schema

    @property
    def partition_schema(self) -> pa.Schema:
        """The partition columns alone, those that lie in structs too."""
        return pa.schema([self.filter_schema.field(key) for key in self.partition_keys])

    @property
    def data_schema(self) -> pa.Schema:
        """The columns that lie in the files."""
        return pa.schema([f for f in self.schema if f.name not in self.partition_keys])


@dataclass(frozen=True, slots=True)
class PartitionBatch:
    """Some partitions of one table.

    An unpartitioned table has one partition without values.

    Attributes:
        values: A column per partition key, in the table's order: typed, or the catalog's text
            (unescaped, null for the null partition), which the engine parses with the table's type.
        refs: The connector's own handle of each partition, of any Arrow type, opaque to everyone
            else.
        requests: What it took to list them.
        fields: What the columns of :attr:`values` say of the table; by default each is a partition
            key.
        file_counts: How many files each partition has, where that is known before they are listed.
        manifests: What a catalog that keeps lists of files did not have to open.
        files_each: About how many files a partition has, where the catalog has statistics: only
            for how many partitions are listed together. 0 = not known.
        asked_for: How the catalog was asked: for all partitions; or, as the predicate leaves no
            others, for those with some names, or for those whose names have one beginning. There
            may be more between them then, and how many there are in all is not known.
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

    def __len__(self) -> int:
        # not values.num_rows: a batch without columns has no rows
        return len(self.refs)

    @property
    def has_gaps(self) -> bool:
        """Whether the catalog may have partitions between these that were not asked for."""
        return self.asked_for != "all"

    def take(self, indices: pa.Array) -> PartitionBatch:
        """The partitions at ``indices``; the requests are not counted again."""
        values = self.values.take(indices) if self.values.num_columns else self.values
        counts = None if self.file_counts is None else self.file_counts.take(indices)
        refs = self.refs.take(indices)
        return self._with(values, refs, counts)

    def slice(self, offset: int, length: int) -> PartitionBatch:
        """A view of ``length`` partitions; the requests are not counted again."""
        values, refs = self.values.slice(offset, length), self.refs.slice(offset, length)
        counts = None if self.file_counts is None else self.file_counts.slice(offset, length)
        return self._with(values, refs, counts)

    def joined(self, other: PartitionBatch) -> PartitionBatch:
        """These partitions, then those of another batch of the same table."""
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
        """Others of the same table, which took no further request."""
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
    """Files of some partitions that are read in the same way.

    Attributes:
        files: Columns as in :data:`FILE_SCHEMA`. ``path`` is plain and absolute on the local disk,
            else a URI spelled as Hadoop's ``Path`` does, not percent-encoded; ``size`` is the exact
            length in bytes; ``modified`` is in milliseconds since the epoch, 0 = unknown;
            ``partition`` is the row of the file's partition in the batch it was listed for.
        read_format: How all of these files are read.
        requests: What it took to list them.
        statistics: By column, as named in :attr:`TableMetadata.filterable`; a row per file.
        deletes: Per file: which of :attr:`delete_sets` applies to it; null = none.
        delete_sets: The sets of files that delete rows together.
        partitions_listed: These are the files of so many of the first partitions that were asked
            for, as no more came with the first; None = of all. If given, this is the only batch.
            The rest is asked for again.
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
        """The files at ``indices``; the requests are not counted again."""
        return replace(
            self,
            files=self.files.take(indices),
            requests=Requests(),
            statistics={name: known.take(indices) for name, known in self.statistics.items()},
            deletes=None if self.deletes is None else self.deletes.take(indices),
        )

    def deletes_of_each(self) -> list[tuple[DeleteFile, ...]]:
        """What deletes rows, per file."""
        if self.deletes is None:
            return [()] * len(self)
        sets = self.deletes.to_pylist()
        return [() if index is None else self.delete_sets[index] for index in sets]

    def filter(self, mask: pa.BooleanArray) -> FileBatch:
        """The files where ``mask`` is true; the requests are not counted again."""
        return self.take(pc.indices_nonzero(mask))


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A byte range of one file: the unit of work of a reader. Pickles.

    Attributes:
        split_id: Depends on the file, its partition and the range alone: the same in every run.
        path: Spelled as in :attr:`FileBatch.files`.
        start: Where the range begins, in bytes.
        length: Of the range, in bytes.
        file_size: Of the whole file, in bytes.
        modified: Milliseconds since the epoch, 0 = unknown.
        partition_values: Typed values by key; None for null, and for text that is no value of the
            key's type; text for what Python has no value for, such as a date beyond the year 9999.
        read_format: How the file is read.
        deletes: What takes rows out of the file; a reader that cannot apply it must refuse the
            split.
        hosts: Where the bytes lie, as far as that is known: a hint of where to read them.
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
