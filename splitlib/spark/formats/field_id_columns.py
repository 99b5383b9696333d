"""Read files whose columns are found by field id, and convert columns to the table's types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructField, StructType

from splitlib.errors import UnsupportedTable
from splitlib.model import FIELD_ID, INITIAL_DEFAULT, FileBatch, ReadFormat
from splitlib.reading.columns import is_uuid
from splitlib.spark.compat import NULL_STRUCTS, setting_of
from splitlib.spark.conversion import default_literal
from splitlib.spark.file_scan import FileScan, own_storage
from splitlib.spark.scan import scan_files, why_no_field_ids
from splitlib.table import Table

# Metadata key for the field id by which Spark's Parquet reader finds a column.
_SPARK_FIELD_ID: Final = "parquet.field.id"
# Metadata keys for a column's default, which Spark uses for files that lack the column.
_SPARK_DEFAULTS: Final = ("EXISTS_DEFAULT", "CURRENT_DEFAULT")

Finder = Literal["id"] | Mapping[int, str]
"""How columns are found in a file: ``"id"`` to find them by field id, or a mapping from each field
id to the column's name in the file."""


def field_id(field: pa.Field) -> int:
    """Return a table column's field id.

    Raises:
        UnsupportedTable: if the column does not have a field id.
    """
    text = (field.metadata or {}).get(FIELD_ID)
    if text is None:
        raise UnsupportedTable(
            f"Column {field.name!r} has no field id, so it cannot be found in files."
        )
    return int(text)


def alias(identifier: int) -> str:
    """Return a column alias that no table or file uses as a column name.

    Spark pushes conditions down to files by column name, even if it finds columns by field id. If
    the column kept its own name, Spark could test another column with this name in an old file.
    """
    return f"__splitlib_{identifier}"


@dataclass(frozen=True)
class MappedColumns:
    """Table columns to read from a group of files that have the same :data:`Finder`."""

    fields: tuple[pa.Field, ...]
    find: Finder

    def read_schema(self) -> StructType:
        """Return the schema for reading the files, in the order of :attr:`fields`."""
        return StructType([self._read_field(field, top=True) for field in self.fields])

    def values(self) -> Iterator[Column]:
        """Yield expressions that convert the columns to the table's types.

        The input columns are named by :func:`alias`.
        """
        for field in self.fields:
            yield self._value(F.col(alias(field_id(field))), field)

    def check(self, spark: SparkSession) -> None:
        """Check that the files have at least one current field of each struct that they contain.

        Some sessions read a struct as null if the file has none of its fields.

        Raises:
            UnsupportedTable: if a struct would be read as null. The message names the column.
        """
        if self.find == "id" or not nulls_empty_structs(spark):
            return
        for field in self.fields:
            self._check_struct(field, field.name)

    def _check_struct(self, field: pa.Field, name: str) -> None:
        inside = children(field)
        if pa.types.is_struct(field.type):
            if not self._in_file(field):
                return
            inside = [child for child in inside if self._in_file(child)]
            if not inside:
                raise UnsupportedTable(
                    f"Some files contain the struct {name!r} without any of its current fields.",
                    hint="this session would read the struct as null. Use PySpark 4.1 or later, "
                    f"and set {NULL_STRUCTS} to false.",
                )
        for child in inside:
            self._check_struct(child, f"{name}.{child.name}")

    def _in_file(self, field: pa.Field) -> bool:
        return self.find == "id" or field_id(field) in self.find

    def _read_field(self, field: pa.Field, *, top: bool = False) -> StructField:
        identifier = field_id(field)
        kind = self._read_type(field)
        default = default_literal(field) if top else None
        metadata: dict[str, Any] = dict.fromkeys(_SPARK_DEFAULTS, default) if default else {}
        if self.find != "id":
            name = self.find.get(identifier, alias(identifier))
            return StructField(name, kind, metadata=metadata)
        metadata |= {_SPARK_FIELD_ID: identifier}
        return StructField(alias(identifier), kind, metadata=metadata)

    def _read_type(self, field: pa.Field) -> DataType:
        kind = field.type
        if pa.types.is_struct(kind):
            return StructType([self._read_field(child) for child in kind])
        if pa.types.is_map(kind):
            return MapType(self._read_type(kind.key_field), self._read_type(kind.item_field))
        if is_list(kind):
            return ArrayType(self._read_type(kind.value_field))
        return BinaryType() if is_uuid(field) else spark_type(field)

    def _value(self, column: Column, field: pa.Field) -> Column:
        if not self._in_file(field) and (default := default_literal(field)) is not None:
            column = F.expr(default)
        if not self._is_plain(field):
            column = self._rebuilt(column, field)
        # Spark casts structs by position, so the cast also gives the fields the table's names.
        return column.cast(spark_type(field)) if pa.types.is_nested(field.type) else column

    def _is_plain(self, field: pa.Field) -> bool:
        """Return whether the file's column can be used unchanged, apart from field names."""
        return not is_uuid(field) and all(
            self._is_plain(child) and (self._in_file(child) or default_literal(child) is None)
            for child in children(field)
        )

    def _rebuilt(self, column: Column, field: pa.Field) -> Column:
        kind = field.type
        if pa.types.is_struct(kind):
            read = self._read_type(field)
            assert isinstance(read, StructType)
            parts = [
                self._value(column.getField(name), child).alias(child.name)
                for name, child in zip(read.names, kind, strict=True)
            ]
            return F.when(column.isNotNull(), F.struct(*parts))
        if pa.types.is_map(kind):
            keys = F.transform(F.map_keys(column), self._each(kind.key_field))
            return F.map_from_arrays(
                keys, F.transform(F.map_values(column), self._each(kind.item_field))
            )
        if is_list(kind):
            return F.transform(column, self._each(kind.value_field))
        return _uuid_text(column)

    def _each(self, field: pa.Field) -> Callable[[Column], Column]:
        return lambda element: self._value(element, field)


