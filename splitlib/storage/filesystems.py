"""Create fsspec filesystems for locations, and list their directories."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import itemgetter
from pathlib import PurePath
from typing import Any

import fsspec
from fsspec.registry import known_implementations

from splitlib.errors import (
    ConfigError,
    ConnectorNotInstalled,
    MissingPartition,
    SourceError,
    SourceUnavailable,
)
from splitlib.storage.clients import in_forks_of_this
from splitlib.storage.clouds import AzureSettings
from splitlib.storage.files import Level, StoredFile, is_data, is_searched
from splitlib.storage.locations import Location, local_path, located
from splitlib.storage.received import (
    KEYS_PER_PAGE,
    confirm_end,
    limit_adlfs,
    no_next_page,
    within_limits,
)

# Maximum number of symbolic links to one directory in a listing. The directory is listed once for
# each link.
_MOST_LINKS = 100
_AZURE = ("abfss", "az")
# Schemes that fsspec lists even if there is a Spark session, besides those of the object stores.
_WITHOUT_HADOOP = frozenset({"file", "local", "memory", "http", "https"})
_MODIFIED = ("mtime", "LastModified", "last_modified", "updated", "modified")


class OptionsByProtocol(dict[str, Mapping[str, Any]]):
    """Filesystem options by fsspec protocol. Protocols without an entry have no options.

    Args:
        options: Options by protocol, such as ``s3``. A bucket or account with its own options has
            an entry under its :attr:`splitlib.storage.locations.Location.store`.
        filesystem: An fsspec filesystem for all schemes except local paths, HTTP, and the object
            stores of S3, Google and Azure. Its paths are complete URIs.
    """

    def __init__(
        self, options: Mapping[str, Mapping[str, Any]] | None = None, *, filesystem: Any = None
    ) -> None:
        super().__init__(options or {})
        self.filesystem = filesystem


class Filesystems:
    """Creates fsspec filesystems and reuses them. Thread-safe.

    Args:
        options: Options for ``fsspec.filesystem(protocol, **options)``, or
            :class:`OptionsByProtocol`.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._forget()
        in_forks_of_this(self, Filesystems._forget)

    def _forget(self) -> None:
        # A forked process starts without filesystems and with a new lock: it does not have the
        # filesystems' threads, and its copy of the lock may stay locked forever.
        self._made: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    def group_of(self, place: Location) -> str:
        """Return the key of the options that apply to a location.

        The key is the location's store, such as ``s3://bucket``, if this store has its own options.
        Otherwise the key is the protocol, such as ``s3``.
        """
        has_own = isinstance(self._options, OptionsByProtocol) and place.store in self._options
        return place.store if has_own else place.protocol

    def options_of(self, group: str) -> Mapping[str, Any]:
        """Return the filesystem options for a key from :meth:`group_of`."""
        if isinstance(self._options, OptionsByProtocol):
            return self._options.get(group, {})
        return self._options

    def of(self, location: str) -> tuple[Any, str]:
        """Return the filesystem for a location, and the location's path in this filesystem.

        Raises:
            ConfigError: if an option of the filesystem is missing or unknown, or names another
                Azure account than the location.
            ConnectorNotInstalled: if the package for the protocol is missing.
            CorruptMetadata: for an empty path, which fsspec would read as the working directory.
        """
        place = located(location)
        if (given := self._given(place)) is not None:
            return given, place.path
        # The URL may contain some of the options, such as the account or the host.
        own_options = self.options_of(self.group_of(place))
        if place.protocol in _AZURE:
            AzureSettings.from_fsspec(own_options).check_account(place.path.split("/")[2])
        kind: Any = None
        try:
            kind = fsspec.get_filesystem_class(place.protocol)
            options = {**kind._get_kwargs_from_urls(place.path), **own_options}
            if not kind.__module__.startswith("obstore."):
                # fsspec shares filesystem objects within the process. Without this option, it might
                # return an outdated listing that other code has cached.
                options.setdefault("use_listings_cache", False)
                options = within_limits(kind, options)
            key = (place.protocol, repr(options))
            with self._lock:
                if key not in self._made:
                    self._made[key] = fsspec.filesystem(place.protocol, **options)
                    limit_adlfs(self._made[key])
                return self._made[key], place.path
        except (TypeError, ImportError, ValueError, OSError) as error:
            # The class of the filesystem rejects its arguments with one of these two errors.
            if kind is not None and isinstance(error, TypeError | ValueError):
                raise ConfigError(
                    f"The options of the filesystem for {place.protocol}:// are wrong: {error}",
                    hint="pass the arguments of fsspec's class as storage_options.",
                ) from error
            if isinstance(error, OSError) and not place.is_of_hadoop:
                raise
            scheme = local_path(location).partition(":")[0]
            reason = (str(error).splitlines() or [""])[0]  # errors about libjvm list many paths
            raise ConnectorNotInstalled(
                f"No filesystem for {scheme}:// can be loaded: {reason}", hint=place.hint
            ) from error

    def _given(self, place: Location) -> Any | None:
        # Of the schemes that fsspec knows by name only, the session may have a client. A class that
        # the user has registered takes precedence.
        is_own = place.protocol in fsspec.registry and place.protocol not in known_implementations
        if is_own and not place.is_of_hadoop:
            return None
        if place.protocol in _WITHOUT_HADOOP or place.is_on_object_store:
            return None
        return self._options.filesystem if isinstance(self._options, OptionsByProtocol) else None


