"""Translate storage options of fsspec into Hadoop options that apply to one scan only.

Hadoop caches one file system for each scheme and bucket, with the settings of its first use.
Without this cache, every opened file would get a new file system. Each takes about 0.2 seconds to
create, and its threads never end. So the paths of the scan belong to a
``ViewFileSystemOverloadScheme``, which is cheap and is not cached. It forwards to the same bucket
under a scheme that is unique to these settings, and Hadoop caches the file system of that scheme.
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
# Plans show scheme names, which contain a digest of the settings. The random key makes it
# impossible to find the credentials by comparing digests.
_OF_THIS_PROCESS: Final = secrets.token_bytes(32)


def s3a_settings(options: Mapping[str, Any]) -> dict[str, str]:
    """Translate options of s3fs into settings of S3A, without the prefix ``fs.s3a.bucket.NAME.``.

    Options without a counterpart in S3A are ignored. For those, the session's settings apply.
    """
    client = {k: v for k, v in (options.get("client_kwargs") or {}).items() if v is not None}
    # As in s3fs, its own options take precedence over ``client_kwargs``.
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
        # The region with which botocore signs requests to other servers than AWS by default.
        found["endpoint.region"] = "us-east-1"
    style = ((options.get("config_kwargs") or {}).get("s3") or {}).get("addressing_style", "auto")
    if endpoint or style != "auto":
        found["path.style.access"] = str(style != "virtual").lower()
    if _is(given.get("requester_pays"), True):
        found["requester.pays.enabled"] = "true"
    return found


class _Client(NamedTuple):
    """The Hadoop file system for a scheme."""

    protocol: str
    """Protocol of fsspec whose options apply."""
    name: str
    """Name of the Java class."""
    settings: Callable[[Mapping[str, Any], str], dict[str, str]]
    """Function from fsspec options and a bucket to Hadoop settings."""


def scan_options(
    storage: Mapping[str, Mapping[str, Any]], roots: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Return Hadoop options with which one scan accesses its buckets. Names are case-sensitive.

    Other scans of the same buckets are not affected. Two scans with equal settings and buckets get
    equal options. Spark does not log or show these options.

    Args:
        storage: Options of fsspec filesystems, by protocol. Without options for a protocol, the
            session's settings apply.
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
        # Hadoop's cache has to hold the inner file system. The view's own cache ends with the view,
        # which is created for each file.
        options["fs.viewfs.enable.inner.cache"] = "false"
    return options


def _reached(scheme: str, buckets: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the options for buckets of one scheme, each with its own settings.

    For a bucket without settings, the session's settings apply.
    """
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
    """Return the S3A settings for credentials."""
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
