"""Fuzz target: manifests of an Iceberg table. The manifest list has their file and row counts."""

from __future__ import annotations

from pyiceberg.manifest import ManifestFile

from splitlib import SplitlibError
from splitlib_iceberg.manifests import read_entries
from tests.fuzzing import iceberg_files

TOKENS = (b"Obj\x01", b"avro.schema", b"avro.codec", b'"field-id": 102', b"format-version")
_NAME = "tried.avro"


def seeds() -> list[bytes]:
    files = iceberg_files.kept()
    return [files[f"{codec}-0.avro"] for codec in iceberg_files.CODECS]


def run(data: bytes) -> bool:
    listed = {**iceberg_files.listed("null", 0), "manifest_path": _NAME}
    try:
        files = iceberg_files.InMemory({_NAME: data})
        entries = read_entries(files, ManifestFile.from_args(**listed))
    except SplitlibError:
        return False
    assert len(entries.path) == iceberg_files.FILES
    assert sum(entries.records) == sum(iceberg_files.ROWS)
    return True
