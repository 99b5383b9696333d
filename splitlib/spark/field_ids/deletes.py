"""Remove the rows that delete files mark as deleted, with Spark joins.

Every row has the number of its data file as a column. Spark reads the delete files as well. A small
local table maps each data file to the delete files that apply to it. Anti joins then remove the
deleted rows. Position deletes are joined by file number and position, equality deletes by the
columns that they compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from splitlib.errors import UnsupportedTable
from splitlib.model import FILE_SCHEMA, DeleteFile, FileBatch, ReadFormat
from splitlib.spark.conversion import local_rows
from splitlib.spark.field_ids.columns import (
    Finder,
    MappedColumns,
    alias,
    field_id,
    nulls_empty_structs,
    spark_fills_defaults,
    spark_type,
)
from splitlib.spark.file_scan import HADOOP_SPELLING, FileScan, canonical_paths, own_storage
from splitlib.spark.scan import scan_files, why_no_field_ids
from splitlib.table import Table


class MappedReader:
    """Reads data files and delete files of a table.

    Args:
        spark: Session to read with.
        table: A table whose columns are found by field id.
        how: ``auto``, ``pinned`` or ``paths``, as in :func:`splitlib.spark.scan.scan_files`.
        skip: Whether Spark should use conditions to skip parts of files. Spark finds the
            statistics by column name, so columns are then read by name where possible.
    """

    def __init__(self, spark: SparkSession, table: Table, how: str, *, skip: bool = False) -> None:
        self.spark = spark
        self.table = table
        self.how = how
        self.storage = own_storage(table)
        # If Spark cannot fill in all defaults, MappedColumns adds them. For this, it needs the
        # column names of each file.
        self._by_id = why_no_field_ids(spark, how) is None and spark_fills_defaults(
            table.metadata.schema
        )
        if skip and table.knows_physical_names:
            self._by_id = self._by_id and nulls_empty_structs(spark)

    @property
    def format_of_no_files(self) -> ReadFormat:
        """Read format of a scan without files."""
        return ReadFormat.of("parquet", columns="id" if self._by_id else {})

    def readable(self, files: FileBatch) -> Iterator[FileBatch]:
        """Yield the same files in batches that :meth:`read` accepts.

        Raises:
            UnsupportedTable: if neither the session nor the connector can find the columns.
        """
        if files.read_format.columns != "id" or self._by_id:
            yield files
            return
        if not self.table.knows_physical_names:
            raise UnsupportedTable(
                "Columns are found by field id, which this Spark session does not support.",
                hint="use a classic session of PySpark 4.1 to 4.3.",
            )
        yield from self.table.with_physical_names(files)

    def read(
        self,
        files: FileBatch,
        fields: Sequence[pa.Field],
        partitions: pa.Table,
        row_index: str | None = None,
    ) -> DataFrame:
        """Read the rows of the files: ``fields`` in the table's types, named by :func:`alias`.

        Args:
            files: A batch from :meth:`readable`; ``partition`` is a row number of ``partitions``.
            fields: Columns of the table to read from the files.
            partitions: Columns to add after ``fields``, with one row per partition.
            row_index: Name of an additional last column with the position of each row in its file;
                None for no such column.

        Raises:
            UnsupportedTable: for files that Spark would read incorrectly.
        """
        form = files.read_format
        if form.name != "parquet" or form.columns == "name":
            raise UnsupportedTable(f"Columns in {form.name} files cannot be found by field id.")
        find: Finder = "id" if form.columns == "id" else dict(form.columns)
        columns = MappedColumns(tuple(fields), find)
        columns.check(self.spark)
        scan = FileScan(
            format=form.name,
            options=dict(form.options),
            data_schema=columns.read_schema(),
            partition_schema=StructType(
                [StructField(f.name, spark_type(f)) for f in partitions.schema]
            ),
            partitions=_as_text(partitions),
            files=pa.table(files.files),
            by_field_id=find == "id",
            row_index=row_index,
            storage=self.storage,
        )
        names = [alias(field_id(field)) for field in fields]
        df = scan_files(self.spark, scan, self.how)
        others = df.columns[len(names) :]
        df = df.toDF(*names, *others)
        values = zip(columns.values(), names, strict=True)
        return df.select(*(value.alias(name) for value, name in values), *others)


def _as_text(partitions: pa.Table) -> pa.Table:
    """Convert timestamps without time zone to text, since Spark may apply a time zone to them."""
    for i, field in enumerate(partitions.schema):
        if pa.types.is_timestamp(field.type) and not field.type.tz:
            partitions = partitions.set_column(i, field.name, partitions[i].cast(pa.string()))
    return partitions


FILE: Final = "__splitlib_data_file"
"""Column: number of the data file of a row."""
POSITION: Final = "__splitlib_position"
"""Column: position of a row in its data file, from 0."""

_DELETE: Final = "__splitlib_delete"
_SET: Final = "__splitlib_set"
_PATH: Final = "__splitlib_path"

# Delete files up to this total size are broadcast, and larger ones are joined by a shuffle. Files
# of this size have at most about a million positions.
_FEW_BYTES: Final = 2 * 2**20
_FEW_ROWS: Final = 1_000_000

# A delete file may spell the path of a data file differently from the catalog: with or without the
# scheme of a local path, or with s3, s3n or s3a. Paths are not URL-encoded, so `%20` is kept.
_S3: Final = (r"^s3[an]?:", "s3:")

# Column names of position delete files, as the Iceberg specification defines them.
_FILE_PATH, _POS = "file_path", "pos"


Sets = dict[tuple[DeleteFile, ...], int]
"""Maps each set of delete files to a number. The files of a set apply to the same data files."""


@dataclass(frozen=True, slots=True)
class _Equality:
    """The equality deletes that compare the same columns."""

    field_ids: tuple[int, ...]
    set_of_file: pa.Array
    """For each data file, the number of the set of delete files that applies to it; null if no
    delete file applies."""
    sets: Sets

    @property
    def column(self) -> str:
        """Name of :attr:`set_of_file` as a column of the rows."""
        return f"{_SET}_" + "_".join(map(str, self.field_ids))


class Deletes:
    """Applies delete files to the rows of some data files.

    Args:
        reader: Reads delete files.
        of_each: For each data file, the delete files that apply to it.
        paths: Paths of the data files.
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
        """Columns that equality deletes compare. They may include dropped columns."""
        used = {field_id(path[0]): path[0] for path in self._fields.values()}
        return list(used.values())

    @property
    def by_position(self) -> bool:
        """Whether rows need the column :data:`POSITION`."""
        return any(delete.kind != "equality" for of_one in self._of_each for delete in of_one)

    def columns_of_files(self) -> dict[str, pa.Array]:
        """Return columns with one value for each data file, to add to the rows of the file.

        They are the number of the file, and its sets of equality deletes.
        """
        numbers = pa.array(range(len(self._paths)), pa.int32())
        return {FILE: numbers} | {e.column: e.set_of_file for e in self._equalities}

    def removed_from(self, rows: DataFrame) -> DataFrame:
        """Return the rows that are not deleted."""
        if self.by_position:
            deleted = reduce(DataFrame.union, self._positions())
            rows = rows.join(deleted, [FILE, POSITION], "left_anti")
        for equality in self._equalities:
            rows = self._without_equal(rows, equality)
        return rows

    def _positions(self) -> Iterable[DataFrame]:
        """Yield the deleted rows as pairs of data file number and position."""
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
        """Read position delete files, with the column names of the Iceberg specification."""
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
        """Return pairs of the number of a set and the number of a delete file in that set."""
        number = {delete: i for i, delete in enumerate(deletes)}
        pairs = [(i, number[delete]) for one, i in sets.items() for delete in one]
        of_set, of_delete = zip(*pairs, strict=True)
        return self._local(
            pa.table({_SET: pa.array(of_set, pa.int32()), _DELETE: pa.array(of_delete, pa.int32())})
        )

    def _local(self, table: pa.Table) -> DataFrame:
        return local_rows(self._reader.spark, table)


