"""Read the selected files of a table whose columns are found by field id, as one DataFrame.

Spark also reads the delete files, and anti joins remove the deleted rows. Each row gets a column
with the number of its data file. A small local table maps each data file to the delete files that
apply to it. Position deletes are joined by file number and position, equality deletes by their
equality columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from splitlib.enumeration.splitting import SelectedFiles
from splitlib.errors import UnsupportedTable
from splitlib.model import FILE_SCHEMA, DeleteFile, FileBatch, PartitionBatch, ReadFormat
from splitlib.spark.conversion import local_rows
from splitlib.spark.file_scan import HADOOP_SPELLING, FileScan, canonical_paths
from splitlib.spark.formats.field_id_columns import MappedReader, alias, field_id, spark_type
from splitlib.spark.scan import FileGroup, scan_files
from splitlib.table import Table

# Maximum number of files whose column names the driver reads. For more files, this would take
# seconds.
_FEW_FILES: Final = 200


def scan_mapped(
    spark: SparkSession,
    table: Table,
    selected: Iterable[SelectedFiles],
    how: str,
    *,
    conditioned: bool = False,
) -> DataFrame:
    """Return a DataFrame of the selected files' rows that are not deleted, in the table's schema.

    Files that are read in the same way share one scan. The result is the union of the scans.

    Args:
        spark: Session to read with.
        table: The table of the files.
        selected: The files, with their delete files.
        how: ``auto``, ``pinned`` or ``paths``, as in :func:`splitlib.spark.scan.scan_files`.
        conditioned: Whether the rows will be filtered by conditions on columns.

    Raises:
        UnsupportedTable: if Spark would read some of the files incorrectly.
    """
    selected = list(selected)
    few = sum(len(one.files) for one in selected) <= _FEW_FILES
    reader = MappedReader(spark, table, how, skip=conditioned and few)
    groups: dict[_ColumnMapping, _Group] = {}
    for one in selected:
        constants = _constants(table.metadata.schema, one.partitions)
        for batch in reader.readable(one.files):
            for part in _grouped_by_deletes(batch):
                way = _ColumnMapping(part.read_format, tuple(constants), part.deletes is not None)
                groups.setdefault(way, _Group()).add(part, constants)
    if not groups:  # without files, an empty scan provides the schema
        groups[_ColumnMapping(reader.format_of_no_files, (), False)] = _Group()
    return reduce(DataFrame.union, (_rows(reader, way, group) for way, group in groups.items()))


@dataclass(frozen=True)
class _ColumnMapping:
    """How the columns of a file are read. Files with equal mappings share one scan."""

    read_format: ReadFormat
    constants: tuple[int, ...]
    """Field ids of the columns whose values come from the partition, not from the file."""
    deletes: bool
    """Whether delete files apply to the file. Files without deletes are read without joins."""


@dataclass
class _Group:
    """A group of files that share one scan."""

    files: FileGroup = field(default_factory=FileGroup)
    deletes: list[tuple[DeleteFile, ...]] = field(default_factory=list)
    """Delete files that apply to each file, in the order of the files."""

    def add(self, batch: FileBatch, constants: dict[int, pa.Array]) -> None:
        names = [alias(identifier) for identifier in constants]
        self.files.add(batch.files, pa.record_batch(list(constants.values()), names=names))
        self.deletes += batch.deletes_of_each()


def _rows(reader: MappedReader, way: _ColumnMapping, group: _Group) -> DataFrame:
    schema = reader.table.metadata.schema
    fields = [f for f in schema if field_id(f) not in way.constants]
    constants = group.files.values(none=pa.table({}))
    columns = [column.combine_chunks() for column in group.files.files().columns]
    files = pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)
    batch = FileBatch(files, way.read_format)
    if way.deletes:
        rows = _not_deleted(reader, batch, fields, constants, group.deletes)
    else:
        rows = reader.read(batch, fields, constants)
    return rows.select(*(_typed(f, constants).alias(f.name) for f in schema))


def _typed(field: pa.Field, constants: pa.Table) -> Column:
    """Return an output column. Partition values that are text are cast to the column's type."""
    name = alias(field_id(field))
    if name not in constants.column_names or not pa.types.is_string(constants[name].type):
        return F.col(name)
    return F.expr(f"try_cast(`{name}` AS {spark_type(field).simpleString()})")


