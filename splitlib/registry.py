"""From a connector's name to its class, and from a table's name to an open table.

A connector is looked for among those registered in this process, those of this project, and the
entry points of other packages, in this order.
"""

from __future__ import annotations

import importlib
import json
import os
import tomllib
from collections.abc import Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pyarrow as pa

from splitlib.config import (
    ENV_CATALOG_PREFIX,
    ENV_CATALOGS_FILE,
    SPARK_CATALOG_PREFIX,
    SplitConfig,
)
from splitlib.errors import (
    ConfigError,
    ConnectorNotFound,
    ConnectorNotInstalled,
    SplitlibError,
    error_context,
)
from splitlib.redaction import remember
from splitlib.remote.retry import retrying
from splitlib.remote.workers import run_bounded
from splitlib.spi import Connector
from splitlib.suggestions import did_you_mean
from splitlib.table import Table

ENTRY_POINT_GROUP = "splitlib.connectors"
_BUILT_IN = {
    "files": "splitlib_files:FilesConnector",
    "hive": "splitlib_hive:HiveConnector",
    "iceberg": "splitlib_iceberg:IcebergConnector",
}
_registered: dict[str, type[Connector]] = {}
_PLAIN = (str, bytes, int, float, Mapping, list, tuple, pa.Schema, type(None))


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
    targets = {e.name: e.value for e in _entry_points()} | _BUILT_IN
    if name not in targets:
        hint = did_you_mean(name, connector_names(), otherwise="known are")
        raise ConnectorNotFound(f"There is no connector {name!r}.", hint=hint)
    module, _, attribute = targets[name].partition(":")
    try:
        found: type[Connector] = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module may raise anything when it is imported
        raise ConnectorNotInstalled(
            f"Connector {name!r} cannot be imported: {error or type(error).__name__}.",
            hint=f"pip install 'splitlib[{name}]'",
        ) from error
    return found


def load_table(
    name: str,
    connector: str | None = None,
    *,
    spark_conf: Mapping[str, str] | None = None,
    config: SplitConfig | None = None,
    **options: Any,
) -> Table:
    """See :func:`splitlib.load_table`.

    Args:
        name: Of the table.
        connector: Of the connector.
        spark_conf: The settings ``spark.splitlib.*`` of a session, which may name catalogs.
        config: How often to try again.
        options: The connector's own.
    """
    remember(name, options)
    spark_conf = spark_conf or {}
    if connector is None:
        catalog, _, rest = name.partition(".")
        named = named_catalogs(spark_conf).get(catalog)
        if named is None or not rest:
            raise ConfigError(
                f"No connector is given for {name!r}.",
                hint=f"pass connector=..., one of {', '.join(connector_names())}, or set "
                f"{SPARK_CATALOG_PREFIX}{catalog}.connector.",
            )
        name, options = rest, {**named, **options}
        connector = options.pop("connector", None)
        if connector is None:
            raise ConfigError(
                f"Catalog {catalog!r} does not say its connector.",
                hint=f"set {SPARK_CATALOG_PREFIX}{catalog}.connector.",
            )
    cls = connector_class(connector)
    remember(name, options)
    config = config or SplitConfig.resolve(spark_conf=spark_conf)

    def attempt() -> Connector:
        # inside of the tries, which only know the errors that it makes
        with error_context(connector=connector, table=name):
            return cls.open(name, options)

    # an object that the caller has made, such as a database in memory, may belong to its thread
    plain = all(isinstance(option, _PLAIN) for option in options.values())
    with error_context(connector=connector, table=name):
        tries = partial(retrying, attempt, config)
        opened = run_bounded(tries, config) if plain else tries()
    try:
        return Table(name, connector, opened)
    except SplitlibError:
        opened.close()
        raise


def named_catalogs(
    spark_conf: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Options by catalog name, from three places, of which the first that has an option wins.

    They are Spark's configuration; the environment, whose names and options are in lower case
    (``SPLITLIB_CATALOG__LAKE__URI`` is option ``uri`` of ``lake``); and the file that
    ``SPLITLIB_CATALOGS_FILE`` names, TOML or JSON, with a table of options for each catalog. Spark
    writes its configuration to its event log, so secrets are better off in the other two.

    Raises:
        ConfigError: if that file cannot be read, or is neither.
    """
    environ = os.environ if environ is None else environ
    catalogs = _catalogs_in(environ.get(ENV_CATALOGS_FILE))
    for key, value in environ.items():
        name, _, option = key.removeprefix(ENV_CATALOG_PREFIX).lower().partition("__")
        if key.startswith(ENV_CATALOG_PREFIX) and option:
            catalogs.setdefault(name, {})[option] = value
    for key, value in spark_conf.items():
        name, _, option = key.removeprefix(SPARK_CATALOG_PREFIX).partition(".")
        if key.startswith(SPARK_CATALOG_PREFIX) and option:
            catalogs.setdefault(name, {})[option] = value
    return catalogs


def _catalogs_in(file: str | None) -> dict[str, dict[str, Any]]:
    if not file:
        return {}
    try:
        text = Path(file).read_text(encoding="utf-8")
        found = json.loads(text) if file.endswith(".json") else tomllib.loads(text)
    except (OSError, ValueError) as error:
        # not chained: an error of a parser may hold the text
        why = type(error).__name__
        raise ConfigError(
            f"{ENV_CATALOGS_FILE} names {file}, which has no catalogs: {why}."
        ) from None
    if not isinstance(found, dict) or not all(isinstance(o, dict) for o in found.values()):
        raise ConfigError(
            f"{ENV_CATALOGS_FILE} names {file}, which has no table of options for each catalog."
        )
    return found


def _entry_points() -> list[EntryPoint]:
    return list(entry_points(group=ENTRY_POINT_GROUP))
