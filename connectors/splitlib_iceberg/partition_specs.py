"""Partition specifications, which define how partition values are computed from columns."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import BinaryType, DecimalType, IcebergType, PrimitiveType, UUIDType
from pyiceberg.utils.decimal import decimal_to_unscaled

from splitlib.arrow.values import of_ordinals
from splitlib.model import ColumnStatistics, PartitionField
from splitlib.model import Transform as PartitionTransform
from splitlib_iceberg.bounds import decode
from splitlib_iceberg.schema import Column

_UNITS: dict[type[Transform[Any, Any]], Literal["Y", "M", "D", "h"]] = {
    YearTransform: "Y",
    MonthTransform: "M",
    DayTransform: "D",
    HourTransform: "h",
}


@dataclass(frozen=True, slots=True)
class Temporal:
    """Transform of a date or timestamp to whole years, months, days or hours since 1970 (UTC)."""

    unit: Literal["Y", "M", "D", "h"]
    """NumPy's name for the unit."""

    preserves_order = True

    def __call__(self, values: pa.Array) -> pa.Array:
        """Apply the transform to an array of column values, and return the partition values."""
        if pa.types.is_date(values.type):
            counts, known = values.cast(pa.int32()), "D"
        else:
            counts, known = values.cast(pa.int64()), values.type.unit
        instants = counts.fill_null(0).to_numpy().astype(f"datetime64[{known}]")
        whole = instants.astype(f"datetime64[{self.unit}]").astype(np.int64).astype(np.int32)
        result = pa.array(whole, mask=_nulls(values))
        return result.cast(pa.date32()) if self.unit == "D" else result

    def mistaken(self, results: pa.Array) -> pa.Array | None:
        """Return the partition values that Iceberg before 0.11 wrote, or None if they were correct.

        These versions rounded times before 1970 up instead of down.

        Args:
            results: The correct partition values.
        """
        counts = results.cast(pa.int32())
        before = pc.less(counts, 0)
        if not pc.any(before).as_py():
            return None
        return pc.add(counts, before.cast(pa.int32())).cast(results.type)


@dataclass(frozen=True, slots=True)
class Truncate:
    """Transform that rounds numbers down to multiples of a width, or cuts strings to a length."""

    width: int
    """Width for numbers; maximum length of strings in characters, and of binary values in bytes."""

    preserves_order = True

    def __call__(self, values: pa.Array) -> pa.Array:
        """Apply the transform to an array of column values, and return the partition values."""
        if pa.types.is_string(values.type):
            return pc.utf8_slice_codeunits(values, 0, self.width)
        if pa.types.is_binary(values.type):
            return pc.binary_slice(values, 0, self.width)
        if pa.types.is_decimal(values.type):
            return self._decimals(values)
        numbers = values.fill_null(0).to_numpy()
        width = np.array(self.width, numbers.dtype)
        # For numbers below the smallest multiple, the subtraction overflows and wraps around, as in
        # Iceberg's Java code.
        return pa.array(numbers - numbers % width, values.type, mask=_nulls(values))

    def mistaken(self, results: pa.Array) -> pa.Array | None:
        """Return None, because no writer is known to have written wrong values."""

    def _decimals(self, values: pa.Array) -> pa.Array:
        source = DecimalType(values.type.precision, values.type.scale)
        apply = TruncateTransform(self.width).transform(source)
        return pa.array(map(apply, values.to_pylist()), result_type(self, values.type))


@dataclass(frozen=True, slots=True)
class Bucket:
    """Transform that maps values to bucket numbers by their hash."""

    buckets: int
    """Number of buckets."""
    source: IcebergType
    """The column's Iceberg type, which determines the hash."""

    preserves_order = False

    def __call__(self, values: pa.Array) -> pa.Array:
        """Apply the transform to an array of column values, and return the partition values."""
        # Pass decimals as bytes. PyIceberg 0.11 would convert some of them, such as -1.28, to one
        # byte too many, and so return a wrong hash.
        source = BinaryType() if isinstance(self.source, DecimalType) else self.source
        apply: Callable[[Any], int | None] = BucketTransform(self.buckets).transform(source)
        return pa.array(map(apply, self._hashable(values)), pa.int32())

    def mistaken(self, results: pa.Array) -> pa.Array | None:
        """Return None, because no writer is known to have written wrong values."""

    def _hashable(self, values: pa.Array) -> list[Any]:
        if isinstance(self.source, UUIDType):
            return [_uuid_bytes(text) for text in values.to_pylist()]
        if isinstance(self.source, DecimalType):
            return [None if value is None else _least_bytes(value) for value in values.to_pylist()]
        if pa.types.is_date(values.type):
            values = values.cast(pa.int32())
        elif pa.types.is_timestamp(values.type):
            values = values.cast(pa.int64())
        found: list[Any] = values.to_pylist()
        return found


