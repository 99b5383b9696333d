"""Stored manifests and manifest lists of a small Iceberg table, with which the corpus was made.

``python -m tests.fuzzing.iceberg_files`` writes new ones. Inputs in the corpus that were made for
the old files are then useless. Targets read the stored files from memory, and add the input as
another file.
"""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, NestedField, StringType

DIRECTORY = Path(__file__).with_name("iceberg")
CODECS: tuple[Literal["null", "deflate"], ...] = ("null", "deflate")
MANIFESTS, FILES = 2, 3
ROWS = [10**i for i in range(FILES)]
_SCHEMA = Schema(
    NestedField(1, "d", IntegerType(), required=False),
    NestedField(2, "s", StringType(), required=False),
)
_BY_D = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "d"))
SUMMARY = {
    "operation": "append",
    "total-data-files": str(MANIFESTS * FILES),
    "total-records": str(MANIFESTS * sum(ROWS)),
    "total-delete-files": "0",
}


class InMemory(FileIO):
    """A FileIO that stores files in memory, by name and without directories."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__()
        self.files = files

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self.files)

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self.files)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError


class _Input(InputFile):
    def __init__(self, location: str, files: dict[str, bytes]) -> None:
        super().__init__(location)
        self._files = files

    def __len__(self) -> int:
        return len(self._files[self.location])

    def exists(self) -> bool:
        return self.location in self._files

    def open(self, seekable: bool = True) -> InputStream:
        if not self.exists():
            raise FileNotFoundError(self.location)
        return BytesIO(self._files[self.location])


class _Output(OutputFile):
    def __init__(self, location: str, files: dict[str, bytes]) -> None:
        super().__init__(location)
        self._files = files

    def __len__(self) -> int:
        return len(self._files[self.location])

    def exists(self) -> bool:
        return self.location in self._files

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._files)

    def create(self, overwrite: bool = False) -> OutputStream:
        written = _Written()
        written.name, written.files = self.location, self._files
        return written


class _Written(BytesIO):
    name: str
    files: dict[str, bytes]

    def close(self) -> None:
        if not self.closed:
            self.files[self.name] = self.getvalue()
        super().close()


def kept() -> dict[str, bytes]:
    """Return the bytes of all stored files, by name."""
    return {path.name: path.read_bytes() for path in DIRECTORY.glob("*.avro")}


def listed(codec: str, number: int) -> dict[str, Any]:
    """Return the fields of a stored manifest's entry in the manifest list."""
    found: dict[str, Any] = json.loads((DIRECTORY / "listed.json").read_text("utf-8"))
    return {**found[f"{codec}-{number}.avro"]}


def _entry(manifest: int, number: int) -> ManifestEntry:
    value = manifest * FILES + number
    counts = {1: ROWS[number], 2: ROWS[number]}
    file = DataFile.from_args(
        _table_format_version=2,
        content=DataFileContent.DATA,
        file_path=f"file:///t/{value}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(value),
        record_count=ROWS[number],
        file_size_in_bytes=1000,
        value_counts=counts,
        null_value_counts={1: 0, 2: 1},
        nan_value_counts={},
        lower_bounds={1: value.to_bytes(4, "little"), 2: b"a"},
        upper_bounds={1: value.to_bytes(4, "little"), 2: b"bbb"},
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = 0
    added = ManifestEntryStatus.ADDED
    return ManifestEntry.from_args(status=added, snapshot_id=1, sequence_number=1, data_file=file)


def write() -> None:
    """Write new versions of all files."""
    said = {}
    memory = InMemory({})
    for codec in CODECS:
        made: list[ManifestFile] = []
        for number in range(MANIFESTS):
            output = memory.new_output(f"{codec}-{number}.avro")
            with write_manifest(2, _BY_D, _SCHEMA, output, 1, codec) as writer:
                for place in range(FILES):
                    writer.add(_entry(number, place))
            made.append(writer.to_manifest_file())
        output = memory.new_output(f"{codec}-list.avro")
        with write_manifest_list(2, output, 1, None, 1, codec) as lists:
            lists.add_manifests(made)
        for number, manifest in enumerate(made):
            said[f"{codec}-{number}.avro"] = {
                name: getattr(manifest, name)
                for name in (
                    "manifest_path", "manifest_length", "partition_spec_id", "content",
                    "sequence_number", "min_sequence_number", "added_snapshot_id",
                    "added_files_count", "existing_files_count", "deleted_files_count",
                    "added_rows_count", "existing_rows_count", "deleted_rows_count",
                )
            }  # fmt: skip
    DIRECTORY.mkdir(exist_ok=True)
    for name, data in memory.files.items():
        (DIRECTORY / name).write_bytes(data)
    (DIRECTORY / "listed.json").write_text(json.dumps(said, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    write()
