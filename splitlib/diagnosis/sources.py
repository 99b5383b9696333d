"""Check settings, named catalogs, storage and the clock.

Each check has a deadline.
"""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from splitlib.config import SplitConfig, resolve_settings
from splitlib.diagnosis.machine import GOOD, NOTE, PROBLEM, Finding
from splitlib.errors import AccessDenied, ConfigError, SplitlibError, did_you_mean, error_context
from splitlib.redaction import remember
from splitlib.registry import connector_class, connector_names, named_catalogs
from splitlib.remote.calls import run_bounded
from splitlib.spi import SupportsTableNames
from splitlib.storage import OptionsByProtocol, Storage, only_within

DEADLINE_SECONDS: Final = 20.0
"""Maximum time of one check, in seconds."""
_MOST_SKEW: Final = 300.0
"""Clock difference at which servers may reject requests, in seconds. S3 rejects requests that are
15 minutes off. Tokens of other clouds are valid for a few minutes only."""
_NOTED_SKEW: Final = 30.0
_CREDENTIALS: Final = {
    "s3": ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "abfss": ("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_CLIENT_ID"),
}
_SAME: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "az": "abfss"}


def time_of_server(url: str) -> float | None:
    """Return a server's time, from the ``Date`` header of its response to a HEAD request.

    The time is in seconds since the epoch, or None if the header is missing. The response may have
    any status.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=DEADLINE_SECONDS)
    try:
        connection.request("HEAD", parts.path or "/")
        date = connection.getresponse().getheader("Date")
    finally:
        connection.close()
    return None if date is None else parsedate_to_datetime(date).timestamp()


class Clock(NamedTuple):
    """Functions that return local time and server time. Tests pass their own."""

    now: Callable[[], float] = time.time
    """Function that returns the local time, in seconds since the epoch."""
    of_server: Callable[[str], float | None] = time_of_server
    """Function that returns the time of the server at a URL, or None if it is not reported."""


def source_findings(
    arguments: Mapping[str, Any],
    locations: Mapping[str, Mapping[str, Any]],
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    spark_conf: Mapping[str, str] | None = None,
    session_storage: OptionsByProtocol | None = None,
) -> Iterator[Finding]:
    """Yield the findings about settings, named catalogs, locations and the clock.

    Args:
        arguments: Settings that take precedence over the environment.
        locations: Directories to list, as paths or URIs, each with its storage options.
        environ: Environment variables.
        clock: Functions that return local time and server time.
        spark_conf: Settings ``spark.splitlib.*`` of a Spark session; None without a session.
        session_storage: The session's storage options, for locations without options of their own.
    """
    environ = os.environ if environ is None else environ
    conf = spark_conf or {}
    try:
        settings = resolve_settings(arguments, spark_conf=conf, environ=environ)
        config = SplitConfig(**{setting.name: setting.value for setting in settings})
        catalogs = named_catalogs(conf, environ)
    except ConfigError as error:
        yield Finding("settings", PROBLEM, error.message, error.hint or "")
        return
    changed = [f"{s.name} = {s.value} ({s.source})" for s in settings if s.source != "default"]
    yield Finding("settings", GOOD, f"Settings: {', '.join(changed) or 'all have defaults'}.")
    quick = replace(config, call_deadline_seconds=DEADLINE_SECONDS, retry_attempts=1)
    if not catalogs:
        places = "in the environment or in a file"
        more = " Spark's configuration may name others."
        if spark_conf is not None:
            places, more = "in Spark's configuration, in the environment or in a file", ""
        advice = (
            "to name one, set SPLITLIB_CATALOG__LAKE__CONNECTOR and SPLITLIB_CATALOG__LAKE__URI."
        )
        yield Finding("catalogs", NOTE, f"No catalog is named {places}.", f"{advice}{more}")
    statuses, used = set[str](), dict(locations)
    for name, options in catalogs.items():
        remember(name, options)
        found = catalog_finding(name, options, quick)
        statuses.add(found.status)
        yield found
    for location, storage in locations.items():
        if not storage and session_storage is not None:
            used[location] = session_storage.get(_scheme(location), {})
        remember(location, {"storage_options": used[location]})
        found = _location(location, storage, quick, environ, session_storage)
        statuses.add(found.status)
        yield found
    urls = _endpoints(catalogs, used, environ)
    yield from _clocks(urls, clock or Clock(), NOTE if statuses == {GOOD} else PROBLEM)


def catalog_finding(name: str, options: Mapping[str, Any], config: SplitConfig) -> Finding:
    """Check that a named catalog responds, by requesting the name of one table."""
    check, own = f"catalog {name}", dict(options)
    connector = own.pop("connector", None)
    if connector is None:
        text = f"Catalog {name} does not define a connector."
        advice = f"set SPLITLIB_CATALOG__{name.upper()}__CONNECTOR to one of "
        return Finding(check, PROBLEM, text, f"{advice}{', '.join(connector_names())}.")
    try:
        catalog: Any = connector_class(str(connector))
    except SplitlibError as error:
        hint = error.hint or did_you_mean(str(connector), connector_names())
        return Finding(check, PROBLEM, error.message, hint)
    if not isinstance(catalog, SupportsTableNames):
        text = f"It is unknown whether {name} answers: connector {connector} cannot list tables."
        return Finding(check, NOTE, text, f"try: splitlib partitions {name}.NAME")

    def first_table() -> list[tuple[str, str]]:
        with only_within(config.allowed_locations), error_context(connector=str(connector)):
            return list(islice(catalog.table_names(None, own), 1))

    try:
        found = run_bounded(first_table, config)
    except SplitlibError as error:
        return Finding(check, PROBLEM, error.message, error.hint or _advice(error))
    shown = f"its first table is {'.'.join(found[0])}" if found else "it has no tables"
    return Finding(check, GOOD, f"The {connector} catalog {name} answers, and {shown}.")


def _scheme(location: str) -> str:
    """Return a location's scheme, as fsspec's protocol name; '' for a local path."""
    scheme = location.partition("://")[0].lower() if "://" in location else ""
    return _SAME.get(scheme, scheme)


def _location(
    location: str,
    options: Mapping[str, Any],
    config: SplitConfig,
    environ: Mapping[str, str],
    session: OptionsByProtocol | None,
) -> Finding:
    scheme = _scheme(location)
    given = [name for name in _CREDENTIALS.get(scheme, ()) if environ.get(name)]
    if options:
        by = "the given storage options"
    elif any(name.partition("://")[0] == scheme for name in session or ()):
        by = "the storage settings of the session"
    elif given:
        by = f"{', '.join(given)} of the environment"
    else:
        by = "the credentials that this machine has by default"
    used = f", with {by}" if scheme in _CREDENTIALS else ""

    def level() -> tuple[int, int]:
        with only_within(config.allowed_locations), error_context(connector="files"):
            found = Storage(options or session).level(location)
            return len(found.directories), len(found.files)

    try:
        directories, files = run_bounded(level, config)
    except SplitlibError as error:
        advice = error.hint or _advice(error)
        return Finding(
            "storage", PROBLEM, f"{location} cannot be listed{used}: {error.message}", advice
        )
    text = f"{location} has {directories:,} directories and {files:,} files{used}."
    return Finding("storage", GOOD, text)


def _advice(error: SplitlibError) -> str:
    if isinstance(error, AccessDenied):
        return "use credentials with permission to list. Permission to read files is not enough."
    return "check the address, and whether this machine can reach it."


def _endpoints(
    catalogs: Mapping[str, Mapping[str, Any]],
    locations: Mapping[str, Mapping[str, Any]],
    environ: Mapping[str, str],
) -> list[str]:
    """Return the distinct URLs of the servers with which the local clock is compared.

    These servers may reject requests if the clocks differ.
    """
    found = [environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")]
    for options in [*catalogs.values(), *({"storage_options": o} for o in locations.values())]:
        storage = options.get("storage_options")
        storage = storage if isinstance(storage, Mapping) else {}
        client = storage.get("client_kwargs")
        client = client if isinstance(client, Mapping) else {}
        found += [options.get("uri"), options.get("s3.endpoint")]
        found += [storage.get("endpoint_url"), client.get("endpoint_url")]
    urls = [url for url in found if isinstance(url, str)]
    for location in locations:
        scheme, authority = _parts(location)[:2]
        match _SAME.get(scheme.lower(), scheme.lower()):
            case "s3" if not urls:
                urls.append("https://s3.amazonaws.com")
            case "gs":
                urls.append("https://storage.googleapis.com")
            case "abfss" if "." in authority:
                urls.append(f"https://{authority.rpartition('@')[2]}")
    return list(dict.fromkeys(url for url in urls if _parts(url).scheme in ("http", "https")))


def _parts(url: str) -> SplitResult:
    """Return the parts of a URL; empty for an invalid URL, which another check reports."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _clocks(urls: list[str], clock: Clock, no_answer: str) -> Iterator[Finding]:
    """Compare the clock with servers. ``no_answer`` is the status if a server does not answer.

    A proxy may refuse this request even if all catalogs and locations answer.
    """
    if not urls:
        text = "The clock was not checked: no store or catalog with an HTTP address is configured."
        yield Finding("clock", NOTE, text, "to compare it, name a location: splitlib doctor s3://…")
    for url in urls:
        host = urlsplit(url).hostname
        before = clock.now()
        try:
            of_server = clock.of_server(url)
        except (OSError, ValueError, http.client.HTTPException) as error:
            text = f"{host} does not answer: {error or type(error).__name__}."
            yield Finding("clock", no_answer, text, "check the address and the network.")
            continue
        if of_server is None:
            yield Finding("clock", NOTE, f"{host} does not report its time.", "compare it by hand.")
            continue
        now = (before + clock.now()) / 2
        off = now - of_server
        text = f"The clock is {abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} {host}."
        if abs(off) < _NOTED_SKEW:
            yield Finding("clock", GOOD, f"The clock agrees with {host}.")
        elif abs(off) < _MOST_SKEW:
            yield Finding("clock", NOTE, text, "synchronize it, for example with NTP.")
        else:
            text += " Stores refuse signed requests with a wrong time."
            yield Finding("clock", PROBLEM, text, "synchronize it, for example with NTP.")
