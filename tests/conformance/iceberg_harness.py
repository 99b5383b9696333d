from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import And, BooleanExpression, EqualTo, IsNull, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from splitlib.model import LOGICAL_TYPE
from splitlib_conformance import (
    Harness,
    NewPartition,
    SourceCalls,
    TableAddress,
    WrittenFile,
    not_tried,
)
from tests.integration.iceberg.lake import delete_vector
from tests.support.iceberg_tables import append, data_file, internal

_TYPES: dict[pa.DataType, IcebergType] = {
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.string(): StringType(),
    pa.date32(): DateType(),
    pa.bool_(): BooleanType(),
    pa.decimal128(10, 2): DecimalType(10, 2),
    pa.binary(): BinaryType(),
    pa.float64(): DoubleType(),
    pa.timestamp("us"): TimestampType(),
    pa.timestamp("us", "UTC"): TimestamptzType(),
}


class IcebergHarness(Harness):
    """Tables partitioned by their last columns. The files do not contain these columns.

    Files are written by PyArrow, outside of the table's default location.
    """

    def __init__(self, catalog: Catalog, root: Path) -> None:
        self._catalog = catalog
        self._root = root
        self._names = (f"ns.t{uuid.uuid4().hex[:8]}_{i}" for i in itertools.count())
        self._partitions: dict[str, list[Any]] = {}
        self._files = (root / f"{i}.parquet" for i in itertools.count())

    def create_table(self, data_schema: pa.Schema, partition_schema: pa.Schema) -> TableAddress:
        fields = [*data_schema, *partition_schema]
        if any(LOGICAL_TYPE in (field.metadata or {}) for field in fields):
            not_tried("make a column of a type that Iceberg has not")
        every = enumerate(fields, start=1)
        columns = [NestedField(i, f.name, _TYPES[f.type], required=False) for i, f in every]
        keys = [
            PartitionField(column.field_id, 1000 + i, IdentityTransform(), column.name)
            for i, column in enumerate(columns[len(data_schema) :])
        ]
        name = next(self._names)
        self._catalog.create_table(name, Schema(*columns), partition_spec=PartitionSpec(*keys))
        return TableAddress(name, self._catalog.properties)

    def add(self, table: TableAddress, partitions: Sequence[NewPartition]) -> list[WrittenFile]:
        iceberg = self._catalog.load_table(table.name)
        written, entries = [], []
        for partition in partitions:
            for rows in partition.tables:
                path = next(self._files)
                pq.write_table(_with_ids(rows, iceberg), path)
                size = path.stat().st_size
                self._partitions[str(path)] = list(map(internal, partition.values.values()))
                values = Record(*self._partitions[str(path)])
                file = data_file(
                    iceberg,
                    [{**row, **partition.values} for row in rows.to_pylist()],
                    partition=values,
                    file_path=path.as_uri(),
                    file_size_in_bytes=size,
                )
                entries.append(file)
                written.append(WrittenFile(str(path), size, partition.values))
        if entries:
            append(iceberg, entries)
        return written

    def drop(self, table: TableAddress, values: Mapping[str, Any]) -> None:
        where: list[BooleanExpression] = [
            IsNull(term=Reference(key))
            if value is None
            else EqualTo(term=Reference(key), value=literal(value))
            for key, value in values.items()
        ]
        condition = where[0] if len(where) == 1 else And(*where)
        self._catalog.load_table(table.name).delete(condition)

    def watch(self, calls: SourceCalls) -> AbstractContextManager[None]:
        return calls.patched(storage=[(PyArrowFile, "open")])

    def delete_rows(self, table: TableAddress, path: str, positions: Sequence[int]) -> None:
        iceberg = self._catalog.load_table(table.name)
        delete_vector(iceberg, Path(path).as_uri(), positions, self._partitions[path])

    def missing_table(self) -> TableAddress:
        return TableAddress("ns.missing", self._catalog.properties)


def _with_ids(rows: pa.Table, table: Table) -> pa.Table:
    fields = [
        field.with_metadata(
            {"PARQUET:field_id": str(table.schema().find_field(field.name).field_id)}
        )
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))
