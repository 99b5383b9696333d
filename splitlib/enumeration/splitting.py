"""From files to splits. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from splitlib.model import ReadFormat
from splitlib.redaction import without_login

_SPLITTABLE = frozenset({"parquet", "orc", "avro"})
_LINES = frozenset({"json", "csv", "text", "hive-text", "hive-csv"})
# Suffixes by which Hadoop picks a codec: such a file of lines is read from its start.
_COMPRESSED = (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate", ".xz", ".zip", ".lzo")
# Hadoop's FileInputFormat: a rest below a tenth of a split goes with the last one.
_SLOP = 1.1


def can_split(read_format: ReadFormat, path: str) -> bool:
    """Whether a reader can start in the middle of the file."""
    if read_format.name in _SPLITTABLE:
        return True
    if read_format.name not in _LINES or path.lower().endswith(_COMPRESSED):
        return False
    return dict(read_format.options).get("multiLine", "false").lower() != "true"


def byte_ranges(size: int, target: int) -> Iterator[tuple[int, int]]:
    """``(start, length)`` of the splits of ``size`` bytes: adjacent, none empty, all covered."""
    start = 0
    while size - start > target * _SLOP:
        yield start, target
        start += target
    if size > start:
        yield start, size - start


def split_id(path: str, partition: str, start: int, length: int) -> str:
    """An identifier that depends on nothing but the split itself, whoever reads it."""
    key = f"{without_login(path)}\0{partition}\0{start}\0{length}".encode()
    return hashlib.blake2b(key, digest_size=16).hexdigest()