def _not_deleted(
    reader: MappedReader,
    batch: FileBatch,
    fields: list[pa.Field],
    constants: pa.Table,
    of_each: list[tuple[DeleteFile, ...]],
) -> DataFrame:
    """Return a DataFrame of the files' rows that are not deleted.

    Each file is read as a separate partition. The partition values include the file's number.
    """
    deletes = Deletes(reader, of_each, batch.files["path"].to_pylist())
    known = {field_id(f) for f in reader.table.metadata.schema}
    fields = fields + [f for f in deletes.compared_columns if field_id(f) not in known]
    row = batch.files["partition"]
    columns = {name: constants[name].take(row) for name in constants.column_names}
    partitions = pa.table(columns | deletes.columns_of_files())
    number = pa.array(range(len(batch)), pa.int64())
    files = batch.files.set_column(3, FILE_SCHEMA.field("partition"), number)
    rows = reader.read(
        replace(batch, files=files), fields, partitions, POSITION if deletes.by_position else None
    )
    return deletes.removed_from(rows)


def _constants(schema: pa.Schema, partitions: PartitionBatch) -> dict[int, pa.Array]:
    """Return the values of columns that are constant within each partition, by field id.

    Files may lack such a column, for example in a table that was migrated from Hive.
    """
    columns = {f.name.lower(): f for f in schema}
    return {
        field_id(column): _values(partitions.values[field.name], column)
        for field in partitions.fields
        if field.transform is None and (column := columns.get(field.source.lower())) is not None
    }


def _values(values: pa.Array, column: pa.Field) -> pa.Array:
    return values if pa.types.is_string(values.type) else values.cast(column.type)


def _grouped_by_deletes(batch: FileBatch) -> Iterator[FileBatch]:
    """Yield one batch of the files without deletes and one of the files with deletes."""
    if batch.deletes is None:
        yield batch
        return
    untouched = pc.is_null(batch.deletes)
    for part in (
        replace(batch.filter(untouched), deletes=None),
        batch.filter(pc.invert(untouched)),
    ):
        if len(part):
            yield part


FILE: Final = "__splitlib_data_file"
"""Name of the column with the number of a row's data file."""
POSITION: Final = "__splitlib_position"
"""Name of the column with a row's position in its data file, starting at 0."""

_DELETE: Final = "__splitlib_delete"
_SET: Final = "__splitlib_set"
_PATH: Final = "__splitlib_path"

# Delete files up to this total size are broadcast, and larger ones are joined by a shuffle. Files
# of this size have at most about a million positions.
_FEW_BYTES: Final = 2 * 2**20
_FEW_ROWS: Final = 1_000_000

# The path of a data file may differ between a delete file and the catalog: a local path may have a
# scheme or not, and the scheme of S3 may be s3, s3n or s3a. Paths are not URL-encoded, so `%20` is
# not decoded.
_S3: Final = (r"^s3[an]?:", "s3:")

# Column names of position delete files, as the Iceberg specification defines them.
_FILE_PATH, _POS = "file_path", "pos"


Sets = dict[tuple[DeleteFile, ...], int]
"""Maps each set of delete files to a number. All files in a set apply to the same data files."""


@dataclass(frozen=True, slots=True)
class _Equality:
    """A group of equality deletes that have the same equality columns."""

    field_ids: tuple[int, ...]
    set_of_file: pa.Array
    """For each data file, the number of the set of delete files that applies to it, or null if
    there is none."""
    sets: Sets

    @property
    def column(self) -> str:
        """Name of the column with the number of the set that applies to each row's data file."""
        return f"{_SET}_" + "_".join(map(str, self.field_ids))