def _one_spelling(path: Column) -> Column:
    """Normalize the path of a data file in a delete file, as the paths of the table."""
    for pattern, replacement in (*HADOOP_SPELLING, _S3):
        path = F.regexp_replace(path, pattern, replacement)
    return path


def _equality(field_ids: tuple[int, ...], of_each: Sequence[tuple[DeleteFile, ...]]) -> _Equality:
    return _Equality(field_ids, *_sets(of_each, lambda delete: delete.field_ids == field_ids))


def _sets(
    of_each: Sequence[tuple[DeleteFile, ...]], wanted: Callable[[DeleteFile], bool]
) -> tuple[pa.Array, Sets]:
    """Group the wanted delete files into sets that apply to the same data files.

    Returns:
        The number of the set for each data file, null if no delete file applies, and the sets.
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
    """Return delete files as a batch of files. ``partition`` is the number of the delete file."""
    if other := {delete.format for delete in deletes} - {"parquet"}:
        raise UnsupportedTable(f"Delete files in {min(other)} cannot be read, only in parquet.")
    rows = [
        {"path": delete.path, "size": delete.size, "modified": 0, "partition": number}
        for number, delete in enumerate(deletes)
    ]
    files = pa.RecordBatch.from_pylist(rows, FILE_SCHEMA)
    return FileBatch(files, ReadFormat.of("parquet", columns="id"))


def _paths_to(fields: Iterable[pa.Field], wanted: set[int]) -> dict[int, tuple[pa.Field, ...]]:
    """Map each wanted field id to the fields from a top-level column down to the field.

    Raises:
        UnsupportedTable: if the table never had a field with one of the ids.
    """
    found: dict[int, tuple[pa.Field, ...]] = {}

    def search(above: tuple[pa.Field, ...], inside: Iterable[pa.Field]) -> None:
        for field in inside:
            path = (*above, field)
            if field_id(field) in wanted:
                found.setdefault(field_id(field), path)
            if pa.types.is_struct(field.type):
                search(path, field.type)

    search((), fields)
    if unknown := wanted - found.keys():
        raise UnsupportedTable(f"An equality delete compares the unknown field {min(unknown)}.")
    return found


def _value(path: tuple[pa.Field, ...]) -> Column:
    column = F.col(alias(field_id(path[0])))
    for field in path[1:]:
        column = column.getField(field.name)
    return column
