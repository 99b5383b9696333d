"""Load a table from a catalog, and choose the snapshot and schema to read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyiceberg.catalog
from pyiceberg.catalog import Catalog, CatalogType, infer_catalog_type, load_catalog
from pyiceberg.catalog.rest import RestCatalog, TableResponse
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.utils.config import Config, merge_config
from requests import PreparedRequest, Response, Session
from requests.adapters import BaseAdapter

from splitlib.errors import (
    ConfigError,
    CorruptMetadata,
    SnapshotNotFound,
    SourceError,
    TableNotFound,
)
from splitlib.redaction import remember
from splitlib.spi import integer, milliseconds
from splitlib.storage import refuse_outside
from splitlib_iceberg.failures import of_catalog
from splitlib_iceberg.unpacking import guarded, keep_guarded

MOST_BYTES: Final = 256 << 20
"""Maximum size of a catalog's response, in bytes. A response may list all table snapshots."""
_PIECE: Final = 1 << 16
PINS = ("snapshot_id", "ref", "as_of")
# PyIceberg's default name for a catalog.
_UNNAMED = "default"


def loaded(name: str | None, properties: Mapping[str, Any]) -> Catalog:
    """Load a catalog, as ``pyiceberg.catalog.load_catalog`` does.

    In addition, the size of a REST catalog's responses is limited. Each file is checked against
    ``allowed_locations`` before it is read.
    """
    config = getattr(pyiceberg.catalog, "_ENV_CONFIG", None) or Config()
    name_or_default = name or config.get_default_catalog_name()
    known = config.get_catalog_config(name_or_default)
    merged: dict[str, Any] = guarded(merge_config(known or {}, dict(properties)))
    remember(name_or_default, merged)
    if "py-catalog-impl" not in merged and _is_rest(name_or_default, merged):
        catalog: Catalog = LimitedRestCatalog(name_or_default, **merged)
    else:
        catalog = load_catalog(name, **merged)
    keep_guarded(catalog, merged)
    return catalog


def _is_rest(name: str, properties: Mapping[str, Any]) -> bool:
    if not isinstance(properties.get("uri"), str):
        return False  # a REST catalog needs a uri, so PyIceberg raises an error if this is one
    kind = properties.get("type")
    if not kind:
        return infer_catalog_type(name, dict(properties)) is CatalogType.REST
    return isinstance(kind, str) and kind.lower() == CatalogType.REST.value


class LimitedRestCatalog(RestCatalog):
    """A REST catalog that limits responses, and ignores storage settings in a table's properties.

    Storage settings come from the user and from the server.
    """

    def _config_headers(self, session: Session) -> None:
        # PyIceberg calls this method first for a new session, and may request a token right
        # afterwards. So the limit must be set here.
        _limit(session)
        super()._config_headers(session)

    def _create_session(self) -> Session:
        session = super()._create_session()
        # For catalogs with signed requests, the base class has mounted another adapter, without a
        # limit.
        _limit(session)
        return session

    def _response_to_table(
        self, identifier_tuple: tuple[str, ...], table_response: TableResponse
    ) -> Table:
        metadata = table_response.metadata
        bare = {"metadata": metadata.model_copy(update={"properties": {}})}
        table = super()._response_to_table(identifier_tuple, table_response.model_copy(update=bare))
        table.metadata = metadata
        return table


class _LimitedAdapter(BaseAdapter):
    """Sends requests with another adapter, and limits the size of every response.

    The limit also applies to redirect responses.
    """

    def __init__(self, behind: BaseAdapter) -> None:
        super().__init__()
        self._behind = behind

    def send(
        self, request: PreparedRequest, stream: bool = False, *more: Any, **named: Any
    ) -> Response:
        """Send a request and receive the whole response.

        Raises:
            SourceError: if the response is too large.
        """
        response = self._behind.send(request, True, *more, **named)
        found = bytearray()
        with response:
            for piece in response.iter_content(_PIECE):
                found += piece
                if len(found) > MOST_BYTES:
                    raise SourceError(
                        f"The response of the catalog has more than {MOST_BYTES} bytes.",
                        hint="check its uri, and whether a proxy responds instead of it.",
                    )
        response._content = bytes(found)
        return response

    def close(self) -> None:
        """Close the adapter that sends the requests."""
        self._behind.close()