def is_list(kind: pa.DataType) -> bool:
    """Return whether the type is a list or a large list."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def children(field: pa.Field) -> list[pa.Field]:
    """Return the direct child fields of a struct, list or map."""
    kind = field.type
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if is_list(kind):
        return [kind.value_field]
    return list(kind) if pa.types.is_struct(kind) else []


def spark_type(field: pa.Field) -> DataType:
    """Return a column's Spark type, with all nested fields nullable.

    A field that is required now may have nulls in older files.
    """
    return from_arrow_type(_nullable(field.type), prefer_timestamp_ntz=True)


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_nullable(f.type)).with_nullable(True) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_nullable(kind.key_type), _nullable(kind.item_type))
    return pa.list_(_nullable(kind.value_type)) if is_list(kind) else kind


def spark_fills_defaults(fields: Iterable[pa.Field]) -> bool:
    """Return whether Spark's reader can fill in the defaults of all columns.

    Spark can fill in the defaults of top-level columns, except for binary columns and UUIDs. It
    cannot fill in the defaults of nested fields.
    """
    return not any(
        (INITIAL_DEFAULT in (field.metadata or {}) and (is_uuid(field) or _is_bytes(field)))
        or _has_defaults(children(field))
        for field in fields
    )


def _has_defaults(fields: Iterable[pa.Field]) -> bool:
    return any(
        INITIAL_DEFAULT in (field.metadata or {}) or _has_defaults(children(field))
        for field in fields
    )


def _is_bytes(field: pa.Field) -> bool:
    return bool(pa.types.is_binary(field.type) or pa.types.is_fixed_size_binary(field.type))


def nulls_empty_structs(spark: SparkSession) -> bool:
    """Return whether Spark reads a struct as null if the file has none of the requested fields.

    This applies only to structs whose fields are found by name.
    """
    # A Spark version without this setting always reads such a struct as null.
    return setting_of(spark, NULL_STRUCTS) != "false"


def _uuid_text(column: Column) -> Column:
    digits = F.lower(F.hex(column))
    return F.regexp_replace(digits, "^(.{8})(.{4})(.{4})(.{4})", "$1-$2-$3-$4-")


class MappedReader:
    """Reads data files and delete files of a table.

    Args:
        spark: Session to read with.
        table: A table whose columns are found by field id.
        how: ``auto``, ``pinned`` or ``paths``, as in :func:`splitlib.spark.scan.scan_files`.
        skip: Whether Spark should skip the parts of files that do not meet conditions. Spark looks
            up statistics by column name, so columns are then read by name if possible.
    """

    def __init__(self, spark: SparkSession, table: Table, how: str, *, skip: bool = False) -> None:
        self.spark = spark
        self.table = table
        self.how = how
        self.storage = own_storage(table)
        # If Spark cannot fill in all defaults, columns are read by name and MappedColumns adds the
        # defaults. This requires the column names in each file.
        self._by_id = why_no_field_ids(spark, how) is None and spark_fills_defaults(
            table.metadata.schema
        )
        if skip and table.knows_physical_names:
            self._by_id = self._by_id and nulls_empty_structs(spark)

    @property
    def format_of_no_files(self) -> ReadFormat:
        """Read format of an empty scan, which has the table's schema but reads no files."""
        return ReadFormat.of("parquet", columns="id" if self._by_id else {})

    def readable(self, files: FileBatch) -> Iterator[FileBatch]:
        """Yield the files in batches that :meth:`read` accepts.

        Raises:
            UnsupportedTable: if the session cannot read the columns by field id, and the connector
                cannot provide the column names in the files.
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
        """Read ``fields`` from files, with the table's types and the column names of :func:`alias`.

        Args:
            files: A batch from :meth:`readable`; ``partition`` is a row number in ``partitions``.
            fields: Table columns to read from the files.
            partitions: Columns to add after ``fields``, with one row per partition.
            row_index: Name of an additional last column with the position of each row in its file,
                or None to add no such column.

        Raises:
            UnsupportedTable: if Spark would read some of the files incorrectly.
        """
        form = files.read_format
        if form.name != "parquet" or form.columns == "name":
            raise UnsupportedTable(f"Columns in {form.name} files cannot be found by field id.")
        find: Finder = "id" if form.columns == "id" else dict(form.columns)
        columns = MappedColumns(tuple(fields), find)
        columns.check(self.spark)
        scan = FileScan(
            format=form.name,
            options=dict(self.table.metadata.read_format.options) | dict(form.options),
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
    """Convert timestamps without time zone to text, so that Spark applies no time zone to them."""
    for i, field in enumerate(partitions.schema):
        if pa.types.is_timestamp(field.type) and not field.type.tz:
            partitions = partitions.set_column(i, field.name, partitions[i].cast(pa.string()))
    return partitions
