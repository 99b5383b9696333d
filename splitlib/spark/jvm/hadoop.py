"""Read files with Hadoop's filesystems, and give each scan its own storage credentials."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile
from pyspark.sql import SparkSession

from splitlib.arrow.parquet_footer import Footer, footer, parse_footer
from splitlib.remote.calls import cached_property
from splitlib.spark.jvm.active_session import classes_of, errors_of_the_jvm
from splitlib.spark.jvm.gateway import JVM_ERRORS, Jvm, session_of
from splitlib.spark.jvm.java_handles import (
    FileStatus,
    HadoopConf,
    HadoopFiles,
    HadoopPath,
    JavaArray,
)
from splitlib.spark.jvm.listing import FILE_STATUS, STORE, hadoop_path, texts
from splitlib.spark.jvm.scala import scala_of
from splitlib.storage import AzureSettings, S3Settings

_ABFS: Final = "org.apache.hadoop.fs.azurebfs"
_S3A: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_PER_SCAN: Final = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
# Random key for digests of settings. Spark's plans show scheme names, which contain such a digest.
# Without the key, somebody could guess credentials and compare digests.
_OF_THIS_PROCESS: Final = secrets.token_bytes(32)


class _Client(NamedTuple):
    """The Hadoop filesystem for a URI scheme, such as ``s3a``."""

    protocol: str
    """fsspec protocol whose options apply to the scheme, such as ``s3``."""
    settings: type[S3Settings | AzureSettings]
    """Class that translates these options to Hadoop settings."""
    name: str
    """Full name of the filesystem's Java class."""


