"""Bytes that come back from elsewhere: a checksum, and Arrow batches checked before they are used.

A checksum only shows damage on the way. Whoever can compute one can also write lengths and offsets
that lie, and most functions of Arrow take those on trust and crash. So nothing here hands out a
batch that was not validated in full.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import pyarrow as pa

_TRAILER = struct.Struct("<4sI")  # format, CRC-32 of everything before

# Numbers of fields in Arrow's format: of a message, and of its record batch.
_HEADER, _CUSTOM_METADATA, _COMPRESSION = 2, 4, 3
_OFFSET, _SIGNED, _SHORT = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<H")

# Types with other ways to keep values (dictionaries, views, unions, runs) are never written here.
_READABLE: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_temporal,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_struct,
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_map,
)


class Unreadable(Exception):
    """Bytes that are not what was written, as a clause."""


def seal(body: bytes, name: bytes) -> bytes:
    """``body`` with the four bytes that name its format, and a checksum."""
    return body + _TRAILER.pack(name, zlib.crc32(body))


def unseal(data: bytes, name: bytes) -> bytes:
    """The inverse of :func:`seal`.

    Raises:
        Unreadable: for another format or checksum.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise Unreadable(f"a {type(data).__name__} is not bytes")
    data = bytes(data)
    body = data[: -_TRAILER.size]
    if len(data) < _TRAILER.size or data[-_TRAILER.size :] != _TRAILER.pack(name, zlib.crc32(body)):
        raise Unreadable("the checksum does not fit")
    return body


def write_batch(batch: pa.RecordBatch) -> bytes:
    """One batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def read_batch(data: bytes) -> pa.RecordBatch:
    """The inverse of :func:`write_batch`: validated, and no larger than its bytes allow.

    Raises:
        Unreadable: if the bytes are no such stream, or what they say does not hold.
    """
    try:
        with pa.ipc.open_stream(data) as reader:
            check_types(reader.schema)
            _refuse_compressed(data)
            batch = reader.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, TypeError, StopIteration) as error:
        raise Unreadable(f"no Arrow stream: {error}") from error
    # Only a type without buffers, or a compressed buffer, can claim more than was sent.
    for column in batch.columns:
        if _most_rows(column) > 8 * len(data) or column.nbytes > 2 * len(data):
            raise Unreadable(f"{_most_rows(column)} rows in {len(data)} bytes")
    return batch


def _refuse_compressed(data: bytes) -> None:
    """Refuse a stream whose bodies are compressed, before anything is decompressed.

    :func:`write_batch` compresses nothing, and a few bytes may decompress to gigabytes.

    Raises:
        Unreadable: if one is, or says what cannot be read.
    """
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(data)):
        flat = _FlatBuffer(message.metadata.to_pybytes())
        root = flat.table_at(0)
        # Versions 4 and before say it in the custom metadata of the message.
        if flat.field(root, _CUSTOM_METADATA) is not None:
            raise Unreadable("its messages have metadata of their own")
        if message.type == "schema":
            continue
        header = flat.field(root, _HEADER)
        if message.type != "record batch" or header is None:
            raise Unreadable(f"a message of type {message.type}")
        if flat.field(flat.table_at(header), _COMPRESSION) is not None:
            raise Unreadable("its bodies are compressed")


class _FlatBuffer:
    """The few things that are read of a message's description in FlatBuffers' format."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def table_at(self, place: int) -> int:
        """Where the table is whose offset is stored at ``place``."""
        return place + self._number(_OFFSET, place)

    def field(self, table: int, number: int) -> int | None:
        """Where a field of a table is stored; None if it is not there."""
        fields = table - self._number(_SIGNED, table)
        slot = 4 + 2 * number
        if slot + 2 > self._number(_SHORT, fields):
            return None
        offset = self._number(_SHORT, fields + slot)
        return table + offset if offset else None

    def _number(self, form: struct.Struct, place: int) -> int:
        if not 0 <= place <= len(self._data) - form.size:
            raise Unreadable("a message points beyond its end")
        (found,) = form.unpack_from(self._data, place)
        return int(found)


def read_schema(data: bytes) -> pa.Schema:
    """A schema on its own, as :meth:`pyarrow.Schema.serialize` writes it.

    Raises:
        Unreadable: if the bytes are none.
    """
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise Unreadable(f"no Arrow schema: {error}") from error
    check_types(schema)
    return schema


def check_types(schema: pa.Schema) -> None:
    """Refuse types of which this module writes none.

    Raises:
        Unreadable: naming the column.
    """
    try:
        for name, kind in (found for field in schema for found in _nested(field)):
            if not any(is_one(kind) for is_one in _READABLE):
                raise Unreadable(f"column {name!r} of type {kind}")
    except UnicodeDecodeError as error:
        raise Unreadable(f"a name that is no text: {error}") from error


def _nested(field: pa.Field) -> Iterator[tuple[str, pa.DataType]]:
    """A field and those it is made of, those of an extension type as they are stored."""
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    yield field.name, kind
    for i in range(kind.num_fields):
        yield from _nested(kind.field(i))


def _most_rows(column: pa.Array) -> int:
    """The length of the longest array in a valid column."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        inner = [column.storage]
    elif pa.types.is_struct(kind):
        inner = [column.field(i) for i in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        inner = [column.keys, column.items]
    else:
        inner = [column.values] if kind.num_fields else []
    return max([len(column), *map(_most_rows, inner)])
