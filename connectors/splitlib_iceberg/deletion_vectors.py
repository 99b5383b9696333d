"""Read deletion vectors: bitmaps of deleted row positions, stored in Puffin files."""

from __future__ import annotations

import zlib

import pyarrow as pa
from pyiceberg.io import FileIO

from splitlib.errors import CorruptMetadata
from splitlib.model import DeleteFile
from splitlib_iceberg.failures import decoding, reading
from splitlib_iceberg.roaring import numbers_of
from splitlib_iceberg.unpacking import received

_MAGIC = b"\xd1\xd3\x39\x64"
# Bytes of the length before the magic bytes, and of the CRC-32 after the bitmap. Both are
# big-endian. The length counts the magic bytes and the bitmap.
_LENGTH = _CHECKSUM = 4


def read_vector(files: FileIO, delete: DeleteFile) -> pa.Int64Array:
    """Return the positions of the deleted rows, ascending. Reads only the bytes of the vector.

    Raises:
        CorruptMetadata: if the bytes are not a valid vector, or the vector does not have the number
            of rows in the manifest.
        MissingFile: if the file does not exist.
    """
    what = "deletion vector"
    with reading(what, delete.path), files.new_input(delete.path).open() as stream:
        stream.seek(delete.offset)
        data = received(stream, delete.length)
    body = data[_LENGTH:-_CHECKSUM]
    if (
        len(data) != delete.length
        or int.from_bytes(data[:_LENGTH], "big") != len(body)
        or not body.startswith(_MAGIC)
        or zlib.crc32(body) != int.from_bytes(data[-_CHECKSUM:], "big")
    ):
        raise CorruptMetadata(
            f"There is no deletion vector at byte {delete.offset} of {delete.path}."
        )
    with decoding(what, delete.path):
        return pa.array(numbers_of(body[len(_MAGIC) :], delete.records))
