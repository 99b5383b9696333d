"""Serialize Arrow batches with a checksum, and validate untrusted bytes when reading them.

A checksum detects only accidental damage: anybody can compute one for bytes with false lengths and
offsets. Most Arrow functions crash on such data. So this module returns a batch only after full
validation.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import pyarrow as pa

_TRAILER = struct.Struct("<4sI")  # format name, CRC-32 of all bytes before the trailer

# FlatBuffers field numbers: Message.header, Message.custom_metadata, RecordBatch.compression.
_HEADER, _CUSTOM_METADATA, _COMPRESSION = 2, 4, 3
_OFFSET, _SIGNED, _SHORT = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<H")

# Column types that splitlib writes: no dictionaries, views, unions or run-end encoding.
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
    """Raised for bytes that this module did not write. Callers include its text in their errors."""


def seal(body: bytes, name: bytes) -> bytes:
    """Append a four-byte format name and a checksum to ``body``."""
    return body + _TRAILER.pack(name, zlib.crc32(body))


def unseal(data: bytes, name: bytes) -> bytes:
    """Check the format name and checksum that :func:`seal` appended, and return the body.

    Raises:
        Unreadable: if the format or the checksum is wrong.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise Unreadable(f"a {type(data).__name__} is not bytes")
    data = bytes(data)
    body = data[: -_TRAILER.size]
    if len(data) < _TRAILER.size or data[-_TRAILER.size :] != _TRAILER.pack(name, zlib.crc32(body)):
        raise Unreadable("the checksum is wrong")
    return body


def write_batch(batch: pa.RecordBatch) -> bytes:
    """Serialize one batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def read_batch(data: bytes) -> pa.RecordBatch:
    """Deserialize and validate a batch that :func:`write_batch` serialized.

    Raises:
        Unreadable: if the bytes are not an Arrow IPC stream, or if the batch is invalid or declares
            more rows than the bytes can contain.
    """
    try:
        with pa.ipc.open_stream(data) as reader:
            check_types(reader.schema)
            _refuse_compressed(data)
            batch = reader.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, TypeError, StopIteration) as error:
        raise Unreadable(f"not an Arrow stream: {error}") from error
    # A column without buffers, such as one of type null, can declare any number of rows. Reject
    # more rows than these bytes can hold, because later steps would need memory for them.
    for column in batch.columns:
        if _most_rows(column) > 8 * len(data) or column.nbytes > 2 * len(data):
            raise Unreadable(f"{_most_rows(column)} rows claimed in {len(data)} bytes")
    return batch


def _refuse_compressed(data: bytes) -> None:
    """Reject a stream with compressed data, before anything is decompressed.

    :func:`write_batch` never compresses, and a few bytes could decompress to gigabytes.
    """
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(data)):
        flat = _FlatBuffer(message.metadata.to_pybytes())
        root = flat.table_at(0)
        # Up to version 4 of Arrow's format, custom metadata of a message can declare compression.
        if flat.field(root, _CUSTOM_METADATA) is not None:
            raise Unreadable("a message has custom metadata")
        if message.type == "schema":
            continue
        header = flat.field(root, _HEADER)
        if message.type != "record batch" or header is None:
            raise Unreadable(f"unexpected message of type {message.type}")
        if flat.field(flat.table_at(header), _COMPRESSION) is not None:
            raise Unreadable("a body is compressed")


class _FlatBuffer:
    """Minimal reader for the FlatBuffers header of an Arrow message."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def table_at(self, place: int) -> int:
        """Return the position of the table whose relative offset is stored at ``place``."""
        return place + self._number(_OFFSET, place)

    def field(self, table: int, number: int) -> int | None:
        """Return the position of a table's field, or None if the field is not set."""
        fields = table - self._number(_SIGNED, table)
        slot = 4 + 2 * number
        if slot + 2 > self._number(_SHORT, fields):
            return None
        offset = self._number(_SHORT, fields + slot)
        return table + offset if offset else None

    def _number(self, form: struct.Struct, place: int) -> int:
        if not 0 <= place <= len(self._data) - form.size:
            raise Unreadable("a message contains an offset beyond its end")
        (found,) = form.unpack_from(self._data, place)
        return int(found)


def read_schema(data: bytes) -> pa.Schema:
    """Read a schema that :meth:`pyarrow.Schema.serialize` wrote.

    Raises:
        Unreadable: if the bytes are not a schema.
    """
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise Unreadable(f"not an Arrow schema: {error}") from error
    check_types(schema)
    return schema


def check_types(schema: pa.Schema) -> None:
    """Reject a schema with types that this module never writes.

    Raises:
        Unreadable: if a column has such a type; the error names the column.
    """
    try:
        for name, kind in (found for field in schema for found in _nested(field)):
            if not any(is_one(kind) for is_one in _READABLE):
                raise Unreadable(f"column {name!r} has unsupported type {kind}")
    except UnicodeDecodeError as error:
        raise Unreadable(f"a name is not valid UTF-8: {error}") from error


def _nested(field: pa.Field) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the name and storage type of a field and of all fields nested in it."""
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    yield field.name, kind
    for i in range(kind.num_fields):
        yield from _nested(kind.field(i))


def _most_rows(column: pa.Array) -> int:
    """Return the length of the longest array in a valid column, including nested arrays."""
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
