"""Make Hadoop's filesystems available to fsspec, for schemes without an fsspec implementation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile
from pyspark.sql import SparkSession

from splitlib.spark.jvm.errors import classes_of, errors_of_the_jvm
from splitlib.spark.jvm.file_statuses import FILE_STATUS
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.listing import PATH, STORE, texts
from splitlib.spark.jvm.scala import scala_of


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
        # The slash keeps the path of a root such as ``hdfs://namenode`` from being empty.
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
    """Convert errors of JVM calls about a path."""
    try:
        with errors_of_the_jvm():
            yield
    except Exception as error:
        cause = error.__cause__
        if isinstance(cause, JVM_ERRORS) and "FileNotFoundException" in classes_of(cause):
            raise FileNotFoundError(path) from error
        raise