class Deletes:
    """Removes the rows that delete files mark as deleted.

    Args:
        reader: Reader for the delete files.
        of_each: For each data file, the delete files that apply to it.
        paths: Paths of the data files, in the same order as ``of_each``.
    """

    def __init__(
        self, reader: MappedReader, of_each: Sequence[tuple[DeleteFile, ...]], paths: Sequence[str]
    ) -> None:
        self._reader = reader
        self._of_each = of_each
        self._paths = paths
        by_columns = {d.field_ids for deletes in of_each for d in deletes if d.field_ids}
        self._equalities = [_equality(ids, of_each) for ids in sorted(by_columns)]
        compared = {i for ids in by_columns for i in ids}
        fields = [*reader.table.metadata.schema, *(reader.table.metadata.dropped_schema or [])]
        self._fields = _paths_to(fields, compared)

    @property
    def compared_columns(self) -> list[pa.Field]:
        """Top-level columns that are or contain equality columns, including dropped columns."""
        used = {field_id(path[0]): path[0] for path in self._fields.values()}
        return list(used.values())

    @property
    def by_position(self) -> bool:
        """Whether rows need the column :data:`POSITION`, because some deletes are by position."""
        return any(delete.kind != "equality" for of_one in self._of_each for delete in of_one)

    def columns_of_files(self) -> dict[str, pa.Array]:
        """Return columns with one value per data file, to be added to the rows of that file.

        The columns contain the number of the file and the numbers of its sets of equality deletes.
        """
        numbers = pa.array(range(len(self._paths)), pa.int32())
        return {FILE: numbers} | {e.column: e.set_of_file for e in self._equalities}

    def removed_from(self, rows: DataFrame) -> DataFrame:
        """Return ``rows`` without the deleted rows."""
        if self.by_position:
            deleted = reduce(DataFrame.union, self._positions())
            rows = rows.join(deleted, [FILE, POSITION], "left_anti")
        for equality in self._equalities:
            rows = self._without_equal(rows, equality)
        return rows

    def _positions(self) -> Iterable[DataFrame]:
        """Yield DataFrames of the deleted rows, as pairs of data file number and position."""
        if any(delete.kind == "vector" for of_one in self._of_each for delete in of_one):
            yield self._vectors()
        if any(delete.kind == "position" for of_one in self._of_each for delete in of_one):
            yield self._position_files()

    def _vectors(self) -> DataFrame:
        numbers, positions = [], []
        for number, of_one in enumerate(self._of_each):
            for delete in of_one:
                if delete.kind == "vector":
                    found = self._reader.table.read_vector(delete)
                    numbers.append(pa.repeat(pa.scalar(number, pa.int32()), len(found)))
                    positions.append(found)
        table = pa.table({FILE: pa.chunked_array(numbers), POSITION: pa.chunked_array(positions)})
        deleted = self._local(table)
        return F.broadcast(deleted) if table.num_rows <= _FEW_ROWS else deleted

    def _position_files(self) -> DataFrame:
        set_of_file, sets = _sets(self._of_each, lambda delete: delete.kind == "position")
        deletes = _distinct(sets)
        paths = canonical_paths(pa.array(self._paths, pa.string()))
        files = pa.table(
            {
                _PATH: pc.replace_substring_regex(paths, *_S3),
                FILE: pa.array(range(len(self._paths)), pa.int32()),
                _SET: set_of_file,
            }
        )
        path, position = F.col(_FILE_PATH), F.col(_POS)
        missing = F.raise_error(F.lit("A position delete file lacks file_path or pos."))
        deleted = (
            self._position_rows(deletes)
            # A null path or position would match no row, so deleted rows would reappear.
            .withColumn(_PATH, _one_spelling(F.coalesce(path, missing)))
            .withColumn(POSITION, F.coalesce(position, missing))
            .join(F.broadcast(self._local(files)), _PATH)
            .join(F.broadcast(self._applying(sets, deletes)), [_SET, _DELETE], "left_semi")
            .select(FILE, POSITION)
        )
        return F.broadcast(deleted) if _size(deletes) <= _FEW_BYTES else deleted

    def _position_rows(self, deletes: Sequence[DeleteFile]) -> DataFrame:
        """Read position delete files by the column names that the Iceberg specification defines."""
        return scan_files(
            self._reader.spark,
            FileScan(
                format="parquet",
                options={},
                data_schema=StructType(
                    [StructField(_FILE_PATH, StringType()), StructField(_POS, LongType())]
                ),
                partition_schema=StructType([StructField(_DELETE, IntegerType())]),
                partitions=pa.table({_DELETE: pa.array(range(len(deletes)), pa.int32())}),
                files=pa.table(as_file_batch(deletes).files),
                storage=self._reader.storage,
            ),
            self._reader.how,
        )

    def _without_equal(self, rows: DataFrame, equality: _Equality) -> DataFrame:
        deletes = _distinct(equality.sets)
        paths = [self._fields[identifier] for identifier in equality.field_ids]
        names = [f"{alias(identifier)}_deleted" for identifier in equality.field_ids]
        fields = list({field_id(path[0]): path[0] for path in paths}.values())
        numbers = pa.table({_DELETE: pa.array(range(len(deletes)), pa.int32())})
        parts = [
            self._reader.read(part, fields, numbers)
            for part in self._reader.readable(as_file_batch(deletes))
        ]
        deleted = reduce(DataFrame.union, parts).select(
            _DELETE, *(_value(path).alias(name) for path, name in zip(paths, names, strict=True))
        )
        deleted = (
            deleted.join(F.broadcast(self._applying(equality.sets, deletes)), _DELETE)
            .withColumnRenamed(_SET, f"{_SET}_deleted")
            .drop(_DELETE)
        )
        if _size(deletes) <= _FEW_BYTES:
            deleted = F.broadcast(deleted)
        same: Column = F.col(equality.column) == F.col(f"{_SET}_deleted")
        for path, name in zip(paths, names, strict=True):
            same = same & _value(path).eqNullSafe(F.col(name))
        return rows.join(deleted, same, "left_anti")

    def _applying(self, sets: Sets, deletes: Sequence[DeleteFile]) -> DataFrame:
        """Return pairs of the number of a set and the number of a delete file in this set."""
        number = {delete: i for i, delete in enumerate(deletes)}
        pairs = [(i, number[delete]) for one, i in sets.items() for delete in one]
        of_set, of_delete = zip(*pairs, strict=True)
        return self._local(
            pa.table({_SET: pa.array(of_set, pa.int32()), _DELETE: pa.array(of_delete, pa.int32())})
        )

    def _local(self, table: pa.Table) -> DataFrame:
        return local_rows(self._reader.spark, table)


