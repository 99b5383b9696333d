"""Read files with Hadoop's filesystems, and translate fsspec's options into Hadoop settings."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final, NamedTuple

from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile
from pyspark.sql import SparkSession

from splitlib.spark.jvm.errors import classes_of, errors_of_the_jvm
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.listing import FILE_STATUS, PATH, STORE, texts
from splitlib.spark.jvm.scala import scala_of
from splitlib.storage import connection_parts

_ABFS: Final = "org.apache.hadoop.fs.azurebfs"
_LOGIN: Final = "https://login.microsoftonline.com"
_S3A: Final = "org.apache.hadoop.fs.s3a"
_PER_SCAN: Final = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
_CLIENT_NAMES: Final = {
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "aws_session_token": "token",
    "endpoint_url": "endpoint_url",
    "use_ssl": "use_ssl",
}
# Spark's plans show scheme names, which contain a digest of the settings. The digest uses this
# random key, so that nobody can guess credentials and compare digests.
_OF_THIS_PROCESS: Final = secrets.token_bytes(32)


def abfs_settings(options: Mapping[str, Any], authority: str) -> dict[str, str]:
    """Translate options of adlfs into Hadoop settings for one container.

    Options without a counterpart in ABFS are ignored. If the options name another account, the
    result is empty, and the session's own settings apply.

    Args:
        options: Options of adlfs.
        authority: ``container@host``, as in the paths of the files.
    """
    container, _, host = authority.partition("@")
    given = {name: str(value) for name, value in options.items() if value is not None}
    if connection := given.get("connection_string"):
        told = connection_parts(connection)
        names = ("account_name", "account_key")
        given = {name: told[k] for name in names if (k := name.replace("_", "").upper()) in told}
        given |= {"sas_token": told.get("SHAREDACCESSSIGNATURE", "")}
    account = host.partition(".")[0]
    if not host or given.get("account_name", account) != account:
        return {}
    # Set each setting for the account and for the container, since ABFS prefers the more specific
    # name, and the session may have set either of them.
    return {
        f"fs.azure.{name}.{place}": value
        for name, value in _abfs_identity(given).items()
        for place in (host, f"{container}.{host}")
    }


def _abfs_identity(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for authentication, by the first method that adlfs would use."""
    if key := given.get("account_key"):
        return {
            "account.auth.type": "SharedKey",
            "account.keyprovider": f"{_ABFS}.services.SimpleKeyProvider",
            "account.key": key,
        }
    if signature := given.get("sas_token"):
        # If the session sets a SAS token provider class, ABFS uses the class and not this token.
        return {"account.auth.type": "SAS", "sas.fixed.token": signature.removeprefix("?")}
    tenant, client, secret = map(given.get, ("tenant_id", "client_id", "client_secret"))
    if not (tenant and client and secret):
        return {}
    return {
        "account.auth.type": "OAuth",
        "account.oauth.provider.type": f"{_ABFS}.oauth2.ClientCredsTokenProvider",
        "account.oauth2.client.endpoint": f"{_LOGIN}/{tenant}/oauth2/token",
        "account.oauth2.client.id": client,
        "account.oauth2.client.secret": secret,
    }


def s3a_settings(options: Mapping[str, Any]) -> dict[str, str]:
    """Translate options of s3fs into settings of S3A, without the prefix ``fs.s3a.bucket.NAME.``.

    Options without a counterpart in S3A are ignored, and the session's settings apply instead.
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
        # For servers other than AWS, botocore signs requests with this region by default.
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
    """Return Hadoop options with the storage settings of one scan. Names are case-sensitive.

    The options do not affect other scans of the same buckets. Two scans with equal settings and
    buckets get equal options. Spark neither logs nor shows these options.

    Args:
        storage: Options of fsspec filesystems, by protocol. Without options for a protocol, the
            session's settings apply.
        roots: Pairs of scheme and bucket, from the paths of the scan.
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
        # A view file system is created for each file, and its own cache ends with it. Without that
        # cache, Hadoop's global cache keeps the inner file system.
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


class HadoopFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Read-only fsspec filesystem over the session's Hadoop filesystems and credentials.

    Paths include scheme and host, for example ``hdfs://namenode/t``.

    Args:
        spark: The session whose Hadoop configuration is used.
    """

    cachable = False

    def __init__(self, spark: SparkSession) -> None:
        super().__init__()
        self._scala = scala_of(spark)
        self._session = spark._jsparkSession

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List a directory.

        Args:
            path: The directory.
            detail: Return dictionaries as from :meth:`info`; if false, names only.

        Raises:
            FileNotFoundError: if the directory does not exist.
            SplitlibError: if the filesystem raises another error.
        """
        with _errors_at(path):
            place, filesystem = self._place(path)
            found = self._told(path, filesystem.listStatus(place))
        return found if detail else [info["name"] for info in found]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return ``name``, ``type``, ``size`` and ``mtime`` (in seconds) of a file or directory.

        Raises:
            FileNotFoundError: if the path does not exist.
            SplitlibError: if the filesystem raises another error.
        """
        with _errors_at(path):
            place, filesystem = self._place(path)
            array = self._scala.jvm.array_of(FILE_STATUS, [filesystem.getFileStatus(place)])
            (found,) = self._told(path.rpartition("/")[0], array)
        return found

    def read_at(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes of a file from ``start`` up to, but not including, ``end``."""
        with _errors_at(path):
            place, filesystem = self._place(path)
            stream = filesystem.open(place)
            try:
                stream.seek(start)
                return bytes(stream.readNBytes(end - start))
            finally:
                stream.close()

    def _open(self, path: str, mode: str = "rb", **options: Any) -> AbstractBufferedFile:
        if mode != "rb":
            raise NotImplementedError("This filesystem is read-only.")
        options.pop("autocommit", None)
        return _HadoopFile(self, path, mode, **options)

    @cached_property
    def _conf(self) -> Any:
        return self._session.sessionState().newHadoopConf()

    def _place(self, path: str) -> tuple[Any, Any]:
        """Return Hadoop's ``Path`` and its ``FileSystem``."""
        # Without the slash, the path of a root such as ``hdfs://namenode`` would be empty.
        place = self._scala.jvm.class_(PATH)(f"{path}/")
        return place, place.getFileSystem(self._conf)

    def _told(self, directory: str, statuses: Any) -> list[dict[str, Any]]:
        """Convert the ``FileStatus[]`` of a directory to fsspec's dictionaries."""
        scala = self._scala
        calling = scala.functions.calling
        found = scala.seq_of_array(statuses)
        columns = [
            found.map(calling(FILE_STATUS, name))
            for name in ("getPath", "getLen", "getModificationTime", "isDirectory")
        ]
        rows = zip(*texts(scala, *columns), strict=True)
        # Listed paths have a host, even if the location of the directory does not.
        above = re.sub(f"^{STORE}", "", directory).rstrip("/")
        return [
            {
                "name": re.sub(f"^{STORE}{re.escape(above)}/", f"{directory.rstrip('/')}/", path),
                "size": int(size),
                "type": "directory" if is_directory == "true" else "file",
                "mtime": int(modified) / 1000,
            }
            for path, size, modified, is_directory in rows
        ]


class _HadoopFile(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    def _fetch_range(self, start: int, end: int) -> bytes:
        read: bytes = self.fs.read_at(self.path, start, end)
        return read


@contextmanager
def _errors_at(path: str) -> Iterator[None]:
    """Convert errors of JVM calls for a path to FileNotFoundError or SplitlibError."""
    try:
        with errors_of_the_jvm():
            yield
    except Exception as error:
        cause = error.__cause__
        if isinstance(cause, JVM_ERRORS) and "FileNotFoundException" in classes_of(cause):
            raise FileNotFoundError(path) from error
        raise
