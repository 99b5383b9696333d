"""What a session knows of its storage, as options of the driver's own clients."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from splitlib.spark.jvm.hadoop_filesystem import HadoopFileSystem
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.session_settings import hadoop_settings, hadoop_settings_below
from splitlib.storage import OptionsByProtocol

_S3A = "fs.s3a."
_NAMES = (
    "access.key",
    "aws.credentials.provider",
    "connection.ssl.enabled",
    "endpoint",
    "endpoint.region",
    "path.style.access",
    "requester.pays.enabled",
    "secret.key",
    "session.token",
)
_AZURE = ("fs.azure.account.", "fs.azure.sas.fixed.token")
_GOOGLE = ("fs.gs.", "google.cloud.auth.")
# Settings of single accounts of Azure end with the host of the account.
_ACCOUNT = re.compile(r"\.[a-z0-9]+\.(?:dfs|blob)\.core\.[a-z.]+$")
_TENANT = re.compile(r"https://[^/]+/([^/]+)/oauth2/")
_CLIENT_CREDENTIALS = "ClientCredsTokenProvider"


def storage_options_of(spark: SparkSession) -> OptionsByProtocol:
    """Options of fsspec for what Spark itself reaches by Hadoop's settings.

    What fsspec cannot reach, such as HDFS without Hadoop's libraries, is reached by Spark's own
    filesystems, where the session is not one of Spark Connect.

    Of S3 ``fs.s3a.*``, of Azure ``fs.azure.*``, of Google ``fs.gs.*``. What is not set is left out,
    so that the client looks for it where it always does. Settings of single buckets,
    ``fs.s3a.bucket.*``, are not taken over.
    """
    by_protocol = {
        "s3": s3_options(_s3a_settings(spark)),
        "abfss": azure_options(_settings_below(spark, _AZURE)),
        "gs": google_options(_settings_below(spark, _GOOGLE)),
    }
    given = {name: options for name, options in by_protocol.items() if options}
    if internals_unavailable(spark) is not None:
        return OptionsByProtocol(given)
    return OptionsByProtocol(given, filesystem=HadoopFileSystem(spark))


def s3_options(settings: Mapping[str, str]) -> dict[str, Any]:
    """Options of s3fs for settings of Hadoop's S3A, whose names come without ``fs.s3a.``."""
    given = {name: value.strip() for name, value in settings.items() if value.strip()}
    options: dict[str, Any] = {}
    if given.get("access.key") and given.get("secret.key"):
        options |= {"key": given["access.key"], "secret": given["secret.key"]}
        if "session.token" in given:
            options["token"] = given["session.token"]
    elif "Anonymous" in given.get("aws.credentials.provider", ""):
        options["anon"] = True
    if endpoint := given.get("endpoint"):
        is_secure = given.get("connection.ssl.enabled", "true").lower() == "true"
        scheme = "https" if is_secure else "http"
        # the global endpoint says nothing, and would be taken for a server that is not AWS
        if endpoint.rpartition("/")[2] != "s3.amazonaws.com":
            options["endpoint_url"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
    if region := given.get("endpoint.region"):
        options["client_kwargs"] = {"region_name": region}
    if given.get("path.style.access", "").lower() == "true":
        options["config_kwargs"] = {"s3": {"addressing_style": "path"}}
    if given.get("requester.pays.enabled", "").lower() == "true":
        options["requester_pays"] = True
    return options


def azure_options(settings: Mapping[str, str]) -> dict[str, Any]:
    """Options of adlfs for settings of Hadoop's ABFS: a key, a signature, or a client's secret.

    A client of fsspec has one identity for all accounts. So if settings of several accounts differ,
    there are no options.
    """
    found: dict[str, set[str]] = {}
    for name, value in settings.items():
        general = _ACCOUNT.sub("", name).removeprefix("fs.azure.")
        found.setdefault(general, set()).add(value.strip())
    if any(len(values) > 1 for values in found.values()):
        return {}
    given = {name: value for name, (value,) in found.items() if value}
    if key := given.get("account.key"):
        return {"account_key": key}
    if signature := given.get("sas.fixed.token"):
        return {"sas_token": signature}
    is_client = given.get("account.oauth.provider.type", "").endswith(_CLIENT_CREDENTIALS)
    tenant = _TENANT.match(given.get("account.oauth2.client.endpoint", ""))
    client, secret = (given.get(f"account.oauth2.client.{name}") for name in ("id", "secret"))
    if is_client and tenant and client and secret:
        return {"tenant_id": tenant[1], "client_id": client, "client_secret": secret}
    return {}


def google_options(settings: Mapping[str, str]) -> dict[str, Any]:
    """Options of gcsfs for settings of Hadoop's connector: a key file, or nobody; the project."""
    given = {name: value.strip() for name, value in settings.items() if value.strip()}
    options: dict[str, Any] = {}
    if given.get("fs.gs.auth.type", "").upper() == "UNAUTHENTICATED":
        options["token"] = "anon"
    else:
        for prefix in ("fs.gs.", "google.cloud."):
            if file := given.get(f"{prefix}auth.service.account.json.keyfile"):
                options.setdefault("token", file)
    if project := given.get("fs.gs.project.id"):
        options["project"] = project
    return options


def _s3a_settings(spark: SparkSession) -> dict[str, str]:
    names = [_S3A + name for name in _NAMES]
    if internals_unavailable(spark) is None:
        found = hadoop_settings(spark, names)
    else:
        found = {name: value for name, value in _told_to_spark(spark) if name in names}
    return {name.removeprefix(_S3A): value for name, value in found.items()}


def _settings_below(spark: SparkSession, prefixes: Sequence[str]) -> dict[str, str]:
    """Settings by their names, of which the beginnings are known."""
    if internals_unavailable(spark) is None:
        return hadoop_settings_below(spark, prefixes)
    return {
        name: value for name, value in _told_to_spark(spark) if name.startswith(tuple(prefixes))
    }


def _told_to_spark(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """Hadoop's settings that were set in Spark, not in Hadoop's files; those that win come last."""
    known = spark.conf.getAll
    for prefix in ("spark.hadoop.", ""):
        for name, value in known.items():
            if name.startswith(f"{prefix}fs.") or name.startswith(f"{prefix}google."):
                yield name.removeprefix(prefix), value
