"""A table of two columns, and changes to metadata that PyIceberg does not write."""

from __future__ import annotations

import json
from pathlib import Path

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
# PyIceberg reads version 3 and does not write it yet
VERSION_3 = {"format-version": 3, "next-row-id": 0}


def rewrite_metadata(table, change):
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    change(metadata)
    path.write_text(json.dumps(metadata))