def _limit(session: Session) -> None:
    for prefix, adapter in list(session.adapters.items()):
        if not isinstance(adapter, _LimitedAdapter):
            session.mount(prefix, _LimitedAdapter(adapter))


def name_in_database(catalog: Catalog, table: str) -> str | None:
    """Return the catalog name under which a SQL catalog's database stores a table.

    Return None if the table is not in the database, or the catalog is not a SQL catalog.

    Raises:
        ConfigError: if several catalogs in the database have the table.
    """
    # Imported here because the import is slow and rarely needed.
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
    """Return the name of the only catalog in a SQL catalog's database.

    Return None if ``catalog`` is not a SQL catalog, or if its database contains no catalog. Also
    return None if the database contains a catalog with the name of ``catalog``.

    Raises:
        ConfigError: if the database has several catalogs, and none has the name of ``catalog``.
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


class Pinned(NamedTuple):
    """A loaded table, with the snapshot and schema to read."""

    catalog: Catalog | None
    """The catalog that the connector must close, or None if the user passed a catalog object."""
    table: Table
    snapshot: Snapshot | None
    """The snapshot to read, or None for a table without snapshots."""
    schema: Schema


def open_table(name: str, options: Mapping[str, Any]) -> Pinned:
    """Load a table, and choose the snapshot and schema to read.

    Raises:
        ConfigError: if options contradict each other or are malformed.
        TableNotFound: if the catalog does not have this table.
        SnapshotNotFound: if the table does not have the requested version.
        SourceUnavailable: if the catalog does not respond.
    """
    _refuse_ignored(options)
    properties = dict(options)
    pins = {pin: properties.pop(pin, None) for pin in PINS}
    pins = {pin: value for pin, value in pins.items() if value is not None}
    if len(pins) > 1:
        raise ConfigError(f"Only one of {', '.join(pins)} can be given.")
    if "." not in name:
        raise TableNotFound(f"{name!r} has no namespace.", hint="write namespace.table.")
    catalog, own = _opened(properties, options)
    by_default = options.get("catalog") is None
    try:
        with of_catalog(options):
            table = _load(catalog, name, by_default=by_default)
        # A catalog object that the user passed has read the metadata file without this check.
        refuse_outside([table.metadata_location])
        snapshot, schema = _choose(table, pins)
    except BaseException:
        if own is not None:
            own.close()
        raise
    return Pinned(own, table, snapshot, schema)


def _refuse_ignored(options: Mapping[str, Any]) -> None:
    """Reject options that PyIceberg would ignore, although they are meant to have an effect."""
    if options.get("storage_options"):
        raise ConfigError(
            "The connector 'iceberg' has no option storage_options.",
            hint="pass PyIceberg's properties, such as s3.access-key-id.",
        )
    for option in options.keys() - PINS:
        letters = re.sub(r"[\W_]", "", option).lower()
        if meant := [pin for pin in PINS if pin.replace("_", "") == letters]:
            raise ConfigError(f"Unknown option {option!r}.", hint=f"did you mean {meant[0]!r}?")


def table_names(database: str | None, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the namespace and name of each table in a catalog, sorted.

    Args:
        database: A namespace, or None for all namespaces, including nested ones.
        options: Catalog options; see :func:`open_table`.

    Raises:
        TableNotFound: if there is no such namespace.
        SourceUnavailable: if the catalog does not respond.
    """
    catalog, own = _opened({k: v for k, v in options.items() if k not in PINS}, options)
    try:
        with of_catalog(options):
            if options.get("catalog") is None and catalog.name == _UNNAMED:
                catalog.name = only_name_in_database(catalog) or _UNNAMED
            if database is None:
                namespaces = sorted(_namespaces_below(catalog, ()))
            else:
                namespaces = [tuple(database.split("."))]
        for namespace in namespaces:
            with of_catalog(options):
                found = sorted({identifier[-1] for identifier in catalog.list_tables(namespace)})
                if not found and database is not None:
                    # Raise an error if the namespace does not exist.
                    catalog.load_namespace_properties(namespace)
            for name in found:
                yield ".".join(namespace), name
    finally:
        if own is not None:
            own.close()


