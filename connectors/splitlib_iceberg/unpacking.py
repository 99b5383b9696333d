"""Bytes received and decompressed within limits, as few bytes may stand for gigabytes.

A limit is known before anything is unpacked, and memory is taken for no more than that.
"""

from __future__ import annotations

import bz2
import zlib
from io import BytesIO
from typing import Final

from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.io import InputStream

_PIECE: Final = 1 << 20
# Metadata repeats itself, and compresses well: PyIceberg's and Iceberg's own files to a twentieth
# or so. The least is for small files, in which one record may hold most of the bytes.
_RATIO: Final = 100
_LEAST: Final = 4 << 20
# The largest piece of a file that is received at once.
_MOST_RECEIVED: Final = (1 << 31) - 1


def limit_of(compressed: int) -> int:
    """The bytes that a file of so many compressed bytes may unpack to."""
    return _LEAST + _RATIO * compressed


def unpacked(codec: str, data: bytes, limit: int) -> bytes:
    """A block of an Avro file, decompressed.

    Args:
        codec: Its name in the file's header.
        data: The block as it is stored.
        limit: How many bytes it may have.

    Raises:
        ValueError, EOFError: if the block is damaged, larger than ``limit``, or the codec is not
            known.
        ImportError: if the codec needs a package that is not installed.
    """
    if codec not in KNOWN_CODECS:
        raise ValueError(f"The codec {codec} is not known.")
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
    """Whether a file by gzip unpacks within the limit of its size; a damaged one does."""
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
    """What a stream holds, from where it stands.

    Args:
        stream: An open file.
        size: How many bytes; None for all that there are. Fewer come back if there are no more.

    Raises:
        ValueError: if that is more than is read into memory at once.
    """
    if size is None:
        return _all_of(stream)
    if not 0 <= size <= _MOST_RECEIVED:
        raise ValueError(f"{size} bytes are more than is read at once.")
    if size <= _PIECE:
        return stream.read(size)
    # memory for what there is, not for what is claimed
    found = bytearray()
    while len(found) < size and (piece := stream.read(min(size - len(found), _PIECE * 16))):
        found += piece
    return bytes(found)


def _all_of(stream: InputStream) -> bytes:
    size = getattr(stream, "size", None)
    size = size() if callable(size) else size
    if isinstance(size, int) and size > _MOST_RECEIVED:
        raise ValueError(f"{size} bytes are more than is read at once.")
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
        raise EOFError("A block ends too early.")
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
            raise EOFError("A block ends too early.")
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
    """The size that a block of Snappy begins with, in 7 bits a byte."""
    size = 0
    for shift, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return size
    raise ValueError("A block does not say its size.")


def _too_large(limit: int) -> ValueError:
    return ValueError(f"A block decompresses to more than the {limit} bytes that are accepted.")
