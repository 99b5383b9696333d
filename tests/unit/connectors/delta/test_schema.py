"""Schemas and protocols in the log: which of them are read, and which are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import splitlib
from tests.support.delta_log import add, commit, field, metadata, protocol
from tests.unit.connectors.delta.tables import opened


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"format": {"provider": "orc"}}, splitlib.UnsupportedTable, "are orc, not parquet"),
        ({"schemaString": ""}, splitlib.UnsupportedTable, "has no schema"),
        ({"partitionColumns": ["x"]}, splitlib.CorruptMetadata, "no partition column x"),
        (
            {"configuration": {"delta.columnMapping.mode": "x"}},
            splitlib.UnsupportedTable,
            "mode 'x' is not supported",
        ),
    ],
    ids=str,
)
def test_metadata_that_cannot_be_read_is_refused(
    root: Path, changes: dict[str, Any], error: type[Exception], says: str
) -> None:
    entry = metadata([field("c", "long")])
    entry["metaData"].update(changes)
    commit(root, [protocol("columnMapping"), entry])
    with pytest.raises(error, match=says):
        opened(root)


@pytest.mark.parametrize(
    ("before", "after", "is_read"),
    [
        ("byte", "long", True),
        ("long", "integer", False),
        ("integer", "double", True),
        ("long", "double", False),
        ("float", "double", True),
        ("date", "timestamp_ntz", True),
        ("date", "timestamp", False),
        ("long", "decimal(20,0)", True),
        ("decimal(5,2)", "decimal(9,2)", True),
        ("string", "decimal(9,2)", False),
    ],
)
def test_changes_of_types(root: Path, before: str, after: str, is_read: bool) -> None:
    changes = [{"fromType": before, "toType": after}]
    column = field("c", after, **{"delta.typeChanges": changes})
    commit(root, [protocol("typeWidening", "timestampNtz"), metadata([column])])
    if is_read:
        opened(root).close()
        return
    with pytest.raises(splitlib.UnsupportedTable, match=f"changed from {before} to"):
        opened(root)


@pytest.mark.parametrize(("mode", "columns"), [("name", ((1, "x"),)), ("id", "id")])
def test_columns_are_mapped_by_readers_of_version_2(root: Path, mode: str, columns: Any) -> None:
    """Before table features, version 2 of the protocol meant that readers map columns."""
    names = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "x"}
    entry = metadata([field("c", "long", **names)], **{"delta.columnMapping.mode": mode})
    commit(root, [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, entry, add("f")])
    with opened(root) as table:
        assert table.metadata.read_format.columns == columns
