"""Start a Spark session, and check a session: its settings, internals and catalogs."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from splitlib.config import SplitConfig
from splitlib.diagnosis.machine import GOOD, NOTE, PROBLEM, Finding, Machine
from splitlib.diagnosis.sources import DEADLINE_SECONDS
from splitlib.errors import ConfigError, ConnectorNotInstalled, SplitlibError
from splitlib.remote.calls import run_bounded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONF: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_PUBLIC: Final = (
    "splitlib.read works through Spark's public API, with the same rows and more requests. "
    "splitlib.sql and splitlib.optimize leave queries to Spark in such a session."
)
_CATALOG: Final = "spark.sql.catalog."
_METASTORES: Final = (
    "spark.hadoop.hive.metastore.uris",
    "spark.hive.metastore.uris",
    "hive.metastore.uris",
)
_METASTORE_PORT: Final = 9083
_CATALOG_SECONDS: Final = 120.0
"""Maximum time in which a catalog of the session must answer, in seconds. Spark may have to start
a Hive client, or to load a catalog's classes."""


@contextmanager
def spark_session(command: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a new Spark session with the settings ``conf``, and stop it after the ``with`` block.

    Raises:
        ConnectorNotInstalled: if PySpark is not installed.
        ConfigError: if the session cannot be started.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise ConnectorNotInstalled(
            "A Spark session needs PySpark.", hint="pip install 'splitlib[spark]'"
        ) from error
    builder = SparkSession.builder.appName(command)
    for name, value in {**_CONF, **conf}.items():
        builder = builder.config(name, value)
    print("starting a Spark session", file=sys.stderr)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # Spark raises errors of many classes here.
        raise ConfigError(
            f"No Spark session can be started: {_first_line(error)}", hint="run: splitlib doctor"
        ) from error
    try:
        yield spark
    finally:
        spark.stop()


def path_findings(machine: Machine) -> Iterator[Finding]:
    """Yield a finding on how Spark will read files, from environment variables and Spark's jars.

    What else it depends on can only be checked in a Spark session. Nothing is yielded if PySpark is
    not installed.
    """
    if not machine.pysparks:
        return
    environ = machine.environ
    remote = environ.get("SPARK_REMOTE") or environ.get("SPARK_CONNECT_MODE") == "1"
    reason = None
    if remote or not machine.has_jars:
        reason = "Sessions use Spark Connect, which gives no access to the JVM."
    elif environ.get("PYSPARK_PIN_THREAD", "true").lower() == "false":
        reason = "PYSPARK_PIN_THREAD is false, so Python threads share JVM threads and settings."
    elif environ.get("SPLITLIB_SPARK_SCAN") == "paths":
        reason = "SPLITLIB_SPARK_SCAN is paths."
    if reason is not None:
        advice = "use a classic session with the defaults, if you can."
        yield Finding("path", NOTE, f"{reason} {_PUBLIC}", advice)
        return
    text = "Only a check with a session shows whether Spark has the internals that splitlib uses."
    yield Finding("path", NOTE, text, "run: splitlib doctor --spark")


def session_findings(spark: SparkSession) -> Iterator[Finding]:
    """Yield findings about a Spark session: how it will read files, and its catalogs.

    Catalogs that Spark's settings define are checked, too. Settings and catalogs of splitlib are
    not checked here.
    """
    from splitlib.spark.jvm.probe import internals_unavailable
    from splitlib.spark.session import every_setting, settings_of

    yield Finding("session", GOOD, f"The session runs Spark {spark.version}.")
    try:
        config = SplitConfig.resolve(spark_conf=settings_of(spark))
    except SplitlibError:  # The findings about settings report this error.
        config = SplitConfig()
    reason = internals_unavailable(spark, config.spark_scan)
    if reason is None:
        text = "Scans are pinned to the matching files, because Spark has all the internals that "
        yield Finding("path", GOOD, f"{text}splitlib uses.")
    else:
        advice = "use a classic session of a Spark release that splitlib supports, if you can."
        yield Finding("path", NOTE, f"{reason[:1].upper()}{reason[1:]}. {_PUBLIC}", advice)
    settings = every_setting(spark)
    metastores = list(_metastores(settings))
    yield from metastores
    if not any(finding.status == PROBLEM for finding in metastores):
        # Check catalogs only if every metastore responds, because Spark would retry for minutes.
        yield from _catalogs(spark, settings, config)


def _metastores(settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each address of the Hive metastore in Spark's settings."""
    name = next((name for name in _METASTORES if settings.get(name)), None)
    if name is None:
        return
    if settings.get("spark.sql.catalogImplementation") != "hive":
        text = f"{name} is set, but the session does not use a Hive metastore."
        advice = "set spark.sql.catalogImplementation=hive, or call enableHiveSupport()."
        yield Finding("metastore", NOTE, text, advice)
        return
    for address in filter(None, (part.strip() for part in settings[name].split(","))):
        try:
            parts = urlsplit(address if "://" in address else f"thrift://{address}")
            place = (parts.hostname or "", parts.port or _METASTORE_PORT)
            socket.create_connection(place, DEADLINE_SECONDS).close()
        except (OSError, ValueError) as error:  # ValueError: the port is not a number.
            text = f"The metastore {address} cannot be reached: {error}."
            advice = f"correct {name}, or start the metastore."
            yield Finding("metastore", PROBLEM, text, advice)
        else:
            yield Finding("metastore", GOOD, f"The metastore {address} accepts connections.")


def _catalogs(
    spark: SparkSession, settings: Mapping[str, str], config: SplitConfig
) -> Iterator[Finding]:
    """Yield a finding for the session's current catalog, and for each other catalog of Spark."""
    from splitlib.spark.conversion import quoted

    config = replace(config, call_deadline_seconds=_CATALOG_SECONDS, retry_attempts=1)

    def databases(name: str) -> Callable[[], int]:
        return lambda: len(spark.sql(f"SHOW NAMESPACES IN {quoted(name)}").collect())

    current = spark.catalog.currentCatalog()
    names = {name.removeprefix(_CATALOG) for name in settings if name.startswith(_CATALOG)}
    for name in (current, *sorted(n for n in names if "." not in n and n != current)):
        key = f"{_CATALOG}{name}"
        implementation = f", {settings[key]}," if key in settings else ""
        check = "catalog session" if name == current else f"catalog {name}"
        try:
            count = run_bounded(databases(name), config)
        except Exception as error:  # Catalogs raise errors of many classes.
            text = f"Spark's catalog {name}{implementation} does not answer: {_first_line(error)}"
            advice = f"check the settings {key}.*, and the jars of the catalog."
            if key not in settings:
                advice = "check spark.sql.catalogImplementation and the address of the metastore."
            yield Finding(check, PROBLEM, text, advice)
        else:
            text = f"Spark's catalog {name}{implementation} answers, and has {count:,} databases."
            yield Finding(check, GOOD, text)


def _first_line(error: Exception) -> str:
    """Return the first line of an error's message, or of the Java exception that caused it."""
    from splitlib.spark.jvm.active_session import readable

    return str(readable(error)).strip().partition("\n")[0] or type(error).__name__
