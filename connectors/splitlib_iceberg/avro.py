"""Decode untrusted Avro files, and raise an error for every damaged file.

PyIceberg's compiled decoder is fast, but does not check lengths against the size of the data. One
changed byte can make it read beyond the data and crash the process. So this module passes a decoder
with bounds checks to PyIceberg's readers, and reads the file's blocks itself.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pyiceberg.avro.decoder import BinaryDecoder, new_decoder
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import ReadSchemaResolver, SchemaPartnerAccessor
from pyiceberg.schema import Schema, visit_with_partner
from pyiceberg.typedef import StructProtocol
from pyiceberg.types import (
    FixedType,
    IcebergType,
    ListType,
    MapType,
    StructType,
    UnknownType,
)
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from splitlib_iceberg.unpacking import limit_of, unpacked

_MAGIC: Final = b"Obj\x01"
_SYNC_SIZE: Final = 16
# The compiled decoder returns its position as a 32-bit integer.
_MAX_SIZE: Final = 2**31 - 1
# Maximum number of integers that one call decodes. The data is followed by at least as many zero
# bytes (_PADDING), and each zero byte ends an integer. So even if the data is truncated, a call
# never reads beyond the padding.
_AT_ONCE: Final = 4096
# Minimum compressed size of a record in bytes. Real records are larger, because each contains a
# unique path. A file that claims to have more records than fit in its size is rejected, because
# each decoded record takes a kilobyte of memory.
_BYTES_PER_RECORD: Final = 2
_FEW_RECORDS: Final = 1000
_PADDING: Final = bytes(_AT_ONCE + _SYNC_SIZE)
# Types of an Avro schema that are written as objects.
_KEYWORDS: Final = frozenset({"array", "enum", "error", "fixed", "map", "record"})


class AvroContainer:
    """An Avro file: its header and its records.

    Args:
        data: The whole file.

    Raises:
        ValueError, EOFError: if ``data`` is not an Avro file, or its header is damaged.
    """

    def __init__(self, data: bytes) -> None:
        self._size = len(data)
        self._decoder = decoder = _Decoder(data)
        if decoder.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("The data is not an Avro file.")
        self.metadata = dict(_metadata(decoder))
        self._sync = decoder.read(_SYNC_SIZE)
        stored = json.loads(self.metadata[b"avro.schema"])
        self.schema: Schema = AvroSchemaConversion().avro_to_iceberg(_without_names(stored, {}))
        _refuse_empty_elements(self.schema.as_struct())

    def records(self, reader: Reader) -> Iterator[Any]:
        """Yield every record. May be called only once.

        Raises:
            ValueError, EOFError: if a block is damaged, or bytes follow the last block.
        """
        left = _FEW_RECORDS + self._size // _BYTES_PER_RECORD
        for count, block in self._blocks():
            decoder = _Decoder(block)
            left -= count
            # A record in a manifest takes at least one byte, so a block cannot have more records
            # than bytes.
            if not 0 <= count <= len(block):
                raise ValueError(f"A block of {len(block)} bytes cannot hold {count} records.")
            if left < 0:
                raise ValueError(f"{self._size} bytes cannot hold the claimed number of records.")
            for _ in range(count):
                yield reader.read(decoder)
            if decoder.tell() != len(block):
                raise ValueError("A block does not have the claimed number of records.")

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield each block's claimed number of records, and its decompressed bytes."""
        name = self.metadata.get(b"avro.codec", b"null").decode()
        left = limit_of(self._size)
        while self._decoder.tell() < self._size:
            count = self._decoder.read_int()
            block = self._decoder.read_bytes()
            if self._decoder.read(_SYNC_SIZE) != self._sync:
                raise ValueError("A block does not end with the sync marker of the file.")
            block = unpacked(name, block, left)
            left -= len(block)
            yield count, block


def reader_of(
    stored: Schema, wanted: Schema, types: Mapping[int, Callable[..., StructProtocol]]
) -> Reader:
    """Return a reader that skips all fields of a file that are not wanted.

    ``pyiceberg.avro.resolver.resolve_reader`` refuses such a field if it is a list, a map or a
    struct. Writers other than PyIceberg add such fields, for example ``distinct_counts``.

    Args:
        stored: Schema of the file.
        wanted: Fields to read.
        types: Classes of the records, by field id.
    """
    visit: Any = visit_with_partner  # its types do not fit PyIceberg's own arguments
    found: Reader = visit(stored, wanted, ReadSchemaResolver(dict(types), {}), _Partners())
    return found


class _Partners(SchemaPartnerAccessor):
    """Finds the wanted type of each part of a file's schema: None for the parts to skip."""

    def field_partner(
        self, partner: IcebergType | None, field_id: int, field_name: str
    ) -> IcebergType | None:
        return None if partner is None else super().field_partner(partner, field_id, field_name)

    def list_element_partner(self, partner_list: IcebergType | None) -> IcebergType | None:
        return None if partner_list is None else super().list_element_partner(partner_list)

    def map_key_partner(self, partner_map: IcebergType | None) -> IcebergType | None:
        return None if partner_map is None else super().map_key_partner(partner_map)

    def map_value_partner(self, partner_map: IcebergType | None) -> IcebergType | None:
        return None if partner_map is None else super().map_value_partner(partner_map)


