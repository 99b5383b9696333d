"""What a session knows of its storage, as options of the driver's own clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.session_settings import hadoop_settings
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


def storage_options_of(spark: SparkSession) -> OptionsByProtocol:
    """Options of fsspec for what Spark itself reaches by Hadoop's settings; of S3, ``fs.s3a.*``.

    What is not set is left out, so that the client looks for it where it always does. Settings of
    single buckets, ``fs.s3a.bucket.*``, are not taken over.
    """
    options = s3_options(_s3a_settings(spark))
    return OptionsByProtocol({"s3": options} if options else {})


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


def _s3a_settings(spark: SparkSession) -> dict[str, str]:
    names = [_S3A + name for name in _NAMES]
    if internals_unavailable(spark) is None:
        found = hadoop_settings(spark, names)
    else:  # what was set in Spark, and not in Hadoop's files
        known = spark.conf.getAll
        found = {n: known[k] for n in names for k in ("spark.hadoop." + n, n) if k in known}
    return {name.removeprefix(_S3A): value for name, value in found.items()}
