"""Read files whose columns are found by field id, with or without Spark's support for field ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from splitlib.errors import UnsupportedTable
from splitlib.model import FileBatch, ReadFormat
from splitlib.spark.field_ids.columns import (
    Finder,
    MappedColumns,
    alias,
    field_id,
    nulls_empty_structs,
    spark_fills_defaults,
    spark_type,
)
from splitlib.spark.file_scan import FileScan, own_storage
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
