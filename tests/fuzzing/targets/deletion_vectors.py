"""Fuzz target: deletion vectors, with a valid checksum and as raw bytes."""

from __future__ import annotations

import zlib

from pyroaring import BitMap64

from splitlib import CorruptMetadata
from splitlib.model import DeleteFile
from splitlib_iceberg.unpacking import read_vector
from tests.fuzzing.iceberg_files import InMemory

TOKENS = (b"\x3a\x30\0\0", b"\x3b\x30\0\0", b"\xff\xff", b"\0\0\0\0")
_NAME = "tried.puffin"
_MAGIC = b"\xd1\xd3\x39\x64"
_COUNT_BYTES = 4
# Limit for the number of positions in the manifest. More positions need much memory without a bug.
_MOST = 1 << 20


def seeds() -> list[bytes]:
    """Return inputs. Each consists of the number of positions in the manifest and a bitmap."""
    positions = [
        [],
        [1, 5, 2**33],
        [*range(5), *range(100, 4000, 7), *range(2**17, 2**17 + 600), 2**40 + 1],
        [*range(0, 2**16, 3)],
    ]
    return [_bitmap(numbers, runs) for numbers in positions for runs in (False, True)]


def _bitmap(numbers: list[int], runs: bool) -> bytes:
    bitmap = BitMap64(numbers)
    if runs:
        bitmap.run_optimize()
    written: bytes = bitmap.serialize()
    return len(numbers).to_bytes(_COUNT_BYTES, "big") + written


def run(data: bytes) -> bool:
    records = int.from_bytes(data[:_COUNT_BYTES], "big") % _MOST
    bitmap = data[_COUNT_BYTES:]
    body = _MAGIC + bitmap
    framed = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    return _read(bitmap, records) | _read(framed, records)


def _read(data: bytes, records: int) -> bool:
    delete = DeleteFile("vector", _NAME, 1, "puffin", 0, len(data), records=records)
    try:
        found = read_vector(InMemory({_NAME: data}), delete).to_pylist()
    except CorruptMetadata:
        return False
    assert len(found) == records
    assert found == sorted(set(found))
    assert not found or found[0] >= 0
    return True
