"""Deletion vectors: bitmaps of deleted row positions, each a piece of a Puffin file."""

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
# Around the bitmap: its length with the magic before, a CRC-32 behind; both big-endian.
_LENGTH = _CHECKSUM = 4


def read_vector(files: FileIO, delete: DeleteFile) -> pa.Int64Array:
    """The positions of the deleted rows, ascending; reads nothing but the vector.

    Raises:
        CorruptMetadata: if the bytes are no such vector, or of another number of rows.
        MissingFile: if the file has gone.
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
