"""The filesystems of fsspec behind locations, and what is in one of their directories."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from operator import itemgetter
from pathlib import PurePath
from typing import Any

import fsspec
from fsspec.registry import known_implementations

from splitlib.errors import ConnectorNotInstalled, MissingPartition, SourceError, SourceUnavailable
from splitlib.storage.confirmed import KEYS_PER_PAGE, confirm_end, no_next_page
from splitlib.storage.files import Level, StoredFile, is_data
from splitlib.storage.forks import in_forks_of_this
from splitlib.storage.locations import Location, local_path, located

# How many paths of one walk may lead to the same directory. Each is listed again.
_MOST_LINKS = 100
_MODIFIED = ("mtime", "LastModified", "last_modified", "updated", "modified")


class OptionsByProtocol(dict[str, Mapping[str, Any]]):
    """Options of the filesystems of some of fsspec's protocols; the others have none.

    Args:
        options: By protocol, and by :attr:`splitlib.storage.locations.Location.store` where those
            of a bucket or an account are others.
        filesystem: An fsspec filesystem of whole locations, for schemes that fsspec does not know
            and those of Hadoop.
    """

    def __init__(
        self, options: Mapping[str, Mapping[str, Any]] | None = None, *, filesystem: Any = None
    ) -> None:
        super().__init__(options or {})
        self.filesystem = filesystem


class Filesystems:
    """Makes fsspec's filesystems with some options, each once. Thread-safe.

    Args:
        options: As of ``fsspec.filesystem(protocol, **options)``, or :class:`OptionsByProtocol`.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._forget()
        in_forks_of_this(self, Filesystems._forget)

    def _forget(self) -> None:
        # A filesystem's threads are not in a forked process, and its lock may be held there.
        self._made: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    def group_of(self, place: Location) -> str:
        """What tells locations apart whose options may be others."""
        has_own = isinstance(self._options, OptionsByProtocol) and place.store in self._options
        return place.store if has_own else place.protocol

    def options_of(self, group: str) -> Mapping[str, Any]:
        """Those of all locations of a group."""
        if isinstance(self._options, OptionsByProtocol):
            return self._options.get(group, {})
        return self._options

    def of(self, location: str) -> tuple[Any, str]:
        """The filesystem of a location and the path in it.

        Raises:
            ConnectorNotInstalled: if the package for the protocol is missing.
            CorruptMetadata: for no path at all, which fsspec takes for the working directory.
        """
        place = located(location)
        if (given := self._given(place)) is not None:
            return given, place.path
        try:
            kind = fsspec.get_filesystem_class(place.protocol)
            # the account or the host that a location names
            told = self.options_of(self.group_of(place))
            options = {**kind._get_kwargs_from_urls(place.path), **told}
            if not kind.__module__.startswith("obstore."):
                # Filesystem objects are shared in the process and remember listings: what another
                # user of fsspec listed an hour ago is not what the table holds now.
                options.setdefault("use_listings_cache", False)
            key = (place.protocol, repr(options))
            with self._lock:
                if key not in self._made:
                    self._made[key] = fsspec.filesystem(place.protocol, **options)
                return self._made[key], place.path
        except (ImportError, ValueError, OSError) as error:
            if isinstance(error, OSError) and not place.is_of_hadoop:
                raise
            scheme = local_path(location).partition(":")[0]
            reason = (str(error).splitlines() or [""])[0]  # libjvm is looked for in many places
            raise ConnectorNotInstalled(
                f"No filesystem for {scheme}:// can be loaded: {reason}", hint=place.hint
            ) from error

    def _given(self, place: Location) -> Any | None:
        known = place.protocol in known_implementations or place.protocol in fsspec.registry
        if known and not place.is_of_hadoop:
            return None
        return self._options.filesystem if isinstance(self._options, OptionsByProtocol) else None


def level_of(fs: Any, path: str, location: str) -> Level:
    """What is directly in a directory.

    Args:
        fs: Its filesystem.
        path: What it is called there.
        location: What it is called in the paths of its files.

    Raises:
        MissingPartition: if there is no such directory.
        SourceUnavailable: if another one was listed.
    """
    base = local_path(location).rstrip("/")
    itself = fs._strip_protocol(path)
    bucket, _, directory = itself.partition("/")
    try:
        infos = fs.ls(path, detail=True)
    except FileNotFoundError as error:
        confirm_end(fs, bucket, directory)
        raise MissingPartition(f"There is no directory {location!r}.") from error
    except KeyError as error:  # of s3fs
        if error.args != ("NextContinuationToken",):
            raise
        raise no_next_page(location) from error
    if len(infos) >= KEYS_PER_PAGE:
        keys = [info["name"].partition("/")[2] for info in infos]
        folders = [
            f"{key}/\U0010ffff"
            for key, info in zip(keys, infos, strict=True)
            if info["type"] == "directory"
        ]
        confirm_end(fs, bucket, directory, max([*keys, *folders]))
    children = [
        (_name_in(itself, info["name"]), info)
        for info in (_followed(fs, info) for info in infos)
        # an object store may list the marker of the directory among its children
        if info["name"].rstrip("/") != itself
    ]
    hidden = frozenset(n for n, i in children if i["type"] == "directory" and not is_data(n))
    children = sorted((c for c in children if is_data(c[0])), key=itemgetter(0))
    files = [
        StoredFile(f"{base}/{name}", int(info["size"]), modified(info))
        for name, info in children
        if info["type"] == "file"
    ]
    # adlfs tells one of files twice, if an object marks it
    directories = dict.fromkeys(name for name, info in children if info["type"] == "directory")
    return Level(files, list(directories), 1, hidden)


class Links:
    """The symbolic links that a walk follows: links to links can multiply its paths without end."""

    def __init__(self) -> None:
        self._followed: Counter[str] = Counter()

    def follow(self, fs: Any, path: str) -> None:
        """Count a directory, if it is a link.

        Raises:
            SourceError: if it leads back to a directory above it, or where many others have led.
        """
        if not getattr(fs, "local_file", False) or not os.path.islink(path):
            return
        target = os.path.realpath(path)
        if any(os.path.realpath(above) == target for above in PurePath(path).parents):
            raise SourceError(f"The link {path!r} leads back to a directory above it.")
        self._followed[target] += 1
        if self._followed[target] > _MOST_LINKS:
            raise SourceError(
                f"More than {_MOST_LINKS} paths through symbolic links lead to {target!r}.",
                hint="remove links that lead to the same directory.",
            )


def modified(info: Mapping[str, Any]) -> int:
    """Milliseconds since the epoch of what fsspec tells of a file; 0 = unknown."""
    for key in _MODIFIED:
        value = info.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    return 0


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
