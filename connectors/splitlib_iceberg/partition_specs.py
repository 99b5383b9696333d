"""Partition specifications, which define how partition values are computed from columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import IdentityTransform, Transform, VoidTransform
from pyiceberg.types import PrimitiveType, UUIDType

from splitlib.model import ColumnStatistics, PartitionField
from splitlib_iceberg.bounds import arrow_values, decode
from splitlib_iceberg.schema import Column
from splitlib_iceberg.transforms import adapt, result_type


class Key(NamedTuple):
    """One field of a partition specification."""

    id: int
    """Id of the partition field."""
    position: int
    """Index among all fields of the specification; summaries in manifest lists have this order."""
    source: PrimitiveType | None
    """Iceberg's type of the partition values."""
    field: pa.Field
    """Name and Arrow type of the partition values."""
    meaning: PartitionField | None
    """Source column and transform of the field.

    None if the column was dropped or the transform is unknown. Then the field cannot prune.
    """


class Spec:
    """One of a table's partition specifications, resolved against a schema.

    Args:
        spec: The specification in the table's metadata.
        columns: Columns of the schema by id.
    """

    def __init__(self, spec: PartitionSpec, columns: Mapping[int, Column]) -> None:
        self.id = spec.spec_id
        self.size = len(spec.fields)
        self.keys = tuple(_keys(spec, columns))
        self.is_unpartitioned = not self.keys
        self.fields = tuple(key.meaning for key in self.keys if key.meaning is not None)
        self.identities = {
            key.meaning.source.lower(): key.field.name
            for key in self.keys
            if key.meaning is not None and key.meaning.transform is None
        }
        """Columns of partition batches without a transform, by source column in lower case."""
        self.signature = (self.id, tuple((key.id, str(key.field.type)) for key in self.keys))
        """Part of cache keys. Equal signatures mean that manifests decode to the same columns."""

    def partitions(self, rows: Sequence[Sequence[Any]], field_ids: Sequence[int]) -> list[pa.Array]:
        """Return the partition values of each file, one column per key.

        Raises:
            ValueError: if a manifest lacks a field.
        """
        position = {identifier: i for i, identifier in enumerate(field_ids)}
        columns = []
        for key in self.keys:
            if key.id not in position:
                raise ValueError(f"Partition field {key.id} is missing.")
            i = position[key.id]
            columns.append(_array([row[i] for row in rows], key))
        return columns

    def summaries(self, manifests: Sequence[ManifestFile]) -> dict[str, ColumnStatistics]:
        """Return statistics of the partition values in each manifest, from the manifest list."""
        found = {}
        for key in self.keys:
            if key.meaning is None or key.source is None:
                continue
            of_key = [
                m.partitions[key.position]
                if m.partitions is not None and len(m.partitions) == self.size
                else None
                for m in manifests
            ]
            lower = [None if s is None else s.lower_bound for s in of_key]
            upper = [None if s is None else s.upper_bound for s in of_key]
            known = [
                None if s is None else s.lower_bound is not None or s.upper_bound is not None
                for s in of_key
            ]
            found[key.field.name] = ColumnStatistics(
                decode(lower, key.source, key.field.type),
                decode(upper, key.source, key.field.type),
                pa.array([None if s is None else s.contains_null for s in of_key], pa.bool_()),
                pa.array([None if s is None else s.contains_nan for s in of_key], pa.bool_()),
                # If both bounds are missing, all values are null or NaN.
                pa.array(known, pa.bool_()),
            )
        return found


def _keys(spec: PartitionSpec, columns: Mapping[int, Column]) -> Iterator[Key]:
    taken: set[str] = set()
    for position, field in enumerate(spec.fields):
        if isinstance(field.transform, VoidTransform):
            continue
        # Columns of batches are found regardless of case. So if two fields of a specification
        # differ only in case, the second one gets another name.
        name = f"{field.name}_{field.field_id}" if field.name.lower() in taken else field.name
        taken.add(name.lower())
        column = columns.get(field.source_id)
        meaning = None if column is None else _meaning(name, field.transform, column)
        if column is None or meaning is None:
            yield Key(field.field_id, position, None, pa.field(name, pa.string()), None)
            continue
        stored = field.transform.result_type(column.source)
        assert isinstance(stored, PrimitiveType)
        kind = result_type(meaning.transform, column.field.type)
        yield Key(field.field_id, position, stored, pa.field(name, kind), meaning)


def _meaning(name: str, transform: Transform[Any, Any], column: Column) -> PartitionField | None:
    if isinstance(transform, IdentityTransform):
        return PartitionField(name, column.name)
    known = adapt(transform, column.source)
    return None if known is None else PartitionField(name, column.name, known)


def _array(values: list[Any], key: Key) -> pa.Array:
    kind = key.field.type
    if key.meaning is None:
        return pa.array([None if value is None else repr(value) for value in values], kind)
    if isinstance(key.source, UUIDType):
        values = [None if value is None else str(value) for value in values]
    return arrow_values(values, kind)
