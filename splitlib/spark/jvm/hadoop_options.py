"""What one scan reaches its storage with: options of fsspec as Hadoop's, for this scan alone.

Hadoop keeps one file system for each scheme and bucket, made with whatever settings the first who
asked had. Without that cache every file would be opened by a file system of its own, each of
which takes a fifth of a second and keeps its threads for good. So the scan's paths are those of a
``ViewFileSystemOverloadScheme``, which is not kept and costs little, and which looks into the same
bucket under a scheme that only scans with these very settings have.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from splitlib.spark.jvm.abfs_settings import abfs_settings

_ABFS: Final = "org.apache.hadoop.fs.azurebfs"
_S3A: Final = "org.apache.hadoop.fs.s3a"
_PER_SCAN: Final = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
_CLIENT_NAMES: Final = {
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "aws_session_token": "token",
    "endpoint_url": "endpoint_url",
    "use_ssl": "use_ssl",
}
# The names that plans show are not to tell anything of the settings, not even by trying out.
_OF_THIS_PROCESS: Final = secrets.token_bytes(32)


def s3a_settings(options: Mapping[str, Any]) -> dict[str, str]:
    """Options of s3fs as settings of S3A, named as behind ``fs.s3a.bucket.NAME.``.

    What S3A has no counterpart of is left out: a scan has that from its session.
    """
    client = {k: v for k, v in (options.get("client_kwargs") or {}).items() if v is not None}
    # s3fs has its own options win
    given = {name: client[key] for key, name in _CLIENT_NAMES.items() if key in client}
    given |= {name: value for name, value in options.items() if value is not None}
    given.setdefault("key", given.get("username"))
    given.setdefault("secret", given.get("password"))
    found = _identity(given)
    if endpoint := given.get("endpoint_url"):
        found["endpoint"] = str(endpoint)
        found["connection.ssl.enabled"] = str(not str(endpoint).startswith("http://")).lower()
    elif _is(given.get("use_ssl"), False):
        found["connection.ssl.enabled"] = "false"
    if region := client.get("region_name"):
        found["endpoint.region"] = str(region)
    elif endpoint:
        # what botocore signs for where a server is not AWS, and is told no region
        found["endpoint.region"] = "us-east-1"
    style = ((options.get("config_kwargs") or {}).get("s3") or {}).get("addressing_style", "auto")
    if endpoint or style != "auto":
        found["path.style.access"] = str(style != "virtual").lower()
    if _is(given.get("requester_pays"), True):
        found["requester.pays.enabled"] = "true"
    return found


class _Client(NamedTuple):
    """Hadoop's file system of a scheme."""

    protocol: str
    """fsspec's."""
    name: str
    """Of its class."""
    settings: Callable[[Mapping[str, Any], str], dict[str, str]]
    """Its settings for a bucket, from options of fsspec's filesystem."""


def scan_options(
    storage: Mapping[str, Mapping[str, Any]], roots: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Options of a scan that reaches buckets by settings of its own; their names know case.

    They are none that Spark writes anywhere, and change nothing for other scans of these buckets.
    Two scans have the same options if they have the same settings and buckets.

    Args:
        storage: Options of fsspec's filesystems, by protocol; none = as the session reaches them.
        roots: Scheme and bucket of the paths.
    """
    found: dict[str, dict[str, dict[str, str]]] = {}
    for scheme, bucket in sorted(set(roots)):
        if client := _CLIENTS.get(scheme):
            settings = client.settings(storage.get(client.protocol, {}), bucket)
            found.setdefault(scheme, {})[bucket] = settings
    options: dict[str, str] = {}
    for scheme, buckets in found.items():
        if any(buckets.values()):
            options |= _reached(scheme, buckets)
    if options:
        # kept by Hadoop, and not by the one that is not kept itself
        options["fs.viewfs.enable.inner.cache"] = "false"
    return options


def _reached(scheme: str, buckets: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Options by which buckets are reached, each by its settings; none = as the session does."""
    options = {f"fs.{scheme}.impl": _PER_SCAN, f"fs.{scheme}.impl.disable.cache": "true"}
    for bucket, settings in buckets.items():
        inner = f"{scheme}-{_name_of(settings)}"
        options |= settings
        options[f"fs.viewfs.mounttable.{bucket}.linkFallback"] = f"{inner}://{bucket}/"
        options[f"fs.{inner}.impl"] = _CLIENTS[scheme].name
    return options


def _of_bucket(options: Mapping[str, Any], bucket: str) -> dict[str, str]:
    settings = s3a_settings(options)
    return {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in settings.items()}


def _identity(given: Mapping[str, Any]) -> dict[str, str]:
    """The settings that say who asks."""
    if _is(given.get("anon"), True):
        return {"aws.credentials.provider": f"{_S3A}.AnonymousAWSCredentialsProvider"}
    key, secret, token = (given.get(name) for name in ("key", "secret", "token"))
    if not key or not secret:
        return {}
    kind = "Temporary" if token else "Simple"
    found = {
        "access.key": str(key),
        "secret.key": str(secret),
        "aws.credentials.provider": f"{_S3A}.{kind}AWSCredentialsProvider",
    }
    return found | ({"session.token": str(token)} if token else {})


def _is(value: Any, wanted: bool) -> bool:
    return str(value).lower() == str(wanted).lower()


def _name_of(settings: Mapping[str, str]) -> str:
    told = json.dumps(sorted(settings.items())).encode()
    return hmac.new(_OF_THIS_PROCESS, told, hashlib.sha256).hexdigest()[:16]


_CLIENTS: Final = {
    **dict.fromkeys(("s3", "s3a", "s3n"), _Client("s3", f"{_S3A}.S3AFileSystem", _of_bucket)),
    "abfs": _Client("abfss", f"{_ABFS}.AzureBlobFileSystem", abfs_settings),
    "abfss": _Client("abfss", f"{_ABFS}.SecureAzureBlobFileSystem", abfs_settings),
}
