"""Run all checks: ``splitlib.doctor`` and its result, :class:`Diagnosis`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from splitlib import page
from splitlib.checks import refuse_other_than_session
from splitlib.diagnosis.machine import (
    PROBLEM,
    Finding,
    Machine,
    machine_findings,
    own_requirements,
    package_findings,
)
from splitlib.diagnosis.session import path_findings, session_findings
from splitlib.diagnosis.sources import source_findings
from splitlib.errors import ConfigError, SplitlibError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of :func:`splitlib.doctor`. ``str()`` has one line per finding.

    Attributes:
        findings: The results of all checks, in the order of the checks.
    """

    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that are problems; empty if splitlib works here."""
        return tuple(finding for finding in self.findings if finding.status == PROBLEM)

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as a dict of plain values, for JSON, without credentials."""
        return {"findings": [finding.to_dict() for finding in self.findings]}

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings))

    def to_html(self) -> str:
        """Return the findings as a standalone HTML page."""
        return page.document("doctor", self._repr_html_())

    def _repr_html_(self) -> str:
        rows = [tuple(finding.to_dict().values()) for finding in self.findings]
        return page.widget(page.table(("check", "status", "finding", "what to do"), rows))


def doctor(
    spark: SparkSession | None = None,
    *locations: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
) -> Diagnosis:
    """Check this machine's software, settings and catalogs, and a Spark session.

    For notebooks and platforms without a shell. The command ``splitlib doctor`` runs the same
    checks. Every catalog gets a few requests, and every location is listed once. No table is read,
    and nothing is changed. A check ends after 20 seconds, or after two minutes for a catalog of
    Spark.

    Args:
        spark: The session; None to check the machine only.
        locations: Directories to list, as paths or URIs.
        storage_options: fsspec options for all ``locations``. By default, the session's storage
            settings apply.

    Returns:
        The findings: each good, a note, or a problem with what to do.

    Raises:
        ConfigError: if ``spark`` is not a session, or a location is not a path.
    """
    if spark is not None:
        refuse_other_than_session(spark, "splitlib.doctor(spark, *locations)")
    options = _mapping(storage_options)
    listed = {_path(location): options for location in locations}
    start = None if spark is None else lambda: spark
    found = findings({}, listed, start, is_running=spark is not None)
    return Diagnosis(tuple(one._replace(advice=_in_python(one.advice)) for one in found))


def _in_python(advice: str) -> str:
    """Return advice in which commands for a shell are replaced by calls of :func:`doctor`."""
    advice = advice.replace("run: splitlib doctor --spark", "call splitlib.doctor(spark)")
    return advice.replace("splitlib doctor s3://…", 'splitlib.doctor(spark, "s3://…")')


def _mapping(storage_options: Any) -> Mapping[str, Any]:
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise ConfigError(  # The message omits the value, which may be a secret.
            f"storage_options is a {type(storage_options).__name__}, not a mapping.",
            hint="pass storage_options={'option': value}.",
        )
    return storage_options or {}


def _path(location: Any) -> str:
    if not isinstance(location, str | os.PathLike):
        raise ConfigError(f"A location is a path or a URI, not a {type(location).__name__}.")
    return os.fsdecode(location)


def findings(
    arguments: Mapping[str, Any],
    locations: Mapping[str, Mapping[str, Any]],
    start: Callable[[], SparkSession] | None = None,
    *,
    is_running: bool = False,
) -> Iterator[Finding]:
    """Yield the findings of all checks.

    Args:
        arguments: Settings that take precedence over Spark's configuration and the environment.
        locations: Directories to list, as paths or URIs, each with its storage options.
        start: Function that returns a Spark session. It is called after the checks of the machine.
            None means that no session is checked.
        is_running: Whether a Spark session runs already, so that Java need not be checked.
    """
    machine = Machine()
    yield from machine_findings(machine, is_running=is_running)
    yield from package_findings(own_requirements())
    spark, settings, storage = None, None, None
    if start is not None and machine.pysparks:
        from splitlib.spark.session import settings_of, storage_options_of

        try:
            spark = start()
            settings = settings_of(spark)
            storage = storage_options_of(spark) if locations else None
        except SplitlibError as error:
            advice = "fix the problems above, and look at Spark's output."
            yield Finding("session", PROBLEM, error.message, advice)
    yield from source_findings(arguments, locations, spark_conf=settings, session_storage=storage)
    if start is None:
        yield from path_findings(machine)
    elif spark is not None:
        yield from session_findings(spark)
