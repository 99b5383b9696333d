"""From a connector's name to its class, and from a table's name to an open table.

A connector is looked for among those registered in this process, those of this project, and the
entry points of other packages, in this order.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from splitlib.catalogs import named_catalogs
from splitlib.config import SPARK_CATALOG_PREFIX, SplitConfig
from splitlib.errors import (
    ConfigError,
    ConnectorNotFound,
    ConnectorNotInstalled,
    error_context,
)
from splitlib.redaction import remember
from splitlib.remote.bounded_calls import run_bounded
from splitlib.remote.retry import source_call
from splitlib.spi import Connector
from splitlib.suggestions import did_you_mean
from splitlib.table import Table

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "splitlib.connectors"
SESSION = "session"
"""The connector of tables that a Spark session knows by itself, the default where there is one."""
_DIRECTORIES = "files"
"""The connector that has to infer what a catalog knows, by the settings of whoever reads."""
_BUILT_IN = {
    _DIRECTORIES: "splitlib_files:FilesConnector",
    "hive": "splitlib_hive:HiveConnector",
    "iceberg": "splitlib_iceberg:IcebergConnector",
    SESSION: "splitlib.spark.session_catalog:SessionConnector",
}
# Connectors that list files themselves: what the session knows of its storage is for them, too.
_ON_STORAGE = frozenset({_DIRECTORIES, "hive"})
_STORAGE_OF_SESSION = "splitlib.spark.storage_settings:storage_options_of"
_SETTINGS_OF_SESSION = "splitlib.spark.session:settings_of_directories"
_registered: dict[str, type[Connector]] = {}
_OF_NO_THREAD = (str, bytes, int, float, Mapping, list, tuple, pa.Schema, type(None))


def register(name: str, connector: type[Connector]) -> None:
    """Make ``connector`` known as ``name`` in this process; replaces what had the name."""
    _registered[name] = connector


def connector_names() -> list[str]:
    """Every name that :func:`load_table` accepts as ``connector``."""
    return sorted({*_registered, *_BUILT_IN, *(e.name for e in _entry_points())})


def connector_class(name: str) -> type[Connector]:
    """The connector called ``name``.

    Raises:
        ConnectorNotFound: if there is none.
        ConnectorNotInstalled: if what it needs cannot be imported.
    """
    if name in _registered:
        return _registered[name]
    target = _BUILT_IN.get(name) or {e.name: e.value for e in _entry_points()}.get(name)
    if target is None:
        hint = did_you_mean(name, connector_names(), otherwise="known are")
        raise ConnectorNotFound(f"There is no connector {name!r}.", hint=hint)
    try:
        found: type[Connector] = _imported(target)
    except Exception as error:  # a module may raise anything when it is imported; chained, not lost
        is_missing = isinstance(error, ImportError)
        raise ConnectorNotInstalled(
            f"Connector {name!r} cannot be imported: {error or type(error).__name__}.",
            hint=f"pip install 'splitlib[{name}]'"
            if is_missing
            else f"report it to who has {target.partition(':')[0]}.",
        ) from error
    return found


def open_table(
    name: str,
    connector: str | None = None,
    *,
    spark: object = None,
    spark_conf: Mapping[str, str] | None = None,
    config: SplitConfig | None = None,
    session_settings: Mapping[str, str] | None = None,
    **options: Any,
) -> Table:
    """What :func:`splitlib.load_table` does.

    Args:
        name: Of the table.
        connector: Of the connector.
        spark: A session, whose own catalogs have what no other is named for.
        spark_conf: Its settings ``spark.splitlib.*``, which may name catalogs.
        config: How often to try again; for all calls of the table that are given no other.
        session_settings: How Spark reads directories, where ``spark`` is not at hand to tell.
        options: The connector's own.
    """
    remember(name, options)
    spark_conf = spark_conf or {}
    if connector is None:
        name, connector, options = _by_catalog(name, options, spark_conf, spark)
        remember(name, options)
    cls = connector_class(connector)
    config = config or SplitConfig.resolve(spark_conf=spark_conf)
    if spark is not None and connector in _ON_STORAGE and "storage_options" not in options:
        options = {**options, "storage_options": _imported(_STORAGE_OF_SESSION)(spark)}
        remember(name, options)
    if connector == _DIRECTORIES and connector not in _registered:
        options = {**options, **_settings_of(spark, session_settings)}
    if connector == SESSION:
        given: dict[str, Any] = {} if spark is None else {"spark": spark}
        given |= {"listing_threads": config.listing_threads, "spark_scan": config.spark_scan}
        options = {**given, **options}
    made: Future[Connector] = Future()

    def make() -> Connector:
        opening = partial(cls.open, name, options)
        made.set_result(source_call(opening, config, connector=connector, table=name))
        return made.result()

    try:
        # an object that the caller has made, such as a database in memory, may belong to its thread
        of_thread = any(not isinstance(option, _OF_NO_THREAD) for option in options.values())
        if of_thread and connector != SESSION:
            opened = make()
        else:
            with error_context(connector=connector, table=name):
                opened = run_bounded(make, config)
        return Table(name, connector, opened, config)
    except BaseException:
        # a call that nobody waits for any more, as of Ctrl-C, may still open it
        made.add_done_callback(lambda late: late.result().close())
        raise


def _settings_of(spark: object, given: Mapping[str, str] | None) -> dict[str, Any]:
    """The option by which directories are read as the session reads them, if one reads."""
    settings = given if spark is None else _imported(_SETTINGS_OF_SESSION)(spark)
    return {} if settings is None else {"session_settings": settings}


def _by_catalog(
    name: str, options: Mapping[str, Any], spark_conf: Mapping[str, str], spark: object
) -> tuple[str, str, dict[str, Any]]:
    """The table, connector and options that ``catalog.table`` stands for."""
    catalog, _, table = name.partition(".")
    named = named_catalogs(spark_conf).get(catalog)
    if spark is not None and named is None:
        return name, SESSION, dict(options)
    if named is None or not table:
        raise ConfigError(
            f"No connector is given for {name!r}.",
            hint=f"pass connector=..., one of {', '.join(connector_names())}, or set "
            f"{SPARK_CATALOG_PREFIX}{catalog}.connector.",
        )
    options = {**named, **options}
    connector = options.pop("connector", None)
    if connector is None:
        raise ConfigError(
            f"Catalog {catalog!r} does not say its connector.",
            hint=f"set {SPARK_CATALOG_PREFIX}{catalog}.connector.",
        )
    return table, connector, options


def _imported(target: str) -> Any:
    """What is called ``module:attribute``."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _entry_points() -> list[EntryPoint]:
    # imported here: it costs more than all of this package, for a name that is not built in
    from importlib.metadata import entry_points

    return list(entry_points(group=ENTRY_POINT_GROUP))
