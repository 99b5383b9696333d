"""Load a table from Glue, and reject tables whose rows cannot be read exactly from their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from splitlib.errors import CorruptMetadata, SourceUnavailable, SplitlibError, UnsupportedTable
from splitlib.hive.entries import (
    StorageEntry,
    TableEntry,
    hadoop_location,
    metadata_of,
    readable_metadata,
)
from splitlib.model import TableMetadata
from splitlib_glue.client import CATALOG, GlueClient

# Permission types that a request for Lake Formation's filters must name: restrictions of columns,
# and of rows and cells.
_RESTRICTIONS: Final = ("COLUMN_PERMISSION", "CELL_FILTER_PERMISSION")
# Formats in which Spark finds columns by name.
_BY_NAME: Final = ("parquet", "json")
_NO_CONDITION: Final = ("", "TRUE")
# Fields that only views have. They are checked because the field TableType of a view may be empty.
_OF_VIEWS: Final = ("ViewDefinition", "IsMaterializedView", "IsMultiDialectView")


@dataclass(frozen=True)
class GlueTable:
    """A Glue table."""

    address: Mapping[str, str | None]
    """Request arguments that locate the table: its catalog id and database."""
    name: str
    """Name in the catalog."""
    identity: tuple[Any, ...]
    """Properties that distinguish the table from a later table with the same name."""
    entry: TableEntry
    metadata: TableMetadata


def load(client: GlueClient, database: str, name: str, *, unfiltered: bool) -> GlueTable:
    """Load a table. For a resource link, load the table that it refers to.

    Args:
        client: Client for Glue.
        database: The table's database.
        name: The table's name.
        unfiltered: Whether the user confirms that Lake Formation filters neither rows nor columns.

    Raises:
        TableNotFound: if there is no such table.
        UnsupportedTable: for a table whose rows splitlib cannot read exactly.
        CorruptMetadata: if required metadata is missing or malformed.
    """
    address: dict[str, str | None] = {"DatabaseName": database}
    with readable_metadata("the table", catalog=CATALOG):
        found = _described(client, address, name)
        if target := found.get("TargetTable"):
            _refuse_other_region(target, client.region)
            address = {"CatalogId": target.get("CatalogId"), "DatabaseName": target["DatabaseName"]}
            found = _described(client, address, target["Name"])
        name = found["Name"]
        # A database may be a resource link, too. Then the response names the actual database.
        for argument in ("CatalogId", "DatabaseName"):
            address[argument] = found.get(argument) or address.get(argument)
        _refuse_unreadable(found)
        entry = _table_entry(found)
        metadata = metadata_of(entry)
        if not metadata.partition_keys and not metadata.location:
            raise CorruptMetadata("The table has no location.")
        if found.get("IsRegisteredWithLakeFormation") and not unfiltered:
            _refuse_filtered(client, address, name, metadata)
        return GlueTable(address, name, identity_of(found), entry, metadata)


def _described(client: GlueClient, address: Mapping[str, str | None], name: str) -> Any:
    found = client.call("GetTable", **address, Name=name)["Table"]
    if found["Name"].lower() != name.lower():
        raise SourceUnavailable(f"Glue returns the table {found['Name']!r} instead of {name!r}.")
    return found


def identity(client: GlueClient, table: GlueTable) -> tuple[Any, ...]:
    """Return the identity of the table that currently has the same name as ``table``.

    Raises:
        TableNotFound: if there is no such table.
    """
    with readable_metadata("the table", catalog=CATALOG):
        return identity_of(_described(client, table.address, table.name))


def identity_of(found: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the properties that distinguish a table from a later table with the same name."""
    keys = [(key["Name"], key.get("Type")) for key in found.get("PartitionKeys") or ()]
    stored = found.get("StorageDescriptor") or {}
    return found.get("CreateTime"), found.get("TableType"), stored.get("Location"), keys