def level_of(fs: Any, path: str, location: str) -> Level:
    """Return the files and subdirectories directly in a directory.

    Args:
        fs: Filesystem that contains the directory.
        path: The directory's path in the filesystem.
        location: The directory's location. The returned file paths start with it.

    Raises:
        MissingPartition: if the directory does not exist.
        SourceUnavailable: if the storage returned another directory's listing.
        SourceError: if the location is a file.
    """
    base = local_path(location).rstrip("/")
    itself = fs._strip_protocol(path)
    bucket, _, directory = itself.partition("/")
    try:
        infos = fs.ls(path, detail=True)
    except FileNotFoundError as error:
        confirm_end(fs, bucket, directory)
        raise MissingPartition(f"There is no directory {location!r}.") from error
    except KeyError as error:  # s3fs raises this if the token for the next page is missing
        if error.args != ("NextContinuationToken",):
            raise
        raise no_next_page(location) from error
    # The listing contains only the location itself. That is the marker object of an empty directory
    # if it has no content, and otherwise a file.
    if [(info["name"], info["type"]) for info in infos] == [(itself, "file")] and infos[0]["size"]:
        raise no_directory(location) from NotADirectoryError(location)
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
        # An object store may list the directory's own marker object as one of its entries.
        if info["name"].rstrip("/") != itself
    ]
    _refuse_undecoded((name for name, _ in children), location)
    # A store may list a name twice. A name may also belong to both a file and a directory.
    once = {(name, info["type"]): (name, info) for name, info in children}
    ignored = {key for key in once if not _is_shown(*key)}
    hidden, hidden_files = (
        frozenset(name for name, of_kind in ignored if of_kind == kind)
        for kind in ("directory", "file")
    )
    children = sorted((once[key] for key in once if key not in ignored), key=itemgetter(0))
    files = [
        StoredFile(f"{base}/{name}", int(info["size"]), modified(info))
        for name, info in children
        if info["type"] == "file"
    ]
    directories = [name for name, info in children if info["type"] == "directory"]
    return Level(files, directories, 1, hidden, hidden_files)


def _refuse_undecoded(names: Iterable[str], location: str) -> None:
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise SourceError(
                f"The name {name!r} in {location!r} is not UTF-8.", hint="rename it."
            ) from error


def no_directory(location: str) -> SourceError:
    """Return the error for a directory location that is a file."""
    hint = "pass the directory of the table, or correct the location in the catalog."
    return SourceError(f"{location!r} is a file, not a directory.", hint=hint)


class Links:
    """Limits the symbolic links in a listing, because links can create endlessly many paths."""

    def __init__(self) -> None:
        self._followed: Counter[str] = Counter()

    def follow(self, fs: Any, path: str) -> None:
        """Count a directory if it is a symbolic link, and check the limits.

        Raises:
            SourceError: if the link leads to one of its parent directories, or too many links lead
                to the same directory.
        """
        if not getattr(fs, "local_file", False) or not os.path.islink(path):
            return
        target = os.path.realpath(path)
        if any(os.path.realpath(above) == target for above in PurePath(path).parents):
            raise SourceError(
                f"The link {path!r} leads back to a directory above it.", hint="remove the link."
            )
        self._followed[target] += 1
        if self._followed[target] > _MOST_LINKS:
            raise SourceError(
                f"More than {_MOST_LINKS} paths through symbolic links lead to {target!r}.",
                hint="remove links that lead to the same directory.",
            )


def modified(info: Mapping[str, Any]) -> int:
    """Return a file's modification time from fsspec's file info, in milliseconds since the epoch.

    0 means unknown.
    """
    for key in _MODIFIED:
        value = info.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    return 0


def _is_shown(name: str, kind: str) -> bool:
    return is_searched(name) if kind == "directory" else is_data(name)


def _name_in(directory: str, path: str) -> str:
    """Return the last part of a listed path, after a check that the path is in ``directory``.

    Only the ends of the paths are compared, because some filesystems add a prefix to the paths that
    they list.
    """
    above, _, name = path.rstrip("/").rpartition("/")
    above, directory = above.strip("/"), directory.strip("/")
    if not (above.endswith(directory) or directory.endswith(above)):
        raise SourceUnavailable(f"The storage listed {path!r} instead of {directory!r}.")
    return name


def _followed(fs: Any, info: dict[str, Any]) -> dict[str, Any]:
    """Return the file info of a symbolic link's target. Return other entries unchanged.

    A broken link is also returned unchanged. Its type is neither file nor directory, so the listing
    leaves it out, as Hadoop's local filesystem does.
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