def _least_bytes(value: Decimal) -> bytes:
    """Return the unscaled value of a decimal in as few bytes as possible, as Iceberg hashes it."""
    number = decimal_to_unscaled(value)
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


def adapt(transform: Transform[Any, Any], source: IcebergType) -> PartitionTransform | None:
    """Convert an Iceberg transform to a transform of Arrow arrays.

    Return None for an unknown transform, whose partition values cannot prune. The caller must
    handle the transforms ``identity`` and ``void``.
    """
    unit = _UNITS.get(type(transform))
    if unit is not None:
        return Temporal(unit)
    if isinstance(transform, TruncateTransform):
        return Truncate(transform.width)
    if isinstance(transform, BucketTransform):
        return Bucket(transform.num_buckets, source)
    return None


def result_type(transform: PartitionTransform | None, source: pa.DataType) -> pa.DataType:
    """Return the Arrow type of a transform's results. None means the identity transform."""
    match transform:
        case None:
            return source
        case Temporal(unit="D"):
            return pa.date32()
        case Truncate() if pa.types.is_decimal(source):
            # Rounding -99 down to a multiple of 10 needs one more digit.
            return pa.decimal128(min(38, source.precision + 1), source.scale)
        case Truncate():
            return source
    return pa.int32()


def _nulls(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    mask: np.ndarray[Any, np.dtype[np.bool_]] = pc.is_null(values).to_numpy(zero_copy_only=False)
    return mask


def _uuid_bytes(text: str | None) -> bytes | None:
    """Return a UUID's 16 bytes, or None if the text is not a UUID in the form that Spark writes."""
    try:
        found = uuid.UUID(text) if text is not None else None
    except ValueError:
        return None
    return found.bytes if found is not None and str(found) == text else None


class Key(NamedTuple):
    """One field of a partition specification."""

    id: int
    """Id of the partition field."""
    position: int
    """Index among the specification's fields. Summaries in manifest lists have the same order."""
    source: PrimitiveType | None
    """Iceberg type of the partition values, or None if ``meaning`` is None."""
    field: pa.Field
    """Name and Arrow type of the partition values."""
    meaning: PartitionField | None
    """Source column and transform of the field.

    None if the column was dropped or the transform is unknown. Such a field cannot prune.
    """


class Spec:
    """One of a table's partition specifications, resolved against a schema.

    Args:
        spec: The specification in the table's metadata.
        columns: The schema's columns by field id.
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
        """Names of partition columns without a transform, by source column in lower case."""
        # Values of a key without a source column are decoded to other text than those of a string
        # key, although both have the Arrow type string. So the signature must distinguish them.
        of_keys = tuple((key.id, key.source is None, str(key.field.type)) for key in self.keys)
        self.signature = (self.id, of_keys)
        """Part of cache keys. Equal signatures mean that a manifest decodes to the same columns."""

    def partitions(self, rows: Sequence[Sequence[Any]], field_ids: Sequence[int]) -> list[pa.Array]:
        """Return the files' partition values, as one array per key.

        Args:
            rows: Each file's partition values, as stored in its manifest.
            field_ids: Ids of the partition fields, in the order of these values.

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
        """Return the manifest list's partition summaries by key name, with one row per manifest."""
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
        # Batch columns are matched by name, ignoring case. So if two fields of a specification
        # have names that differ only in case, the second field gets another name.
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
        # Without the logical type in the manifest's schema, PyIceberg returns bytes.
        values = [
            v if v is None else str(uuid.UUID(bytes=v) if isinstance(v, bytes) else v)
            for v in values
        ]
    return of_ordinals(values, kind)