def storage_entry(found: Mapping[str, Any]) -> StorageEntry:
    """Convert the storage descriptor of a table or partition.

    Call this function in a ``readable_metadata`` block, which converts its exceptions.
    """
    stored = found.get("StorageDescriptor") or {}
    serde = stored.get("SerdeInfo") or {}
    return StorageEntry(
        location=hadoop_location(stored.get("Location")),
        serde=serde.get("SerializationLibrary"),
        input_format=stored.get("InputFormat"),
        serde_properties=serde.get("Parameters") or {},
        parameters=found.get("Parameters") or {},
    )


def _table_entry(found: Mapping[str, Any]) -> TableEntry:
    stored = found.get("StorageDescriptor") or {}
    skew = stored.get("SkewedInfo") or {}
    return TableEntry(
        kind=(found.get("TableType") or "").upper(),
        declared=[(each["Name"], each["Type"]) for each in stored.get("Columns") or ()],
        keys=[(key["Name"], key["Type"]) for key in found.get("PartitionKeys") or ()],
        storage=storage_entry(found),
        is_list_bucketed=bool(
            stored.get("StoredAsSubDirectories") and skew.get("SkewedColumnNames")
        ),
    )


def _refuse_unreadable(found: Mapping[str, Any]) -> None:
    if found.get("TargetTable"):
        raise UnsupportedTable(
            "The table is a resource link to another resource link.",
            hint="open the table that the second link names.",
        )
    if any(found.get(field) for field in _OF_VIEWS):
        raise UnsupportedTable(
            "The table is a view.", hint="query it with Athena, or read the tables that it uses."
        )
    if federated := found.get("FederatedTable"):
        raise UnsupportedTable(
            "The table belongs to another catalog, which Glue reaches through the connection "
            f"{federated.get('ConnectionName')!r}.",
            hint="open it with the connector of that catalog.",
        )
    if (found.get("TableType") or "").upper() == "GOVERNED":
        raise UnsupportedTable(
            "The table is a governed table of Lake Formation.", hint="query it with Athena."
        )
    if found.get("RLSProperties"):
        raise UnsupportedTable(
            "A policy of the catalog filters the rows of the table.",
            hint="read it with an engine that applies this policy.",
        )


def _refuse_other_region(target: Mapping[str, Any], region: str) -> None:
    if target.get("Region") not in (None, region):
        raise UnsupportedTable(
            f"The table is a resource link to {target['DatabaseName']}.{target['Name']} in the "
            f"region {target['Region']}.",
            hint="open that table, with region= and catalog_id= of its catalog.",
        )


def _refuse_filtered(
    client: GlueClient, address: Mapping[str, str | None], name: str, metadata: TableMetadata
) -> None:
    """Reject a table if Lake Formation filters its rows or cells for these credentials.

    ``GetTable`` does not return columns that the credentials may not read. In formats where columns
    are found by position, the remaining columns would get wrong values.

    ``GetTable`` does not report filters. ``GetUnfilteredTableMetadata`` does, but only for
    applications that a Lake Formation administrator has allowed.

    Raises:
        UnsupportedTable: for such a table, or if Glue does not report whether there are filters.
    """
    hint = (
        "read it with an engine that applies these filters, such as Athena. If no filter applies "
        "to your credentials, pass unfiltered=True."
    )
    types = list(_RESTRICTIONS)
    try:
        known = client.call(
            "GetUnfilteredTableMetadata", **address, Name=name, SupportedPermissionTypes=types
        )
    except SourceUnavailable:
        raise
    except SplitlibError as error:
        raise UnsupportedTable(
            "Lake Formation manages the table, and does not tell these credentials whether it "
            f"filters rows: {error.message}",
            hint=hint,
        ) from error
    condition = str(known.get("RowFilter") or "").strip().upper()
    if known.get("CellFilters") or condition not in _NO_CONDITION or "Table" not in known:
        raise UnsupportedTable("Lake Formation filters rows or cells of the table.", hint=hint)
    stored = known["Table"].get("StorageDescriptor") or {}
    hidden = {column["Name"].lower() for column in stored.get("Columns") or ()}.difference(
        column.lower() for column in metadata.schema.names
    )
    if hidden and metadata.read_format.name not in _BY_NAME:
        raise UnsupportedTable(
            "Lake Formation hides columns of the table, and its files do not contain column names.",
            hint="read it with an engine that applies these filters, such as Athena.",
        )