class _Decoder(BinaryDecoder):
    """PyIceberg's compiled decoder with bounds checks.

    Reading a single integer needs no check: zero bytes follow the data, and a zero byte ends every
    integer.
    """

    def __init__(self, data: bytes) -> None:
        self._size = len(data)
        if self._size > _MAX_SIZE:
            raise ValueError(f"A file of {self._size} bytes is too large to be decoded.")
        inner = new_decoder(data + _PADDING)
        self._read = inner.read
        self._read_ints = inner.read_ints
        # These methods are assigned to the instance, because a wrapper method would add a call for
        # each field of each record. mypy reports such assignments as errors.
        self.tell = inner.tell  # type: ignore[method-assign]
        self.read_int = inner.read_int  # type: ignore[method-assign]

    # The abstract base class requires this method. It is never called, because the instance
    # attribute of the same name hides it.
    def tell(self) -> int:  # type: ignore[empty-body]
        """Return the current position."""

    def read(self, n: int) -> bytes:
        """Return the next ``n`` bytes."""
        if not 0 <= n <= self._size - self.tell():
            raise EOFError(f"The Avro data is too short for {n} more bytes.")
        return self._read(n)

    def skip(self, n: int) -> None:
        """Skip ``n`` bytes."""
        self.read(n)

    def skip_int(self) -> None:
        """Skip one integer."""
        self.read_int()

    def read_ints(self, n: int) -> tuple[int, ...]:
        """Return the next ``n`` integers."""
        if not 0 <= n <= self._size - self.tell():
            raise EOFError(f"The Avro data is too short for {n} more integers.")
        if n > _AT_ONCE:
            return tuple(self.read_int() for _ in range(n))
        found: Any = self._read_ints(n)
        # The compiled decoder returns unsigned integers, so reinterpret their bits as signed.
        return tuple(array("q", found.tobytes())) if isinstance(found, array) else found

    def read_bytes(self) -> bytes:
        """Read a length, and return that number of bytes."""
        return self.read(self.read_int())

    def read_int_bytes_dict(self, n: int, dest: dict[int, bytes]) -> None:
        """Read ``n`` pairs of an integer key and a bytes value into ``dest``."""
        read_int, read, tell, size = self.read_int, self._read, self.tell, self._size
        for _ in range(n):
            key, length = read_int(), read_int()
            if not 0 <= length <= size - tell():
                raise EOFError(f"The Avro data ends within the next {length} bytes.")
            dest[key] = read(length)


def _refuse_empty_elements(kind: IcebergType) -> None:
    """Reject lists and maps whose elements take no bytes, because they could claim any length.

    Raises:
        ValueError: if there is such a list or map.
    """
    match kind:
        case StructType():
            inner = [field.field_type for field in kind.fields]
        case ListType():
            inner = [kind.element_type]
            if kind.element_required and _may_be_empty(kind.element_type):
                raise ValueError("Elements of a list take no bytes.")
        case MapType():
            inner = [kind.key_type, kind.value_type]
            if all(map(_may_be_empty, inner)) and kind.value_required:
                raise ValueError("Entries of a map take no bytes.")
        case _:
            return
    for each in inner:
        _refuse_empty_elements(each)


def _may_be_empty(kind: IcebergType) -> bool:
    if isinstance(kind, StructType):
        return all(field.required and _may_be_empty(field.field_type) for field in kind.fields)
    return isinstance(kind, UnknownType) or (isinstance(kind, FixedType) and len(kind) == 0)


def _without_names(schema: Any, known: dict[str, Any], namespace: str = "") -> Any:
    """Replace each reference to a named type in an Avro schema by the type's definition.

    Avro's Java library writes a named type, such as ``decimal_9_2``, in full only once. PyIceberg
    does not resolve the references.

    Args:
        schema: A schema, or a part of it, as JSON.
        known: Receives the definitions by full name.
        namespace: Namespace of the names in ``schema``.
    """
    if isinstance(schema, str):  # some writers name a type "fixed"
        return schema if schema in _KEYWORDS else known.get(_full_name(schema, namespace), schema)
    if isinstance(schema, list):
        return [_without_names(each, known, namespace) for each in schema]
    found = dict(schema)
    name = _full_name(found.get("name", ""), found.get("namespace", namespace))
    inner = name.rpartition(".")[0] if found.get("type") in ("record", "error") else namespace
    for part in ("type", "items", "values"):
        if part in found:
            found[part] = _without_names(found[part], known, inner)
    if "fields" in found:
        found["fields"] = [_without_names(each, known, inner) for each in found["fields"]]
    if found.get("type") in ("fixed", "enum"):
        known[name] = found
    return found


def _full_name(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _metadata(decoder: BinaryDecoder) -> Iterator[tuple[bytes, bytes]]:
    while count := decoder.read_int():
        if count < 0:  # after a negative count comes the block's size in bytes, which is not needed
            decoder.skip_int()
        for _ in range(abs(count)):
            yield decoder.read_bytes(), decoder.read_bytes()
