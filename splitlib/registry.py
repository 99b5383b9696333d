"""Find a connector's class by name, and open a table by name.

Connectors are looked up in this order: those registered in this process, built-in connectors, and
entry points of other packages.

A named catalog is a set of connector options with a name, such as ``lake`` in ``lake.db.table``.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from splitlib.config import (
    ENV_CATALOG_PREFIX,
    ENV_CATALOGS_FILE,
    SPARK_CATALOG_PREFIX,
    SplitConfig,
    refuse_other_than_config,
)
from splitlib.errors import (
    ConfigError,
    ConnectorNotFound,
    ConnectorNotInstalled,
    SnapshotNotFound,
    TableNotFound,
    UnsupportedTable,
    did_you_mean,
    error_context,
)
from splitlib.redaction import remember
from splitlib.remote.calls import run_bounded
from splitlib.remote.retry import source_call
from splitlib.rows.table import ReadableTable
from splitlib.spi import VERSION, Connector
from splitlib.storage import joined_options, only_within, options_of_text

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pyspark.sql import SparkSession

_MOST_PARTS = 100
_TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'")
ENTRY_POINT_GROUP = "splitlib.connectors"
SESSION = "session"
"""Connector for tables in the Spark session's catalogs; the default if there is a session."""
_DIRECTORIES = "files"
"""Connector for plain directories. It infers the schema as Spark does with the same settings."""
_BUILT_IN = {
    "delta": "splitlib_delta:DeltaConnector",
    _DIRECTORIES: "splitlib_files:FilesConnector",
    "glue": "splitlib_glue:GlueConnector",
    "hive": "splitlib_hive:HiveConnector",
    "iceberg": "splitlib_iceberg:IcebergConnector",
    SESSION: "splitlib.spark.session_catalog:SessionConnector",
}
# Connectors that list files themselves. They need the Spark session's storage settings.
_ON_STORAGE = frozenset({"delta", _DIRECTORIES, "glue", "hive"})
_ACTIVE_SESSION = "splitlib.spark.session:active_session"
_CONF_OF_SESSION = "splitlib.spark.session:settings_of"
_STORAGE_OF_SESSION = "splitlib.spark.session:storage_options_of"
_SETTINGS_OF_SESSION = "splitlib.spark.session:settings_of_directories"
_RESERVED = frozenset({"name", "connector", "spark", "spark_conf", "config", "session_settings"})
_registered: dict[str, type[Connector]] = {}
# Errors about the caller's arguments. Their message is enough, so their tracebacks are shortened.
_OF_ARGUMENTS = (
    ConfigError,
    ConnectorNotFound,
    ConnectorNotInstalled,
    SnapshotNotFound,
    TableNotFound,
    UnsupportedTable,
)
# Types of option values that may be used in any thread.
_OF_NO_THREAD = (str, bytes, int, float, Mapping, list, tuple, pa.Schema, type(None))


