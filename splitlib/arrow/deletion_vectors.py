"""Decode deletion vectors: bitmaps of deleted row positions, as Iceberg and Delta store them.

In a file, both formats store a four-byte length, four magic bytes, the bitmap, and a CRC-32 of the
magic bytes and the bitmap. The length counts the magic bytes and the bitmap. Length and checksum
are big-endian.
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

_MAGIC: Final = b"\xd1\xd3\x39\x64"
_LENGTH = _CHECKSUM = 4
# Maximum number of deleted rows in a vector. It limits memory: four stored bytes can stand for
# 65,536 rows, and each row takes eight bytes of memory.
_MOST: Final = 1 << 27
# The same limit if the catalog does not record the number of deleted rows.
_MOST_UNKNOWN: Final = 1 << 23


def bitmap_in_frame(data: bytes) -> bytes | None:
    """Return the bitmap of a vector that was read from a file, or None if the vector is invalid."""
    body = data[_LENGTH:-_CHECKSUM]
    if int.from_bytes(data[:_LENGTH], "big") != len(body) or zlib.crc32(body) != int.from_bytes(
        data[-_CHECKSUM:], "big"
    ):
        return None
    return bitmap_in(body)


def bitmap_in(body: bytes) -> bytes | None:
    """Return the bitmap that follows the magic bytes, or None if the magic bytes are missing."""
    return body[len(_MAGIC) :] if body.startswith(_MAGIC) else None


def positions_of(data: bytes, expected: int | None) -> npt.NDArray[np.int64]:
    """Decode a 64-bit roaring bitmap to an array of its values, in ascending order.

    pyroaring validates untrusted bytes. The number of values is checked before the bitmap is
    unpacked.

    Args:
        data: The bitmap in roaring's portable format.
        expected: Expected number of values, or None if it is not stored.

    Raises:
        ValueError: if the bytes are not a valid bitmap, or do not have the expected number of
            values.
    """
    if not data:  # For empty data, pyroaring raises an IndexError.
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
