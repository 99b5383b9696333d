"""Convert thrift's ``Table`` and ``Partition`` to entries of a catalog of Hive tables."""

from __future__ import annotations

from typing import Any

from splitlib.hive import entries
from splitlib.hive.entries import StorageEntry, TableEntry, metadata_of, readable_metadata
from splitlib.model import ReadFormat, TableMetadata


def table_metadata(table: Any) -> TableMetadata:
    """Return the metadata of a thrift ``Table``.

    Raises:
        UnsupportedTable: for a table that splitlib cannot read with the same rows as Spark.
        CorruptMetadata: if required metadata is missing or malformed.
    """
    with readable_metadata("the table"):
        return metadata_of(table_entry(table))


def read_format(table: TableEntry, partition: Any) -> ReadFormat:
    """Return how to read the files of a thrift ``Partition``.

    Use it inside of ``readable_metadata``.

    Raises:
        UnsupportedTable: for a SerDe or file format that Spark's own readers do not support.
    """
    return entries.read_format(table, _storage_entry(partition))


def table_entry(table: Any) -> TableEntry:
    """Convert a thrift ``Table``. Use this function inside of ``readable_metadata``."""
    skew = table.sd.skewedInfo
    return TableEntry(
        kind=table.tableType or "",
        columns=[(column.name, column.type) for column in table.sd.cols],
        keys=[(key.name, key.type) for key in table.partitionKeys or ()],
        storage=_storage_entry(table),
        is_list_bucketed=bool(table.sd.storedAsSubDirectories and skew and skew.skewedColNames),
    )


def _storage_entry(entry: Any) -> StorageEntry:
    serde = entry.sd.serdeInfo
    return StorageEntry(
        location=entry.sd.location,
        serde=serde.serializationLib,
        input_format=entry.sd.inputFormat,
        serde_properties=serde.parameters or {},
        parameters=entry.parameters or {},
    )