def _namespaces_below(catalog: Catalog, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for namespace in catalog.list_namespaces(above):
        if len(namespace) > len(above):  # some catalogs also return the parent namespace
            yield tuple(namespace)
            yield from _namespaces_below(catalog, tuple(namespace))


def _opened(
    properties: dict[str, Any], options: Mapping[str, Any]
) -> tuple[Catalog, Catalog | None]:
    """Return the catalog to use, and the catalog to close (None if the user passed a catalog).

    Args:
        properties: Options for the catalog. ``catalog`` is removed from them.
        options: All options, whose secrets are masked in error messages.
    """
    given = properties.pop("catalog", None)
    with of_catalog(options):
        if isinstance(given, Catalog):
            if properties:
                raise ConfigError(
                    f"{', '.join(properties)} cannot be combined with a catalog object."
                )
            return given, None
        if not isinstance(given, str | None):
            raise ConfigError(
                f"catalog is a {type(given).__name__}, neither a name nor a PyIceberg catalog."
            )
        # splitlib only reads. By default, PyIceberg creates the tables of an empty SQL catalog.
        properties.setdefault("init_catalog_tables", "false")
        own = loaded(given, properties)
        return own, own


def _load(catalog: Catalog, name: str, *, by_default: bool) -> Table:
    """Load a table from a catalog.

    Several SQL catalogs can share a database. If the user has not named the catalog
    (``by_default``), and the default name does not have the table, the name of the catalog that
    has the table is looked up in the database.
    """
    try:
        return catalog.load_table(name)
    except NoSuchTableError:
        if not by_default or catalog.name != _UNNAMED:
            raise
        own_name = name_in_database(catalog, name)
        if own_name is None:
            raise
    catalog.name = own_name
    return catalog.load_table(name)


def _choose(table: Table, pins: Mapping[str, Any]) -> tuple[Snapshot | None, Schema]:
    """Return the snapshot, and the schema that Iceberg's Spark reader uses for it.

    The current version and branches use the table's current schema. Tags, times and snapshot ids
    use the snapshot's own schema.

    Args:
        table: The table.
        pins: At most one of the options in :data:`PINS`.
    """
    match dict(pins):
        case {"snapshot_id": identifier}:
            snapshot = _by_id(table, integer("snapshot_id", identifier))
        case {"as_of": moment}:
            snapshot = _as_of(table, milliseconds("as_of", moment))
        case {"ref": str(name)}:
            reference = table.metadata.refs.get(name)
            if reference is None:
                if name == "main":
                    return None, table.schema()
                known = ", ".join(sorted(table.metadata.refs)) or "none"
                raise SnapshotNotFound(
                    f"There is no branch or tag {name!r}.", hint=f"available: {known}."
                )
            snapshot = _by_id(table, reference.snapshot_id)
            if reference.snapshot_ref_type == SnapshotRefType.BRANCH:
                return snapshot, table.schema()
        case {"ref": other}:
            raise ConfigError(f"ref must be the name of a branch or tag, not {other!r}.")
        case _:
            if table.metadata.current_snapshot_id is None:
                return None, table.schema()
            return _by_id(table, table.metadata.current_snapshot_id), table.schema()
    if snapshot.schema_id is None:  # old writers did not store the schema's id
        return snapshot, table.schema()
    schema = table.schemas().get(snapshot.schema_id)
    if schema is None:
        raise CorruptMetadata(
            f"The table's metadata has no schema {snapshot.schema_id}, which the snapshot uses."
        )
    return snapshot, schema


def _by_id(table: Table, identifier: int) -> Snapshot:
    snapshot = table.snapshot_by_id(identifier)
    if snapshot is None:
        raise SnapshotNotFound(
            f"The table has no snapshot {identifier}.", hint="the snapshot may have expired."
        )
    return snapshot


def _as_of(table: Table, milliseconds: int) -> Snapshot:
    earlier = [e for e in table.history() if e.timestamp_ms <= milliseconds]
    if not earlier:
        raise SnapshotNotFound(
            f"The table has no snapshot at or before {milliseconds} ms since the epoch."
        )
    return _by_id(table, earlier[-1].snapshot_id)
