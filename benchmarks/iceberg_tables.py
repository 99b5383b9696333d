"""Build Iceberg tables whose data files do not exist, because planning reads only metadata."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

KEY = "day"
_NAMESPACE = "benchmarks"
_COLUMNS = 11
_LONG = LongType()


def open_catalog(directory: Path) -> Catalog:
    """Open the SQLite catalog in a directory, or create it. It has the tables of earlier runs."""
    directory.mkdir(parents=True, exist_ok=True)
    catalog = load_catalog(
        "benchmarks",
        type="sql",
        uri=f"sqlite:///{directory}/catalog.db",
        warehouse=directory.as_uri(),
    )
    catalog.create_namespace_if_not_exists(_NAMESPACE)
    return catalog


def build_table(catalog: Catalog, *, manifests: int, files: int) -> Table:
    """Build or load a table partitioned by ``day``, with one file for each even day.

    Each of the ``manifests`` manifests has ``files`` files.
    """
    name = f"{_NAMESPACE}.days_{manifests}_{files}"
    if catalog.table_exists(name):
        return catalog.load_table(name)
    print(f"building {name} ...", file=sys.stderr)
    fields = [NestedField(i + 1, f"c{i}", _LONG, required=False) for i in range(1, _COLUMNS)]
    schema = Schema(NestedField(1, KEY, _LONG, required=False), *fields)
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), KEY))
    # Without merging, each append adds one manifest.
    properties = {"commit.manifest-merge.enabled": "false"}
    building = f"{name}_building"
    if catalog.table_exists(building):  # left by an interrupted run
        catalog.drop_table(building)
    table = catalog.create_table(building, schema, partition_spec=spec, properties=properties)
    for first in range(0, manifests * files, files):
        _append(table, (2 * number for number in range(first, first + files)))
    catalog.rename_table(building, name)
    return catalog.load_table(name)


def _append(table: Table, days: Iterable[int]) -> None:
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as adding:
        for day in days:
            adding.append_data_file(_file(table, day))


def _file(table: Table, day: int) -> DataFile:
    every = range(1, _COLUMNS + 1)
    low, high = to_bytes(_LONG, day), to_bytes(_LONG, day + 1)
    file = DataFile.from_args(
        _table_format_version=2,
        content=DataFileContent.DATA,
        file_path=f"{table.location()}/data/{KEY}={day}/00000-0-{day:032x}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(day),
        record_count=1000,
        file_size_in_bytes=1_000_000,
        column_sizes=dict.fromkeys(every, 10_000),
        value_counts=dict.fromkeys(every, 1000),
        null_value_counts=dict.fromkeys(every, 0),
        nan_value_counts={},
        lower_bounds=dict.fromkeys(every, low),
        upper_bounds={column: low if column == 1 else high for column in every},
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = table.spec().spec_id
    return file
