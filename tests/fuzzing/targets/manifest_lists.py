"""Fuzz target: manifest lists of an Iceberg table. They decode to all files or raise an error."""

from __future__ import annotations

from pyiceberg.table.snapshots import Snapshot

from splitlib import SplitlibError
from splitlib_iceberg.manifests import may_have_files, read_entries, read_list
from splitlib_iceberg.snapshot import check_whole
from tests.fuzzing import iceberg_files
from tests.fuzzing.targets import manifests

TOKENS = (*manifests.TOKENS, b"null-0.avro", b"null-1.avro")
_NAME = "tried.avro"
_SNAPSHOT = Snapshot.model_validate(
    {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": 1,
        "manifest-list": _NAME,
        "summary": iceberg_files.SUMMARY,
        "schema-id": 0,
    }
)


def seeds() -> list[bytes]:
    files = iceberg_files.kept()
    return [files[f"{codec}-list.avro"] for codec in iceberg_files.CODECS]


def run(data: bytes) -> bool:
    files = iceberg_files.InMemory({**iceberg_files.kept(), _NAME: data})
    try:
        found = read_list(files, _NAME)
        check_whole(found, _SNAPSHOT, lambda: None)
        entries = [read_entries(files, each) for each in found if may_have_files(each)]
    except SplitlibError:
        return False
    paths = [path for each in entries for path in each.path]
    assert len(paths) == iceberg_files.MANIFESTS * iceberg_files.FILES
    assert len(set(paths)) == len(paths)
    return True
