"""Read deletion vectors: bitmaps of deleted row positions, stored in Puffin files."""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.io import FileIO
from pyroaring import BitMap64

from splitlib.errors import CorruptMetadata
from splitlib.model import DeleteFile
from splitlib_iceberg.failures import decoding, reading
from splitlib_iceberg.unpacking import received

_MAGIC: Final = b"\xd1\xd3\x39\x64"
# Bytes of the length before the magic bytes, and of the CRC-32 after the bitmap. Both are
# big-endian. The length counts the magic bytes and the bitmap.
_LENGTH = _CHECKSUM = 4
# Maximum number of rows in a vector, and the lower maximum if the manifest does not contain their
# number. Four bytes can stand for 65,536 rows, and each row takes eight bytes in memory.
_MOST: Final = 1 << 27
_MOST_UNKNOWN: Final = 1 << 23


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
        return pa.array(positions_of(body[len(_MAGIC) :], delete.records))


def positions_of(data: bytes, expected: int | None) -> npt.NDArray[np.int64]:
    """Return the numbers in a 64-bit roaring bitmap, ascending.

    pyroaring checks untrusted bytes. A bitmap is unpacked only after its size is known.

    Args:
        data: The bitmap in roaring's portable format.
        expected: Expected number of values; None if unknown.

    Raises:
        ValueError: if the bytes are not a valid bitmap, or do not have the expected number of
            values.
    """
    if not data:  # pyroaring raises IndexError
        raise ValueError("The bitmap is empty.")
    bitmap = BitMap64.deserialize(data)
    total = len(bitmap)
    if expected is not None and total != expected:
        raise ValueError(f"The bitmap has {total} numbers, not {expected}.")
    most = _MOST_UNKNOWN if expected is None else _MOST
    if total > most:
        raise ValueError(f"The bitmap has {total} numbers, more than the limit of {most}.")
    if total and bitmap.max() >= 1 << 63:
        raise ValueError("A number in the bitmap has more than 63 bits.")
    return np.frombuffer(bitmap.to_array(), np.uint64).astype(np.int64)
