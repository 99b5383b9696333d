from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from splitlib_conformance import (
    Harness,
    NewPartition,
    SourceCalls,
    TableAddress,
    WrittenFile,
    hive_directory,
    write_files,
)


class FilesHarness(Harness):
    """Tables that are directories in Hive layout."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._numbers = itertools.count()

    def create_table(self, data_schema: pa.Schema, partition_schema: pa.Schema) -> TableAddress:
        name = self._root / f"table{next(self._numbers)}"
        (name / "_temporary" / "0").mkdir(parents=True)  # written by a job that is still running
        (name / "_SUCCESS").touch()
        return TableAddress(
            str(name), {"schema": data_schema, "partition_schema": partition_schema}
        )

    def add(self, table: TableAddress, partitions: Sequence[NewPartition]) -> list[WrittenFile]:
        return [
            file
            for partition in partitions
            for file in write_files(_directory(table, partition.values), partition)
        ]

    def drop(self, table: TableAddress, values: Mapping[str, Any]) -> None:
        shutil.rmtree(_directory(table, values))

    def missing_table(self) -> TableAddress:
        return TableAddress(str(self._root / "missing"))

    def watch(self, calls: SourceCalls) -> AbstractContextManager[None]:
        return calls.patched(storage=[(LocalFileSystem, "ls")])

    def drop_table(self, table: TableAddress) -> None:
        shutil.rmtree(table.name)


def _directory(table: TableAddress, values: Mapping[str, Any]) -> str:
    return f"{table.name}/{hive_directory(values)}".rstrip("/")
