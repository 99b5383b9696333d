"""Read and decompress bytes within limits, because a small file may decompress to gigabytes.

The limit depends on the compressed size. No more memory than the limit is allocated.
"""

from __future__ import annotations

import bz2
import zlib
from io import BytesIO
from typing import Final

from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.io import InputStream

_PIECE: Final = 1 << 20
# Maximum ratio of decompressed to compressed size. Metadata files of Iceberg and PyIceberg compress
# to about a twentieth. Small files may compress better, so they get at least ``_LEAST`` bytes.
_RATIO: Final = 100
_LEAST: Final = 4 << 20
# Maximum number of bytes read at once.
_MOST_RECEIVED: Final = (1 << 31) - 1


def limit_of(compressed: int) -> int:
    """Return the maximum decompressed size of a file with this many compressed bytes."""
    return _LEAST + _RATIO * compressed


def unpacked(codec: str, data: bytes, limit: int) -> bytes:
    """Decompress a block of an Avro file.

    Args:
        codec: Name of the codec in the file's header.
        data: The block as stored.
        limit: Maximum decompressed size in bytes.

    Raises:
        ValueError, EOFError: if the block is damaged or larger than ``limit``, or the codec is
            unknown.
        ImportError: if the codec needs a package that is not installed.
    """
    if codec not in KNOWN_CODECS:
        raise ValueError(f"The codec {codec} is unknown.")
    match codec:
        case "null":
            return data
        case "deflate":
            return _inflated(data, limit)
        case "bzip2":
            return _of_bzip2(data, limit)
        case "zstandard":
            return _of_zstandard(data, limit)
        case "snappy":
            if _snappy_size(data) > limit:
                raise _too_large(limit)
    known = KNOWN_CODECS[codec]
    assert known is not None
    found: bytes = known.decompress(data)
    return found


def unpacks_by_gzip(data: bytes) -> bool:
    """Return whether a gzip file decompresses to a size within its limit.

    True for a damaged file, because the reader of the file raises an error anyway.
    """
    left = limit_of(len(data))
    while data:
        decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
        while not decompressor.eof and data:
            try:
                left -= len(decompressor.decompress(data, _PIECE))
            except zlib.error:
                return True
            if left < 0:
                return False
            data = decompressor.unconsumed_tail
        data = decompressor.unused_data
    return True


def received(stream: InputStream, size: int | None = None) -> bytes:
    """Read bytes from the current position of a stream.

    Args:
        stream: An open file.
        size: Number of bytes; None reads to the end. Fewer are returned if the file ends.

    Raises:
        ValueError: if the size exceeds the limit for one read.
    """
    if size is None:
        return _all_of(stream)
    if not 0 <= size <= _MOST_RECEIVED:
        raise ValueError(f"{size} bytes exceed the limit of one read.")
    if size <= _PIECE:
        return stream.read(size)
    # Allocate memory for the bytes that exist, not for the claimed size.
    found = bytearray()
    while len(found) < size and (piece := stream.read(min(size - len(found), _PIECE * 16))):
        found += piece
    return bytes(found)


def _all_of(stream: InputStream) -> bytes:
    size = getattr(stream, "size", None)
    size = size() if callable(size) else size
    if isinstance(size, int) and size > _MOST_RECEIVED:
        raise ValueError(f"{size} bytes exceed the limit of one read.")
    return stream.read()


def _inflated(data: bytes, limit: int) -> bytes:
    decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        found = decompressor.decompress(data, limit + 1)
    except zlib.error as error:
        raise ValueError(f"A block cannot be decompressed: {error}") from error
    if len(found) > limit:
        raise _too_large(limit)
    if not decompressor.eof:
        raise EOFError("A block is truncated.")
    return found


def _of_bzip2(data: bytes, limit: int) -> bytes:
    found = b""
    while data:
        decompressor = bz2.BZ2Decompressor()
        try:
            found += decompressor.decompress(data, limit + 1 - len(found))
        except OSError as error:
            raise ValueError(f"A block cannot be decompressed: {error}") from error
        if len(found) > limit:
            raise _too_large(limit)
        if not decompressor.eof:
            raise EOFError("A block is truncated.")
        data = decompressor.unused_data
    return found


def _of_zstandard(data: bytes, limit: int) -> bytes:
    from zstandard import ZstdDecompressor, ZstdError

    found = bytearray()
    try:
        with ZstdDecompressor().stream_reader(BytesIO(data)) as reader:
            while piece := reader.read(min(_PIECE, limit + 1 - len(found))):
                found += piece
                if len(found) > limit:
                    raise _too_large(limit)
    except ZstdError as error:
        raise ValueError(f"A block cannot be decompressed: {error}") from error
    return bytes(found)


def _snappy_size(data: bytes) -> int:
    """Return the decompressed size of a Snappy block, which is stored at its start."""
    size = 0
    for shift, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return size
    raise ValueError("A block does not contain its size.")


def _too_large(limit: int) -> ValueError:
    return ValueError(f"A block decompresses to more than the limit of {limit} bytes.")
