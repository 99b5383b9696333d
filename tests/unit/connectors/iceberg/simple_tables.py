"""Helpers for tables with two columns: schema, changed metadata, and deletes of selected files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    IntegerType,
    LongType,
    NestedField,
)

import splitlib

Keys = splitlib.DynamicFilteringData
SIMPLE = Schema(
    NestedField(1, "d", IntegerType(), required=False),
    NestedField(2, "c", LongType(), required=False),
)
BY_D = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "d"))
# Fields that turn metadata into format version 3. PyIceberg can read this version but not write it.
VERSION_3 = {"format-version": 3, "next-row-id": 0}


def rewrite_metadata(table, change):
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    change(metadata)
    path.write_text(json.dumps(metadata))


def deletes_by_path(opened, *filters):
    """Return the deletes of each selected file by path, and the metrics."""
    enumerator = splitlib.DynamicFileEnumerator(opened)
    for data in filters:
        enumerator.set_dynamic_filtering_data(data)
    found: dict[str, Any] = {}
    for selected in enumerator.select_files():
        paths = selected.files.files["path"].to_pylist()
        found.update(zip(paths, selected.files.deletes_of_each(), strict=True))
    return found, enumerator.metrics
