"""Read the selected files of a table whose columns are found by field id, as one DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from splitlib.enumeration.pipeline import SelectedFiles
from splitlib.model import FILE_SCHEMA, DeleteFile, FileBatch, PartitionBatch, ReadFormat
from splitlib.spark.field_ids.columns import alias, field_id, spark_type
from splitlib.spark.field_ids.deletes import POSITION, Deletes, MappedReader
from splitlib.spark.scan import FileGroup
from splitlib.table import Table

# Maximum number of files whose column names the driver reads. For more, this would take seconds.
_FEW_FILES: Final = 200


def scan_mapped(
    spark: SparkSession,
    table: Table,
    selected: Iterable[SelectedFiles],
    how: str,
    *,
    conditioned: bool = False,
) -> DataFrame:
    """Return the rows of ``selected`` that are not deleted, in the table's schema.

    Files that are read in the same way share one scan. The result is the union of the scans.

    Args:
        spark: Session to read with.
        table: The table of the files.
        selected: The files, with their delete files.
        how: ``auto``, ``pinned`` or ``paths``, as in :func:`splitlib.spark.scan.scan_files`.
        conditioned: Whether the rows will be filtered by conditions on columns.

    Raises:
        UnsupportedTable: for files that Spark would read incorrectly.
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
    if not groups:  # A scan without files returns no rows, but has the schema.
        groups[_ColumnMapping(reader.format_of_no_files, (), False)] = _Group()
    return reduce(DataFrame.union, (_rows(reader, way, group) for way, group in groups.items()))


@dataclass(frozen=True)
class _ColumnMapping:
    """How to read a file. Files that are read in the same way share one scan."""

    read_format: ReadFormat
    constants: tuple[int, ...]
    """Field ids of the columns whose values come from the partition, not from the file."""
    deletes: bool
    """Whether delete files apply. Files without them are read separately, without joins."""


@dataclass
class _Group:
    """The files that are read in the same way."""

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
    """Return a column; a constant that is text is cast as Spark casts partition values."""
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
    """Return the rows that are not deleted.

    Each file becomes a partition of its own, so that rows get the number of their file.
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
    """Return the values of columns that are constant within a partition, by field id.

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
    """Yield the files without deletes, then the files with deletes."""
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
