"""Reads damaged files of Iceberg tables, in a process of its own with little memory.

Run as ``python -m tests.unit.connectors.iceberg.damage KIND PATH EXPECTED SEED COUNT``: changes the
file COUNT times, each time by a few bytes, and prints whatever is neither the right answer nor an
error of splitlib's. What is being tried is printed first, so that a process that dies says of what.
"""

from __future__ import annotations

import json
import random
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Snapshot

from splitlib.errors import SplitlibError
from splitlib.model import DeleteFile
from splitlib_iceberg.deletion_vectors import read_vector
from splitlib_iceberg.list_completeness import check_whole
from splitlib_iceberg.manifests import may_have_files, read_entries, read_list
from splitlib_iceberg.roaring import numbers_of

_MEMORY = 3 * 2**30
_FILES = PyArrowFileIO()


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The bytes with some changed, cut, inserted, removed or repeated; never the same bytes."""
    changed = bytearray(data)
    while bytes(changed) == data:
        at = rng.randrange(len(changed))
        match rng.randrange(6):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                changed[at] ^= 1 << rng.randrange(8)
            case 2:
                del changed[at:]
            case 3:
                changed[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                del changed[at : at + rng.randrange(1, 9)]
            case 5:
                size = rng.randrange(1, 9)
                changed[at : at + size] = rng.choice([b"\xff", b"\x00", b"\x80"]) * size
    return bytes(changed)


def read_manifest(path: str, expected: dict[str, Any]) -> Any:
    """How many files and rows a manifest has."""
    manifest = ManifestFile.from_args(**{**expected["manifest"], "manifest_path": path})
    entries = read_entries(_FILES, manifest)
    return [len(entries.path), sum(entries.records)]


def read_manifests(path: str, expected: dict[str, Any]) -> Any:
    """How many files and rows all manifests of a list have, as a plan opens them."""
    manifests = read_list(_FILES, path)
    check_whole(
        manifests, Snapshot(**{**expected["snapshot"], "manifest-list": path}), lambda: None
    )
    entries = [read_entries(_FILES, each) for each in manifests if may_have_files(each)]
    return [sum(len(each.path) for each in entries), sum(sum(each.records) for each in entries)]


def read_positions(path: str, expected: dict[str, Any]) -> Any:
    """How many positions a deletion vector has, and their sum."""
    found = read_vector(_FILES, DeleteFile(**{**expected["delete"], "path": path})).to_pylist()
    return [len(found), sum(found)]


def read_bitmap(path: str, expected: dict[str, Any]) -> Any:
    """How many positions a bitmap has."""
    try:
        return len(numbers_of(Path(path).read_bytes(), expected["records"]))
    except ValueError as error:
        raise SplitlibError(str(error)) from error


READERS: dict[str, Callable[[str, dict[str, Any]], Any]] = {
    "manifest": read_manifest,
    "list": read_manifests,
    "vector": read_positions,
    "bitmap": read_bitmap,
}


def main(kind: str, path: str, expected: str, seed: str, count: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    read, wanted = READERS[kind], json.loads(expected)
    data, target = Path(path).read_bytes(), Path(f"{path}.damaged")
    assert read(path, wanted) == wanted["answer"], read(path, wanted)
    for number in range(int(seed), int(seed) + int(count)):
        print("trying", number, flush=True)
        target.write_bytes(mutated(data, random.Random(number)))
        try:
            found = read(str(target), wanted)
        except SplitlibError:
            continue
        except BaseException as error:
            found = repr(error)
        if found != wanted["answer"]:
            print("WRONG", number, found, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
