"""Read the selected files of any format as one DataFrame with the table's schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from splitlib.enumeration.selected_files import SelectedFiles
from splitlib.errors import UnsupportedTable
from splitlib.model import ReadFormat, TableMetadata
from splitlib.spark.field_ids.scan import scan_mapped
from splitlib.spark.file_scan import FileScan, own_storage
from splitlib.spark.formats.hive_csv import hive_csv_columns
from splitlib.spark.formats.hive_text import hive_text_columns
from splitlib.spark.scan.file_group import FileGroup
from splitlib.spark.scan.files import scan_files
from splitlib.spark.schema import partition_fields
from splitlib.spark.time_zones import jvm_time_zone
from splitlib.table import Table

_LINE = "__splitlib_line"


def scan_selected(
    spark: SparkSession,
    table: Table,
    schema: StructType,
    selected: Iterable[SelectedFiles],
    how: str,
    *,
    conditioned: bool = False,
) -> DataFrame:
    """Return the rows of ``selected`` in ``schema``: the union of one scan per read format.

    Args:
        spark: Session to read with.
        table: The table of the files.
        schema: Spark schema of the table.
        selected: The files.
        how: Access to Spark's internals, see :func:`splitlib.spark.scan.files.scan_files`.
        conditioned: Whether the rows will be filtered by conditions on columns.

    Raises:
        UnsupportedTable: for a text SerDe whose properties cannot be followed exactly, and as
            :func:`splitlib.spark.field_ids.scan.scan_mapped`.
    """
    if table.metadata.read_format.columns != "name":
        return scan_mapped(spark, table, selected, how, conditioned=conditioned)
    groups: dict[ReadFormat, FileGroup] = {}
    for one in selected:
        group = groups.setdefault(one.files.read_format, FileGroup())
        group.add(one.files.files, one.partitions.values)
    if not groups:  # a scan without files still has the schema
        groups[table.metadata.read_format] = FileGroup()
    data = StructType([f for f in schema if f.name not in table.partition_keys])
    storage = own_storage(table)
    scans = [
        _scan(spark, table.metadata, form, group, data, how, storage)
        for form, group in groups.items()
    ]
    return reduce(DataFrame.union, scans)


def _scan(
    spark: SparkSession,
    metadata: TableMetadata,
    form: ReadFormat,
    group: FileGroup,
    data: StructType,
    how: str,
    storage: Mapping[str, Mapping[str, Any]],
) -> DataFrame:
    lines = form.name.startswith("hive-")
    nothing = pa.table({key: pa.array([], pa.string()) for key in metadata.partition_keys})
    partitions = group.values(none=nothing)
    keys = partition_fields(metadata, partitions)
    scan = FileScan(
        format="text" if lines else form.name,
        options={} if lines else dict(form.options),
        data_schema=StructType([StructField(_LINE, StringType())]) if lines else data,
        partition_schema=keys,
        partitions=partitions,
        files=group.files(),
        storage=storage,
    )
    df = scan_files(spark, scan, how)
    if not lines:
        return df
    try:
        if form.name == "hive-csv":
            columns = hive_csv_columns(df[_LINE], data, dict(form.options))
        else:
            zone = jvm_time_zone(spark) if "timestamp" in data.simpleString() else None
            columns = hive_text_columns(df[_LINE], data, dict(form.options), time_zone=zone)
    except ValueError as error:
        raise UnsupportedTable(f"The text files cannot be read exactly: {error}") from error
    return df.select(*columns, *(df[key] for key in keys.names))
