"""Files that match all filters, and names and values of their partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from splitlib.arrow.values import python_value, python_values
from splitlib.hive.partition_values import parse, partition_name, table_fields
from splitlib.model import FileBatch, PartitionBatch

HOSTS = "hosts"
"""An optional column of :attr:`splitlib.model.FileBatch.files`: the hosts of each file."""


@dataclass(frozen=True, slots=True)
class SelectedFiles:
    """Files that match every filter, and the partitions that they belong to."""

    partitions: PartitionBatch
    """Partitions, some of which may have no files here."""
    files: FileBatch
    """Files, none of them empty. Column ``partition`` is a row of :attr:`partitions`."""


def typed_values(batch: PartitionBatch, keys: pa.Schema) -> dict[str, list[Any]]:
    """Return the values of each partition as a reader sees them, by key."""
    fields = table_fields(batch.values.schema, batch.fields, keys)
    return {
        field.name: python_values(parse(column, field).values)
        for field, column in zip(fields, batch.values.columns, strict=True)
    }


def name_of(partitions: PartitionBatch, row: int) -> str:
    """Return a partition's name for messages and identifiers, for values of any type."""
    values = [python_value(column[row]) for column in partitions.values.columns]
    texts = [None if value is None else str(value) for value in values]
    return partition_name(partitions.values.schema.names, texts)
