from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction, RemoveAction
from fsspec.implementations.local import LocalFileSystem

from splitlib.model import LOGICAL_TYPE
from splitlib_conformance import (
    Harness,
    NewPartition,
    SourceCalls,
    TableAddress,
    WrittenFile,
    hive_directory,
    hive_text,
    not_tried,
    write_files,
)
from tests.support import delta_log
from tests.support.delta_log import statistics


class DeltaHarness(Harness):
    """Tables that deltalake creates. It commits files that PyArrow writes.

    Args:
        root: Directory of the tables.
        by_id: Whether columns are found by field id. Then commits are written by hand, because
            deltalake does not write such tables.
    """

    def __init__(self, root: Path, *, by_id: bool = False) -> None:
        self._root = root
        self._by_id = by_id
        self._names = (f"t {i}%" for i in itertools.count())
        self._schemas: dict[str, tuple[pa.Schema, list[str]]] = {}

    def create_table(self, data_schema: pa.Schema, partition_schema: pa.Schema) -> TableAddress:
        fields = [*data_schema, *partition_schema]
        if any(LOGICAL_TYPE in (field.metadata or {}) for field in fields):
            not_tried("make a column of type CHAR: deltalake does not write them")
        root = self._root / next(self._names)
        schema = pa.schema(fields)
        self._schemas[str(root)] = schema, partition_schema.names
        if self._by_id:
            self._create_by_id(root, schema, partition_schema.names)
        else:
            DeltaTable.create(str(root), schema, partition_by=partition_schema.names)
        return TableAddress(str(root))

    def add(self, table: TableAddress, partitions: Sequence[NewPartition]) -> list[WrittenFile]:
        schema, keys = self._schemas[table.name]
        root = Path(table.name)
        written: list[WrittenFile] = []
        entries: list[dict[str, Any]] = []
        actions: list[AddAction | RemoveAction] = []
        for partition in partitions:
            if self._by_id:
                ids = {f.name: str(i) for i, f in enumerate(schema, start=1)}
                partition = replace(  # noqa: PLW2901 - the same rows, with field ids
                    partition, tables=[_with_ids(rows, ids) for rows in partition.tables]
                )
            directory = hive_directory(partition.values)
            new = write_files(f"{root}/{directory}" if directory else str(root), partition)
            values = {k: None if v is None else _text(v) for k, v in partition.values.items()}
            for file, rows in zip(new, partition.tables, strict=True):
                path, known = file.path.removeprefix(f"{root}/"), statistics(rows)
                entries.append(
                    delta_log.add(quote(path), partitionValues=values, size=file.size, stats=known)
                )
                # deltalake encodes the path
                actions.append(AddAction(path, file.size, values, 0, True, known))
            written += new
        if self._by_id:
            delta_log.commit(root, entries)
        elif actions:
            delta = DeltaTable(table.name)
            delta.create_write_transaction(actions, "append", Schema.from_arrow(schema), keys)
        return written

    def drop(self, table: TableAddress, values: Mapping[str, Any]) -> None:
        texts = {k: None if v is None else _text(v) for k, v in values.items()}
        gone = [
            delta_log.remove(path)
            for path, added in self._added(table).items()
            if added["partitionValues"] == texts
        ]
        delta_log.commit(Path(table.name), gone)

    def watch(self, calls: SourceCalls) -> AbstractContextManager[None]:
        return calls.patched(storage=[(LocalFileSystem, "ls"), (LocalFileSystem, "open")])

    def delete_rows(self, table: TableAddress, path: str, positions: Sequence[int]) -> None:
        root = Path(table.name)
        name = path.removeprefix(f"{root}/")
        [added] = [a for p, a in self._added(table).items() if unquote(p) == name]
        vector = delta_log.stored_vector(root, positions)
        delta_log.commit(
            root,
            [
                delta_log.protocol("deletionVectors", *(["columnMapping"] if self._by_id else [])),
                delta_log.remove(added["path"]),
                {"add": {**added, "deletionVector": vector}},
            ],
        )

    def missing_table(self) -> TableAddress:
        return TableAddress(str(self._root / "missing"))

    def _create_by_id(self, root: Path, schema: pa.Schema, keys: Sequence[str]) -> None:
        types = {f.name: f.type for f in Schema.from_arrow(schema).fields}
        fields = [
            delta_log.field(
                f.name,
                json.loads(types[f.name].to_json()),
                **{
                    "delta.columnMapping.id": i,
                    "delta.columnMapping.physicalName": f.name,
                },
            )
            for i, f in enumerate(schema, start=1)
        ]
        entries = [
            delta_log.protocol("columnMapping", "timestampNtz"),
            delta_log.metadata(fields, keys, **{"delta.columnMapping.mode": "id"}),
        ]
        delta_log.commit(root, entries)

    @staticmethod
    def _added(table: TableAddress) -> dict[str, Any]:
        """Return the entries of the table's files, by path."""
        found = {}
        for file in sorted(Path(table.name, "_delta_log").glob("*.json")):
            for line in file.read_text().splitlines():
                entry = json.loads(line)
                if "add" in entry:
                    found[entry["add"]["path"]] = entry["add"]
        return found


def _text(value: Any) -> str:
    """Return a partition value as Delta writes it."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return hive_text(value)


def _with_ids(rows: pa.Table, ids: Mapping[str, str]) -> pa.Table:
    fields = [f.with_metadata({"PARQUET:field_id": ids[f.name]}) for f in rows.schema]
    return rows.cast(pa.schema(fields))