def _one_spelling(path: Column) -> Column:
    """Normalize a data file path from a delete file, to compare it with the table's paths."""
    for pattern, replacement in (*HADOOP_SPELLING, _S3):
        path = F.regexp_replace(path, pattern, replacement)
    return path


def _equality(field_ids: tuple[int, ...], of_each: Sequence[tuple[DeleteFile, ...]]) -> _Equality:
    return _Equality(field_ids, *_sets(of_each, lambda delete: delete.field_ids == field_ids))


def _sets(
    of_each: Sequence[tuple[DeleteFile, ...]], wanted: Callable[[DeleteFile], bool]
) -> tuple[pa.Array, Sets]:
    """Number the distinct sets of delete files that apply to the data files.

    Args:
        of_each: For each data file, the delete files that apply to it.
        wanted: Function that returns whether to include a delete file.

    Returns:
        For each data file, the number of its set, or null if no included delete file applies to it;
        and a mapping from the distinct sets to their numbers.
    """
    sets: Sets = {}
    numbers = []
    for of_one in of_each:
        applying = tuple(filter(wanted, of_one))
        numbers.append(sets.setdefault(applying, len(sets)) if applying else None)
    return pa.array(numbers, pa.int32()), sets


def _distinct(sets: Iterable[tuple[DeleteFile, ...]]) -> list[DeleteFile]:
    return list(dict.fromkeys(delete for one in sets for delete in one))


def _size(deletes: Iterable[DeleteFile]) -> int:
    return sum(delete.size for delete in deletes)


def as_file_batch(deletes: Sequence[DeleteFile]) -> FileBatch:
    """Convert delete files to a file batch, with the index in ``deletes`` as ``partition``."""
    if other := {delete.format for delete in deletes} - {"parquet"}:
        raise UnsupportedTable(f"Delete files in the format {min(other)} cannot be read.")
    rows = [
        {"path": delete.path, "size": delete.size, "modified": 0, "partition": number}
        for number, delete in enumerate(deletes)
    ]
    files = pa.RecordBatch.from_pylist(rows, FILE_SCHEMA)
    return FileBatch(files, ReadFormat.of("parquet", columns="id"))


def _paths_to(fields: Iterable[pa.Field], wanted: set[int]) -> dict[int, tuple[pa.Field, ...]]:
    """Map each field id in ``wanted`` to its path: the fields from the top-level column down."""
    found: dict[int, tuple[pa.Field, ...]] = {}

    def search(above: tuple[pa.Field, ...], inside: Iterable[pa.Field]) -> None:
        for one in inside:
            path = (*above, one)
            if field_id(one) in wanted:
                found.setdefault(field_id(one), path)
            if pa.types.is_struct(one.type):
                search(path, one.type)

    search((), fields)
    if unknown := wanted - found.keys():
        raise UnsupportedTable(
            f"An equality delete uses field id {min(unknown)}, which the table does not have."
        )
    return found


def _value(path: tuple[pa.Field, ...]) -> Column:
    column = F.col(alias(field_id(path[0])))
    for below in path[1:]:
        column = column.getField(below.name)
    return column
