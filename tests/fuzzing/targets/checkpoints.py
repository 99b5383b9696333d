"""Fuzz target: checkpoints. The checksums of the checkpoint and of its filters are valid."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pyarrow as pa

from splitlib import DynamicFilteringData, InvalidCheckpoint
from splitlib.arrow import ipc
from splitlib.coordination.checkpoint import Checkpoint, TrackedSplit, decode, encode
from splitlib.filtering.data import DynamicFilteringEvent
from splitlib.model import ReadFormat, TableMetadata
from tests.fuzzing.targets import filter_bytes
from tests.support.memory_connector import MemoryConnector, enumerator_of

FORMAT = b"SLC1"  # a checkpoint ends with these bytes
SCAN = {"table": "t"}
METADATA = TableMetadata(pa.schema([("k", pa.int32())]), ("k",), ReadFormat("parquet"))
TOKENS = (b'"kinds"', b'"producers"', b'"deletes"', b"null", b"true", b"[[", b"]]", b'"k"')
_LENGTH = struct.Struct("<Q")
_CHECKSUM_BYTES = 8


def sample() -> bytes:
    """Return a checkpoint of a table with three partitions."""
    enumerator = enumerator_of(MemoryConnector(3))
    maker = enumerator.split_maker()
    splits = [
        TrackedSplit(split, selected, of_file.row)
        for selected in enumerator.select_files()
        for of_file in maker.splits_of(selected)
        for split in of_file.splits
    ]
    data = DynamicFilteringData.from_values({"k": [1, 2, 3], "s": ["a", "b", None]})
    return encode(Checkpoint(SCAN, True, [DynamicFilteringEvent(data, "p")], splits, b"12345678"))


def sections_of(body: bytes) -> list[bytes]:
    """Return the sections of a checkpoint. Each section is stored after its length."""
    found = []
    while len(body) >= _LENGTH.size:
        end = _LENGTH.size + _LENGTH.unpack_from(body)[0]
        found.append(body[_LENGTH.size : end])
        body = body[end:]
    return found


def sealed(sections: Iterable[bytes]) -> bytes:
    """Return a checkpoint that consists of the sections and a valid checksum."""
    body = b"".join(_LENGTH.pack(len(section)) + section for section in sections)
    return ipc.seal(body, FORMAT)


def seeds() -> list[bytes]:
    return [ipc.unseal(sample(), FORMAT)]


def run(data: bytes) -> bool:
    for with_checksums in (ipc.seal(data, FORMAT), sealed(map(_resealed, sections_of(data)))):
        try:
            found = decode(with_checksums, SCAN, METADATA)
        except InvalidCheckpoint:
            continue
        repr(found.filters)
        return True
    return False


def _resealed(section: bytes) -> bytes:
    """Replace the checksum in a filter's section. Other sections have no checksum."""
    body, trailer = section[:-_CHECKSUM_BYTES], section[-_CHECKSUM_BYTES:]
    is_filter = trailer.startswith(filter_bytes.FORMAT)
    return ipc.seal(body, filter_bytes.FORMAT) if is_filter else section
