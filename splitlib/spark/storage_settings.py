"""Translate a session's Hadoop settings for storage into options of fsspec filesystems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession

from splitlib.spark.jvm.active_session import hadoop_settings
from splitlib.spark.jvm.hadoop import HadoopFileSystem
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.storage import OptionsByProtocol

_S3A = "fs.s3a."
_S3A_BUCKET = "fs.s3a.bucket."
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
_AZURE = "fs.azure."
# Prefixes of settings whose names contain a bucket, an account or more parts. All settings with
# these prefixes are read.
_BELOW = (
    _S3A_BUCKET,
    "fs.azure.account.",
    "fs.azure.sas.fixed.token",
    "fs.gs.",
    "google.cloud.auth.",
)
_OF_A_BUCKET = re.compile(rf"{re.escape(_S3A_BUCKET)}(.+)\.({'|'.join(map(re.escape, _NAMES))})")
# Credential providers that use access.key and secret.key.
_WITH_KEYS = ("SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider")
# Settings of a single Azure account end with the account's host.
_ACCOUNT = re.compile(r"\.([a-z0-9]+)\.(?:dfs|blob)\.core\.[a-z.]+$")
_TENANT = re.compile(r"https://[^/]+/([^/]+)/oauth2/")
_CLIENT_CREDENTIALS = "ClientCredsTokenProvider"


def storage_options_of(spark: SparkSession) -> OptionsByProtocol:
    """Return the fsspec options that correspond to the session's Hadoop settings.

    The options for S3 come from ``fs.s3a.*``, for Azure from ``fs.azure.*``, and for Google from
    ``fs.gs.*``. Options that are not set are omitted, so that the client applies its defaults. S3
    buckets and Azure accounts with their own settings get their own options.

    For schemes that fsspec does not support, such as HDFS without Hadoop's libraries, a classic
    session provides its Hadoop filesystems.
    """
    settings = _settings(spark)
    general, of_accounts = _by_account(settings)
    found = {
        "s3": s3_options(_below(_S3A, settings)),
        "abfss": azure_options(general),
        "gs": google_options(settings),
    }
    found = {name: options for name, options in found.items() if options}
    found |= {f"s3://{bucket}": s3_options(own) for bucket, own in _by_bucket(settings).items()}
    found |= {f"abfss://{name}": azure_options(own) for name, own in of_accounts.items()}
    if internals_unavailable(spark) is not None:
        return OptionsByProtocol(found)
    return OptionsByProtocol(found, filesystem=HadoopFileSystem(spark))


def _by_bucket(settings: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the settings of each S3 bucket that has its own, which override the general ones."""
    general = _below(_S3A, settings)
    found: dict[str, dict[str, str]] = {}
    for name, value in settings.items():
        if own := _OF_A_BUCKET.fullmatch(name):
            found.setdefault(own[1], dict(general))[own[2]] = value
    return found


def _by_account(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return Azure settings for all accounts, and settings of each account that has its own."""
    of_azure = _below(_AZURE, settings)
    general = {name: value for name, value in of_azure.items() if not _ACCOUNT.search(name)}
    found: dict[str, dict[str, str]] = {}
    for name, value in of_azure.items():
        if own := _ACCOUNT.search(name):
            found.setdefault(own[1], dict(general))[name[: own.start()]] = value
    return general, found


def s3_options(settings: Mapping[str, str]) -> dict[str, Any]:
    """Translate S3A settings, given without the prefix ``fs.s3a.``, into options of s3fs."""
    given = {name: value.strip() for name, value in settings.items() if value.strip()}
    options: dict[str, Any] = {}
    provider = given.get("aws.credentials.provider", "")
    has_keys = given.get("access.key") and given.get("secret.key")
    if has_keys and (not provider or any(kind in provider for kind in _WITH_KEYS)):
        options |= {"key": given["access.key"], "secret": given["secret.key"]}
        if "session.token" in given:
            options["token"] = given["session.token"]
    elif "Anonymous" in provider:
        options["anon"] = True
    if endpoint := given.get("endpoint"):
        is_secure = given.get("connection.ssl.enabled", "true").lower() == "true"
        scheme = "https" if is_secure else "http"
        # The global endpoint is the default. If it is set, s3fs treats it as a server other than
        # AWS.
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
    """Translate ABFS credentials into options of adlfs: account key, SAS token or client secret.

    The names of the settings lack the prefix ``fs.azure.`` and the account.
    """
    given = {name: value.strip() for name, value in settings.items() if value.strip()}
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
    """Translate settings of Hadoop's GCS connector into options of gcsfs.

    The options are the project, and either a key file or anonymous access.
    """
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


def _settings(spark: SparkSession) -> dict[str, str]:
    """Return the session's Hadoop settings for storage."""
    names = [_S3A + name for name in _NAMES]
    if internals_unavailable(spark) is None:
        return hadoop_settings(spark, names, _BELOW)
    told = dict(_told_to_spark(spark))
    return {n: value for n, value in told.items() if n in names or n.startswith(_BELOW)}


def _below(prefix: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with a prefix, which is removed from their names."""
    begin = len(prefix)
    return {name[begin:]: value for name, value in settings.items() if name.startswith(prefix)}


def _told_to_spark(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """Yield Hadoop settings that are set in Spark. For repeated names, the last value applies."""
    known = spark.conf.getAll
    for prefix in ("spark.hadoop.", ""):
        for name, value in known.items():
            if name.startswith(f"{prefix}fs.") or name.startswith(f"{prefix}google."):
                yield name.removeprefix(prefix), value
