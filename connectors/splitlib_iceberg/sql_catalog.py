"""The name that a SQL catalog has in its database.

It stores its name with each of its tables, and finds none that is stored with another.
"""

from __future__ import annotations

from pyiceberg.catalog import Catalog

from splitlib.errors import ConfigError


def name_in_database(catalog: Catalog, table: str) -> str | None:
    """The name of the only catalog in the same database that has a table; None if none has it.

    Raises:
        ConfigError: if several have it.
    """
    # imported here: it takes a while, and is seldom needed
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
            f"The database has that table in catalogs named {', '.join(found)}.",
            hint="say which one with catalog=.",
        )
    return found[0] if found else None
