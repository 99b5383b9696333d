"""Listing directories of data files on any fsspec filesystem, by Hive's and Spark's rules."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import PurePath
from typing import Any, NamedTuple

import fsspec
import pyarrow as pa

from splitlib.errors import (
    ConnectorNotInstalled,
    CorruptMetadata,
    MissingPartition,
    SourceError,
    SourceUnavailable,
)
from splitlib.model import FILE_SCHEMA

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# Options of Spark's file sources by which a table takes only some of the files it holds.
SELECTING_OPTIONS = frozenset({"pathglobfilter", "modifiedbefore", "modifiedafter"})
_MODIFIED = ("mtime", "LastModified", "last_modified", "updated", "modified")


class StoredFile(NamedTuple):
    """One file as listed."""

    path: str
    size: int
    modified: int
    """Milliseconds since the epoch, 0 = unknown."""


class Storage:
    """The filesystems behind the locations of a table. Thread-safe.

    Args:
        options: Options of fsspec's filesystem, as in ``fsspec.filesystem(protocol, **options)``.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options = dict(options or {})
        self._filesystems: dict[str, Any] = {}
        self._lock = threading.Lock()

    def filesystem(self, location: str) -> tuple[Any, str]:
        """The filesystem of ``location`` and the path in it.

        Raises:
            ConnectorNotInstalled: if the package for the protocol is missing.
            CorruptMetadata: for no path at all, which fsspec takes for the working directory.
        """
        path = local_path(location or "")
        if not path:
            raise CorruptMetadata(f"{location!r} is no location of files.")
        scheme = _SCHEME.match(path)
        protocol = scheme[1] if scheme else "file"
        with self._lock:
            if protocol not in self._filesystems:
                # Filesystem objects are shared in the process and remember listings: what another
                # user of fsspec listed an hour ago is not what the table holds now.
                options = {"use_listings_cache": False, **self._options}
                try:
                    made = fsspec.filesystem(protocol, **options)
                except (ImportError, ValueError) as error:
                    raise ConnectorNotInstalled(
                        f"No filesystem for {protocol}:// can be loaded: {error}",
                        hint="for s3: pip install 'splitlib[s3]'.",
                    ) from error
                self._filesystems[protocol] = made
            return self._filesystems[protocol], path

    def files(self, location: str) -> list[StoredFile]:
        """The data files directly in a directory, by name; sub-directories are not looked into.

        Raises:
            MissingPartition: if there is no such directory.
        """
        return [
            StoredFile(f"{base}/{name}", int(info["size"]), _modified(info))
            for base, name, info in self._children(location, "file")
            if is_data(name)
        ]

    def files_below(self, location: str) -> tuple[list[StoredFile], int]:
        """The data files in a directory and below it, and how many listings that took.

        Raises:
            MissingPartition: if there is no such directory.
            SourceError: if a symbolic link leads back to a directory above it.
        """
        found: list[StoredFile] = []
        listings, pending = 0, [location]
        while pending:
            here = pending.pop()
            found += self.files(here)
            listings += 2
            below = [f"{here.rstrip('/')}/{name}" for name in self.directories(here)]
            for directory in below:
                self._refuse_cycle(directory)
            pending += reversed(below)
        return found, listings

    def directories(self, location: str) -> list[str]:
        """Names of the directories directly in a directory, sorted, without hidden ones.

        Raises:
            MissingPartition: if there is no such directory.
        """
        return [name for _, name, _ in self._children(location, "directory") if is_data(name)]

    def _children(self, location: str, kind: str) -> list[tuple[str, str, dict[str, Any]]]:
        fs, path = self.filesystem(location)
        base = path.rstrip("/")
        try:
            infos = fs.ls(path, detail=True)
        except FileNotFoundError as error:
            raise MissingPartition(f"There is no directory {location!r}.") from error
        itself = fs._strip_protocol(path)
        found = [
            (base, _name_in(itself, info["name"]), info)
            for info in (_followed(fs, info) for info in infos)
            # an object store may list the marker of the directory among its children
            if info["name"].rstrip("/") != itself
        ]
        of_kind = (child for child in found if child[2]["type"] == kind)
        return sorted(of_kind, key=lambda child: child[1])

    def _refuse_cycle(self, directory: str) -> None:
        fs, path = self.filesystem(directory)
        if getattr(fs, "local_file", False) and os.path.islink(path):
            target = os.path.realpath(path)
            if any(os.path.realpath(above) == target for above in PurePath(path).parents):
                raise SourceError(f"The link {directory!r} leads back to a directory above it.")


def _name_in(directory: str, path: str) -> str:
    """The name of what a listing of a directory has told, without the directory.

    Filesystems differ in what stands before the path, so only its end is compared.

    Raises:
        SourceUnavailable: if it is in another directory: the listing is the answer to another one.
    """
    above, _, name = path.rstrip("/").rpartition("/")
    above, directory = above.strip("/"), directory.strip("/")
    if not (above.endswith(directory) or directory.endswith(above)):
        raise SourceUnavailable(f"Asked for {directory!r}, the storage has listed {path!r}.")
    return name


def _followed(fs: Any, info: dict[str, Any]) -> dict[str, Any]:
    """An entry of a directory, or what it leads to if it is a symbolic link.

    A link that leads nowhere is left as it is, neither file nor directory: Hadoop's local
    filesystem does not list it, either.
    """
    if not info.get("islink") and info["type"] != "link":
        return info
    try:
        target: dict[str, Any] = fs.info(info["name"])
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return info
    return target


def local_path(location: str) -> str:
    """``file:/a``, ``file:///a`` as ``/a``; anything else as it is. Nothing is percent-decoded.

    A catalog spells locations as Hadoop's ``Path`` does, where ``%20`` is three characters.
    """
    if location[:5].lower() != "file:":
        return location
    rest = location[5:]
    return "/" + rest.lstrip("/") if rest.startswith("///") else re.sub(r"^//[^/]*", "", rest)


def is_data(name: str) -> bool:
    """Whether Spark looks at a file or directory of this name."""
    hidden = name.startswith(".") or (name.startswith("_") and "=" not in name)
    return not hidden and not name.endswith("._COPYING_")


def file_batch(files: Iterable[tuple[int, StoredFile]]) -> pa.RecordBatch:
    """Pairs of partition row and file as a batch of :data:`splitlib.model.FILE_SCHEMA`."""
    rows = [(f.path, f.size, f.modified, partition) for partition, f in files]
    columns = zip(*rows, strict=True) if rows else ((),) * len(FILE_SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, FILE_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)


def _modified(info: Mapping[str, Any]) -> int:
    for key in _MODIFIED:
        value = info.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    return 0
