"""Malformed checkpoints with a valid checksum: an error of splitlib's, never a crash."""

from __future__ import annotations

import json
import random
import struct
import sys
from collections import Counter

import pyarrow as pa
import pytest

from splitlib import DynamicFilteringData, InvalidCheckpoint
from splitlib.arrow import ipc as wire
from splitlib.coordination.checkpoint import Checkpoint, TrackedSplit, decode, encode
from splitlib.filtering.data import DynamicFilteringEvent
from splitlib.model import ReadFormat, TableMetadata
from tests.support.memory_connector import MemoryConnector, enumerator_of
from tests.support.mutations import limit_memory, mutated, run_apart

FORMAT = b"SLC1"  # how the bytes of a checkpoint end
MUTATIONS = 3000
SCAN = {"table": "t"}
METADATA = TableMetadata(pa.schema([("k", pa.int32())]), ("k",), ReadFormat("parquet"))


def sample() -> bytes:
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


def resealed(body: bytes, source: random.Random) -> bytes:
    """A checkpoint mutated anywhere, in a filter or in a section, with a valid checksum again."""
    sections = sections_of(body)
    place = source.randrange(len(sections) + 1)
    if place == len(sections):
        return wire.seal(mutated(body, source), FORMAT)
    if place == len(sections) - 1:
        inner = wire.unseal(sections[place], b"SLF1")
        sections[place] = wire.seal(mutated(inner, source), b"SLF1")
    elif len(sections[place]) >= 8:
        sections[place] = mutated(sections[place], source)
    return sealed(sections)


def sections_of(body: bytes) -> list[bytes]:
    """The parts of a checkpoint: in front of each is its length."""
    found = []
    while body:
        end = 8 + struct.unpack_from("<Q", body)[0]
        found.append(body[8:end])
        body = body[end:]
    return found


def sealed(sections: list[bytes]) -> bytes:
    body = b"".join(struct.pack("<Q", len(section)) + section for section in sections)
    return wire.seal(body, FORMAT)


def attack(seed: int, count: int) -> Counter[str]:
    source = random.Random(seed)
    body = wire.unseal(sample(), FORMAT)
    found: Counter[str] = Counter()
    for _ in range(count):
        try:
            repr(decode(resealed(body, source), SCAN, METADATA).filters)
            found["used"] += 1
        except InvalidCheckpoint:
            found["refused"] += 1
    return found


def test_no_mutation_crashes():
    ran = run_apart(__name__, "23", str(MUTATIONS))
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "'used'" in ran.stdout
    assert "'refused'" in ran.stdout


def with_header(**changes):
    header, *rest = sections_of(wire.unseal(sample(), FORMAT))
    return sealed([json.dumps({**json.loads(header), **changes}).encode(), *rest])


@pytest.mark.parametrize(
    "changes",
    [
        {"read_formats": []},
        {"deletes": [[{"kind": "position"}]]},
        {"kinds": []},
        {"kinds": [None] * 3},
        {"kinds": [[["k"]]]},
        {"kinds": [[["other", "k", True]]]},
        {"producers": []},
        {"producers": [["p"]]},
        {"scan": 5},
    ],
    ids=str,
)
def test_a_header_that_does_not_fit_is_refused(changes):
    assert len(decode(with_header(), SCAN, METADATA).splits) == 6
    with pytest.raises(InvalidCheckpoint):
        decode(with_header(**changes), SCAN, METADATA)


def test_a_deep_header_is_refused():
    _, *rest = sections_of(wire.unseal(sample(), FORMAT))
    with pytest.raises(InvalidCheckpoint, match="no checkpoint"):
        decode(sealed([b"[" * 100_000, *rest]), SCAN, METADATA)


@pytest.mark.parametrize("keys", [pa.schema([("other", pa.int32())]), pa.schema([])])
def test_other_keys_are_refused(keys):
    with pytest.raises(InvalidCheckpoint, match="no checkpoint"):
        decode(sample(), SCAN, TableMetadata(keys, tuple(keys.names), METADATA.read_format))


if __name__ == "__main__":
    limit_memory()
    print(dict(attack(int(sys.argv[1]), int(sys.argv[2]))))
