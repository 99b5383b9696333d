"""Check which path splitlib takes in a Spark session, and whether a session starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from splitlib.doctor.finding import GOOD, NOTE, PROBLEM, Finding
from splitlib.doctor.machine import Machine
from splitlib.errors import SplitlibError

_PUBLIC: Final = (
    "splitlib.read works through Spark's public API, with the same rows and more requests. "
    "splitlib.sql and splitlib.optimize change nothing there."
)
_CONF: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


def path_findings(machine: Machine) -> Iterator[Finding]:
    """Yield what the environment decides about the path; only a session decides the rest."""
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
    text = "Whether sessions have the internals that splitlib uses is checked in a session only."
    yield Finding("path", NOTE, text, "run: splitlib doctor --spark")


def session_findings() -> Iterator[Finding]:
    """Start a Spark session with the machine's own configuration, and yield the findings in it."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("splitlib doctor")
    for name, value in _CONF.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # Spark raises errors of many classes here
        message = str(error).strip().partition("\n")[0]
        text = f"No session can be started: {type(error).__name__}: {message}"
        advice = "fix the problems above, and look at Spark's output."
        yield Finding("session", PROBLEM, text, advice)
        return
    try:
        yield from findings_in(spark)
    finally:
        spark.stop()


def findings_in(spark: Any) -> Iterator[Finding]:
    """Yield the findings in a session: its Spark, the path that splitlib takes, its catalog."""
    from splitlib.config import SplitConfig
    from splitlib.spark.jvm.probe import internals_unavailable
    from splitlib.spark.session import settings_of

    yield Finding("session", GOOD, f"A session of Spark {spark.version} starts.")
    try:
        config = SplitConfig.resolve(spark_conf=settings_of(spark))
    except SplitlibError as error:
        yield Finding("settings", PROBLEM, error.message, error.hint or "")
        return
    reason = internals_unavailable(spark, config.spark_scan)
    if reason is None:
        text = "Scans are pinned to the matching files, because Spark has all the internals that "
        yield Finding("path", GOOD, f"{text}splitlib uses.")
    else:
        advice = "use a classic session of a Spark release that splitlib supports, if you can."
        yield Finding("path", NOTE, f"{reason[:1].upper()}{reason[1:]}. {_PUBLIC}", advice)
    try:
        databases = [database.name for database in spark.catalog.listDatabases()]
    except Exception as error:  # a catalog raises errors of many classes
        message = str(error).strip().partition("\n")[0]
        text = f"The session's catalog does not answer: {message}"
        yield Finding(
            "catalog session",
            PROBLEM,
            text,
            "check spark.sql.catalogImplementation and the address of the metastore.",
        )
        return
    text = f"The session's catalog answers, and has {len(databases)} databases."
    yield Finding("catalog session", GOOD, text)
