"""Find the name of a SQL catalog in its database.

A SQL catalog stores its name with each table, and finds only tables stored with its own name.
"""

from __future__ import annotations

from pyiceberg.catalog import Catalog

from splitlib.errors import ConfigError


def name_in_database(catalog: Catalog, table: str) -> str | None:
    """Return the name of the catalog in the database that has a table; None if there is none.

    Raises:
        ConfigError: if several catalogs have the table.
    """
    # Imported here because it is slow and rarely needed.
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from sqlalchemy import select
    from sqlalchemy.orm import Session

    if not isinstance(catalog, SqlCatalog):
        return None
    namespace, _, name = table.rpartition(".")
    names = select(IcebergTables.catalog_name).where(
        IcebergTables.table_namespace == namespace, IcebergTables.table_name == name
    )
    with Session(catalog.engine) as session:
        found = sorted(session.scalars(names))
    if len(found) > 1:
        raise ConfigError(
            f"The database has this table in several catalogs: {', '.join(found)}.",
            hint="choose one with catalog=.",
        )
    return found[0] if found else None


def only_name_in_database(catalog: Catalog) -> str | None:
    """Return the name of the catalog in a database; None if it is this one, or there is none.

    Raises:
        ConfigError: if the database has several other catalogs.
    """
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from sqlalchemy import select
    from sqlalchemy.orm import Session

    if not isinstance(catalog, SqlCatalog):
        return None
    with Session(catalog.engine) as session:
        found = sorted(session.scalars(select(IcebergTables.catalog_name).distinct()))
    if catalog.name in found:
        return None
    if len(found) > 1:
        raise ConfigError(
            f"The database has several catalogs: {', '.join(found)}.",
            hint="choose one with catalog=.",
        )
    return found[0] if found else None