def scan_options(
    storage: Mapping[str, Mapping[str, Any]], roots: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Return the storage settings of one scan as Hadoop options with case-sensitive names.

    The options do not affect other scans of the same buckets. Two scans with equal settings and
    buckets get equal options. Spark neither logs nor shows these options.

    Args:
        storage: fsspec options by protocol. If a protocol has no options, the session's settings
            apply.
        roots: Pairs of scheme and bucket, from the paths of the scan.
    """
    found: dict[str, dict[str, dict[str, str]]] = {}
    for scheme, bucket in sorted(set(roots)):
        if client := _CLIENTS.get(scheme):
            settings = client.settings.from_fsspec(storage.get(client.protocol, {}))
            found.setdefault(scheme, {})[bucket] = settings.to_hadoop(bucket)
    options: dict[str, str] = {}
    for scheme, buckets in found.items():
        if any(buckets.values()):
            options |= _reached(scheme, buckets)
    if options:
        # Hadoop creates a new ViewFileSystem for each file. With the inner cache, each of them
        # would also create a new target filesystem. Without the inner cache, they use Hadoop's
        # global cache and share the target filesystem.
        options["fs.viewfs.enable.inner.cache"] = "false"
    return options


def _reached(scheme: str, buckets: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return Hadoop options that give each bucket of a scheme its own settings.

    For a bucket without settings, the session's settings apply.
    """
    options = {f"fs.{scheme}.impl": _PER_SCAN, f"fs.{scheme}.impl.disable.cache": "true"}
    for bucket, settings in buckets.items():
        inner = f"{scheme}-{_name_of(settings)}"
        options |= settings
        options[f"fs.viewfs.mounttable.{bucket}.linkFallback"] = f"{inner}://{bucket}/"
        options[f"fs.{inner}.impl"] = _CLIENTS[scheme].name
    return options


def _name_of(settings: Mapping[str, str]) -> str:
    text = json.dumps(sorted(settings.items())).encode()
    return hmac.new(_OF_THIS_PROCESS, text, hashlib.sha256).hexdigest()[:16]


_CLIENTS: Final = {
    **dict.fromkeys(("s3", "s3a", "s3n"), _Client("s3", S3Settings, _S3A)),
    "abfs": _Client("abfss", AzureSettings, f"{_ABFS}.AzureBlobFileSystem"),
    "abfss": _Client("abfss", AzureSettings, f"{_ABFS}.SecureAzureBlobFileSystem"),
}


class HadoopFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Read-only fsspec filesystem that uses the session's Hadoop filesystems and credentials.

    Paths include scheme and host, for example ``hdfs://namenode/t``.
    """

    cachable = False

    def __init__(self, spark: SparkSession) -> None:
        super().__init__()
        self._scala = scala_of(spark)
        self._session = session_of(spark)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List a directory.

        Args:
            path: The directory.
            detail: Whether to return dictionaries, as :meth:`info` does, instead of names.

        Raises:
            FileNotFoundError: if the directory does not exist.
            SplitlibError: if the filesystem raises another error.
        """
        with _errors_at(path):
            place, filesystem = self._place(path)
            found = self._entries(path, filesystem.listStatus(place))
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
            (found,) = self._entries(path.rpartition("/")[0], array)
        return found

    def read_at(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes of a file from ``start`` up to, but not including, ``end``."""
        with _errors_at(path):
            place, filesystem = self._place(path)
            stream = filesystem.open(place)
            try:
                stream.seek(start)
                return stream.readNBytes(end - start)
            finally:
                stream.close()

    def _open(self, path: str, mode: str = "rb", **options: Any) -> AbstractBufferedFile:
        if mode != "rb":
            raise NotImplementedError("This filesystem is read-only.")
        options.pop("autocommit", None)
        return _HadoopFile(self, path, mode, **options)

    @cached_property
    def _conf(self) -> HadoopConf:
        return self._session.sessionState().newHadoopConf()

    def _place(self, path: str) -> tuple[HadoopPath, HadoopFiles]:
        """Return Hadoop's ``Path`` and ``FileSystem`` for a path."""
        # Without the slash, the path of a root such as ``hdfs://namenode`` would be empty.
        place = hadoop_path(self._scala.jvm, f"{path}/")
        return place, place.getFileSystem(self._conf)

    def _entries(self, directory: str, statuses: JavaArray[FileStatus]) -> list[dict[str, Any]]:
        """Convert the ``FileStatus[]`` of a directory to fsspec's dictionaries."""
        scala = self._scala
        calling = scala.functions.calling
        found = scala.seq_of_array(statuses)
        columns = [
            scala.mapped(found, calling(FILE_STATUS, name))
            for name in ("getPath", "getLen", "getModificationTime", "isDirectory")
        ]
        rows = zip(*texts(scala, *columns), strict=True)
        # Listed paths include the host, even if ``directory`` does not. Hadoop removes repeated
        # slashes.
        above = re.sub("/+", "/", re.sub(f"^{STORE}", "", directory)).rstrip("/")
        listed = re.compile(f"^{STORE}{re.escape(above)}/")
        return [
            {
                # Replace by a function: in a replacement text, a backslash would start an escape.
                "name": listed.sub(lambda _: f"{directory.rstrip('/')}/", path),
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
    """Convert errors from JVM calls for a path to FileNotFoundError or SplitlibError."""
    try:
        with errors_of_the_jvm():
            yield
    except Exception as error:
        cause = error.__cause__
        if isinstance(cause, JVM_ERRORS) and "FileNotFoundException" in classes_of(cause):
            raise FileNotFoundError(path) from error
        raise


def read_footer(jvm: Jvm, conf: Any, path: str, size: int) -> Footer:
    """Return the footer of a Parquet file.

    Args:
        jvm: The session's JVM.
        conf: The session's Hadoop configuration.
        path: Path of the file, in the form of Hadoop's ``Path``.
        size: Size of the file, in bytes.

    Raises:
        Py4JJavaError: if the file cannot be read.
        pyarrow.ArrowException: if it is not a Parquet file.
    """
    return parse_footer(footer(size, partial(read_end, jvm, conf, path, size)))


def read_end(jvm: Jvm, conf: Any, path: str, size: int, length: int) -> bytes:
    """Return the last ``length`` bytes of a file. See :func:`read_footer` for the arguments.

    Raises:
        Py4JJavaError: if the file cannot be read.
    """
    place: HadoopPath = jvm.class_("org.apache.hadoop.fs.Path")(path)
    opening = place.getFileSystem(conf).openFile(place)
    # With a known length, S3A needs no HEAD request.
    stream = opening.opt("fs.option.openfile.length", str(size)).build().get()
    try:
        stream.seek(size - length)
        return bytes(stream.readNBytes(length))
    finally:
        stream.close()