def named_catalogs(
    spark_conf: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the options of each named catalog, by catalog name.

    If several sources set the same option, the first of these wins:

    1. the Spark configuration: ``spark.splitlib.catalog.lake.uri`` sets option ``uri`` of catalog
       ``lake``, and ``spark.splitlib.catalog.lake.storage_options.key`` one of its storage options;
    2. environment variables: ``SPLITLIB_CATALOG__LAKE__URI`` and
       ``SPLITLIB_CATALOG__LAKE__STORAGE_OPTIONS__KEY``; all names are converted to lower case;
    3. the TOML or JSON file named by ``SPLITLIB_CATALOGS_FILE``, with one table per catalog.

    Spark writes its configuration to its event log, so keep secrets in one of the other sources.

    Raises:
        ConfigError: if the file cannot be read, or is not a valid catalogs file.
    """
    environ = os.environ if environ is None else environ
    catalogs = _catalogs_in(environ.get(ENV_CATALOGS_FILE))
    variables = {
        _key_of(key.removeprefix(ENV_CATALOG_PREFIX)): value
        for key, value in environ.items()
        if key.startswith(ENV_CATALOG_PREFIX)
    }
    settings = {
        key.removeprefix(SPARK_CATALOG_PREFIX): value
        for key, value in spark_conf.items()
        if key.startswith(SPARK_CATALOG_PREFIX)
    }
    for given in (variables, settings):
        texts: dict[str, dict[str, str]] = {}
        for key, value in given.items():
            name, _, option = key.partition(".")
            if option:
                texts.setdefault(name, {})[option] = value
        for name, options in texts.items():
            catalogs[name] = joined_options(catalogs.get(name, {}), options_of_text(options, name))
    return catalogs


def _key_of(variable: str) -> str:
    """Return the key in Spark's configuration. As in PyIceberg, dotted properties have dashes."""
    name, _, option = variable.lower().replace("__", ".").partition(".")
    is_property = "." in option and not option.startswith(("storage_options.", "read_options."))
    return f"{name}.{option.replace('_', '-') if is_property else option}"


def _not_too_deep(text: str) -> str:
    """Return ``text`` unchanged, or raise an error if the TOML parser would take too long.

    The parser takes minutes for a dotted key with very many parts.
    """
    for line in text.splitlines():
        if line.count(".") > _MOST_PARTS and _TEXT.sub("", line).count(".") > _MOST_PARTS:
            raise RecursionError
    return text


def _catalogs_in(file: str | None) -> dict[str, dict[str, Any]]:
    if not file:
        return {}
    import tomllib  # Imported here because few users have a catalogs file.

    try:
        text = Path(file).read_text(encoding="utf-8")
        found = json.loads(text) if file.endswith(".json") else tomllib.loads(_not_too_deep(text))
    except (OSError, ValueError, RecursionError) as error:
        # Not chained, because a parser's message may quote the file, which may contain secrets.
        why = type(error).__name__
        raise ConfigError(
            f"The catalogs file {file} ({ENV_CATALOGS_FILE}) cannot be read: {why}.",
            hint="it must exist, and be valid TOML, or JSON if its name ends with .json.",
        ) from None
    if not isinstance(found, dict) or not all(isinstance(o, dict) for o in found.values()):
        raise ConfigError(
            f"The catalogs file {file} ({ENV_CATALOGS_FILE}) does not map catalogs to options.",
            hint='write, for example, [lake] and below it connector = "hive".',
        )
    return found


def register(name: str, connector: type[Connector]) -> None:
    """Register ``connector`` as ``name`` in this process. It replaces any earlier connector.

    Raises:
        ConfigError: if ``connector`` is not a class of connectors, or ``name`` is not a text.
    """
    if not isinstance(connector, type) or not issubclass(connector, Connector):
        raise ConfigError(
            f"{connector!r} is not a class of connectors.",
            hint="register a subclass of splitlib.spi.Connector.",
        )
    _refuse_other_than_name(name)
    _registered[name] = connector


def connector_names() -> list[str]:
    """Return every name that :func:`load_table` accepts as ``connector``."""
    return sorted({*_registered, *_BUILT_IN, *(e.name for e in _entry_points())})


def connector_class(name: str) -> type[Connector]:
    """Return the class of connector ``name``.

    Raises:
        ConnectorNotFound: if no connector has this name.
        ConnectorNotInstalled: if the connector cannot be imported, or was written for another
            version of :mod:`splitlib.spi`.
    """
    _refuse_other_than_name(name)
    if name in _registered:
        return _of_this_version(name, _registered[name])
    target = _BUILT_IN.get(name) or {e.name: e.value for e in _entry_points()}.get(name)
    if target is None:
        hint = did_you_mean(name, connector_names(), otherwise="available:")
        if name.lower() in ("parquet", "orc", "json", "csv", "text"):
            hint = f"pass connector={_DIRECTORIES!r}, format={name.lower()!r}."
        raise ConnectorNotFound(f"There is no connector {name!r}.", hint=hint)
    try:
        found: type[Connector] = _imported(target)
    except Exception as error:  # Importing a module may raise any error.
        is_missing = isinstance(error, ImportError)
        raise ConnectorNotInstalled(
            f"Connector {name!r} cannot be imported: {error or type(error).__name__}.",
            hint=f"pip install 'splitlib[{name}]'"
            if is_missing and name in _BUILT_IN
            else f"report it to the authors of {target.partition(':')[0]}.",
        ) from error
    return _of_this_version(name, found)


def _refuse_other_than_name(connector: object) -> None:
    if not isinstance(connector, str):
        raise ConfigError(
            f"connector is a {type(connector).__name__}, not the name of a connector.",
            hint=f"the names are {', '.join(connector_names())}.",
        )


def _of_this_version(name: str, connector: type[Connector]) -> type[Connector]:
    if connector.spi_version != VERSION:
        newer = "splitlib" if connector.spi_version > VERSION else f"the package of {name!r}"
        raise ConnectorNotInstalled(
            f"Connector {name!r} needs version {connector.spi_version} of splitlib.spi. This "
            f"splitlib has version {VERSION}.",
            hint=f"install a newer release of {newer}.",
        )
    return connector


def load_table(
    name: str | os.PathLike[str],
    connector: str | None = None,
    *,
    spark: SparkSession | None = None,
    config: SplitConfig | None = None,
    **options: Any,
) -> ReadableTable:
    """Open a table.

    Args:
        name: Name of the table in the form that the connector expects: ``database.table``, a path
            or a URI. Use ``catalog.database.table`` for a catalog that the Spark configuration or
            the environment defines.
        connector: Name of the connector. May be omitted if the catalog defines it, or if
            ``spark`` has the table in its own catalogs.
        spark: Session whose configuration may define named catalogs
            (``spark.splitlib.catalog.NAME.*``). Other names are looked up in the session's own
            catalogs. With ``connector="session"`` the default is ``SparkSession.active()``.
        config: Settings of the table; by default those of the session and the environment.
        options: Connector options, such as ``uri``. They override those of a named catalog.

    Raises:
        SplitlibError: see :mod:`splitlib.errors`.
    """
    spark_conf: Mapping[str, str] = {}
    if isinstance(spark, type) or (spark is not None and not hasattr(spark, "createDataFrame")):
        raise ConfigError(f"spark is a {type(spark).__name__}, not a Spark session.")
    if spark is None and connector == SESSION:
        connector_class(connector)  # Fails without PySpark, and names the package to install.
        # Find the active session here: each thread has its own, and another thread opens the table.
        spark = _imported(_ACTIVE_SESSION)()
    if spark is not None:
        spark_conf = _imported(_CONF_OF_SESSION)(spark)
    return open_table(name, connector, spark=spark, spark_conf=spark_conf, config=config, **options)


def open_table(
    name: str | os.PathLike[str],
    connector: str | None = None,
    *,
    spark: object = None,
    spark_conf: Mapping[str, str] | None = None,
    config: SplitConfig | None = None,
    session_settings: Mapping[str, str] | None = None,
    **options: Any,
) -> ReadableTable:
    """Open a table, as :func:`splitlib.load_table` does.

    Args:
        name: Name of the table.
        connector: Name of the connector.
        spark: Spark session. The table is looked up in the session's own catalogs if ``connector``
            is None and ``name`` does not start with a named catalog.
        spark_conf: The session's settings ``spark.splitlib.*``, which may define named catalogs.
        config: Default settings for the table's methods and enumerations.
        session_settings: Spark settings for the connector ``files``, if ``spark`` is not passed.
        options: Connector options.
    """
    name, spark_conf = _name_of_table(name), spark_conf or {}
    refuse_other_than_config(config)
    remember(name, options)
    if connector is None:
        name, connector, options = _by_catalog(name, options, spark_conf, spark)
        remember(name, options)
    _refuse_text(options)
    cls = connector_class(connector)
    config = config or SplitConfig.resolve(spark_conf=spark_conf)
    if spark is not None and connector in _ON_STORAGE and "storage_options" not in options:
        options = {**options, "storage_options": _imported(_STORAGE_OF_SESSION)(spark)}
        remember(name, options)
    if connector == _DIRECTORIES and connector not in _registered:
        options = {**options, **_settings_of(spark, session_settings)}
    if connector == SESSION:
        options = {**_of_session(spark, config), **options}
    made, storage = Future[Connector](), options.get("storage_options")

    def make() -> Connector:
        opening = partial(cls.open, name, options)
        with only_within(config.allowed_locations):
            made.set_result(source_call(opening, config, connector=connector, table=name))
        return made.result()

    try:
        # Open the table in this thread if an option, such as a database in memory, may need it.
        of_thread = any(not isinstance(option, _OF_NO_THREAD) for option in options.values())
        if of_thread and connector != SESSION:
            opened = make()
        else:
            with error_context(connector=connector, table=name):
                opened = run_bounded(make, config)
        return ReadableTable(name, connector, opened, config, storage_options=storage)
    except BaseException as error:
        # After Ctrl-C, the abandoned call may still open the connector. Close the connector then.
        made.add_done_callback(lambda late: late.result().close())
        raise _shortened(error)  # noqa: B904 - it is the same error


def _shortened(error: BaseException) -> BaseException:
    """Return ``error``, without its traceback if it is about the caller's arguments."""
    return error.with_traceback(None) if isinstance(error, _OF_ARGUMENTS) else error


def _of_session(spark: object, config: SplitConfig) -> dict[str, Any]:
    """Return the options that splitlib itself passes to the connector ``session``."""
    given: dict[str, Any] = {} if spark is None else {"spark": spark}
    return given | {"listing_threads": config.listing_threads, "spark_scan": config.spark_scan}


def _settings_of(spark: object, given: Mapping[str, str] | None) -> dict[str, Any]:
    """Return session settings as an option for the connector ``files``, or {} if there are none."""
    settings = given if spark is None else _imported(_SETTINGS_OF_SESSION)(spark)
    return {} if settings is None else {"session_settings": settings}


def is_path(name: str) -> bool:
    """Return whether ``name`` is a path or URI, and therefore not the name of a table."""
    return name.startswith(("/", "./", "../", "~", "file:/")) or "://" in name


def _name_of_table(name: Any) -> str:
    """Return a table's name as text.

    Raises:
        ConfigError: if it is neither a text nor a path.
    """
    if isinstance(name, str | os.PathLike):
        return os.fsdecode(name)
    raise ConfigError(f"The name of a table is a text or a path, not a {type(name).__name__}.")


def refuse_reserved(options: Iterable[str], hint: str | None = None) -> None:
    """Reject connector options with the name of an argument of :func:`open_table`.

    Raises:
        ConfigError: if there is such an option.
    """
    if names := _RESERVED.intersection(options):
        raise ConfigError(f"{min(names)!r} is not a connector option.", hint=hint)


def _refuse_text(options: Mapping[str, Any]) -> None:
    """Reject options that are not mappings. The error omits the value, which may be a secret."""
    for name in ("storage_options", "read_options"):
        given, wrong = options.get(name), ""
        if given is not None and not isinstance(given, Mapping):
            wrong = f"{name} is a {type(given).__name__}, not a mapping."
        elif not all(isinstance(key, str) for key in given or ()):
            wrong = f"{name} has a name that is not a text."
        if wrong:
            raise ConfigError(wrong, hint=f"pass {name}={{'option': value}}.")


def _by_catalog(
    name: str, options: Mapping[str, Any], spark_conf: Mapping[str, str], spark: object
) -> tuple[str, str, dict[str, Any]]:
    """Resolve ``catalog.table`` to the table name, the connector's name and its options."""
    catalog, _, table = name.partition(".")
    catalogs = named_catalogs(spark_conf)
    if not name.strip():
        raise ConfigError(
            "No table is named.", hint=f"write db.table, or a path with connector={_DIRECTORIES!r}."
        )
    if is_path(name):
        raise ConfigError(
            f"{name!r} is a path, not the name of a table.",
            hint=f"pass connector={_DIRECTORIES!r} to read a directory.",
        )
    named = catalogs.get(catalog)
    if spark is not None and named is None:
        return name, SESSION, dict(options)
    if named is None or not table:
        raise _no_catalog(name, catalog, catalogs)
    options = {**named, **options}
    connector = options.pop("connector", None)
    if connector is None:
        raise ConfigError(
            f"Catalog {catalog!r} does not define a connector.",
            hint=f"set {SPARK_CATALOG_PREFIX}{catalog}.connector.",
        )
    return table, connector, options


def _no_catalog(name: str, catalog: str, known: Iterable[str]) -> ConfigError:
    names = sorted(known)
    if catalog in names:
        return ConfigError(f"{name!r} names a catalog, but no table.", hint=f"{catalog}.db.table")
    connectors = f"pass connector=..., one of {', '.join(connector_names())}"
    if not names:
        return ConfigError(
            f"No connector is given for {name!r}.",
            hint=f"{connectors}, or set {SPARK_CATALOG_PREFIX}{catalog}.connector.",
        )
    near = did_you_mean(catalog, names, otherwise="the catalogs are")
    return ConfigError(f"There is no catalog {catalog!r}.", hint=f"{near} Or {connectors}.")


def _imported(target: str) -> Any:
    """Import the object named ``module:attribute``."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _entry_points() -> list[EntryPoint]:
    # Imported here because this takes longer than importing splitlib, and few calls need it.
    from importlib.metadata import entry_points

    return list(entry_points(group=ENTRY_POINT_GROUP))
