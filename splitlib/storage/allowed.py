"""Which locations may be listed and read: the setting ``allowed_locations``.

It holds for as long as a call of a connector takes. Whatever reaches a storage in that time asks
:func:`refuse_outside` before it does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple
from urllib.parse import urlparse

from splitlib.errors import LocationNotAllowed
from splitlib.redaction import without_login
from splitlib.storage.locations import local_path

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
_LOCAL: Final = frozenset({"file", "local"})
# Schemes of one store.
_SAME: Final = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "abfs"),
}
_WITH_HOSTS: Final = frozenset(
    {"hdfs", "webhdfs", "viewfs", "ofs", "o3fs", "http", "https", "ftp", "sftp"}
)
_HDFS_PORT: Final = ":8020"  # where it listens by default
# Parsers of URIs drop these, each parser others of them: the check would see another location than
# the client that opens it.
_DROPPED: Final = re.compile(r"^\s|[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SPECIAL_NAME: Final = re.compile(r"\.{0,2}|.*[\x00-\x1f\x7f-\x9f\u2028\u2029?#;].*", re.DOTALL)


class _Place(NamedTuple):
    """A location taken apart, by one reading of it."""

    scheme: str
    authority: str
    parts: tuple[str, ...]
    """Names of directories from the root down."""

    def is_in(self, other: _Place) -> bool:
        return self[:2] == other[:2] and self.parts[: len(other.parts)] == other.parts


class AllowedLocations:
    """Locations, in and below which everything is allowed.

    Locations are compared by the names of directories, so that ``s3://b/sales`` does not allow
    ``s3://b/sales2``. The schemes of one store are the same (``s3``, ``s3a``, ``s3n``), as are
    hosts in upper and lower case; buckets are not. A percent sign is a character like any other.
    Some clients take ``..`` for the directory above, others for a name; some take ``?``, ``#`` and
    ``;`` for the end of the path. A location has to be inside by every reading. Control characters
    and leading white space, which some clients drop, are refused. Links on the local disk are
    followed, on both sides.

    Args:
        prefixes: Absolute paths and URIs.
    """

    def __init__(self, prefixes: Sequence[str]) -> None:
        self._prefixes = tuple(prefixes)
        self._places = [_readings(prefix)[0] for prefix in prefixes]

    def refuse_outside(self, locations: Iterable[str]) -> None:
        """Make sure that locations are allowed.

        Raises:
            LocationNotAllowed: naming one that is not.
        """
        for location in locations:
            if _DROPPED.search(location):
                raise LocationNotAllowed(
                    f"{location!r} has a control character or leading white space, which is "
                    "refused while allowed_locations is set.",
                    hint="correct the location in the catalog or in the table's metadata.",
                )
            if not self._is_inside(location):
                allowed = ", ".join(self._prefixes) or "none"
                raise LocationNotAllowed(
                    f"{location!r} is outside of allowed_locations.", hint=f"allowed: {allowed}."
                )

    def refuse_files_outside(self, paths: Iterable[str]) -> None:
        """:meth:`refuse_outside` for many files: each of their directories is looked at once.

        Raises:
            LocationNotAllowed: naming a file that is not allowed.
        """
        known: set[str] = set()
        for path in paths:
            directory, _, name = path.rpartition("/")
            plain = _SPECIAL_NAME.fullmatch(name) is None
            if plain and directory in known and not _is_link(path):
                continue
            self.refuse_outside([path])
            # a file may be allowed by its own name, and its directory not
            if plain and directory not in known and self._is_inside(directory):
                known.add(directory)

    def _is_inside(self, location: str) -> bool:
        return all(
            any(reading.is_in(place) for place in self._places) for reading in _readings(location)
        )


_in_force: ContextVar[tuple[AllowedLocations, ...]] = ContextVar("allowed_locations", default=())


@contextmanager
def only_within(prefixes: Sequence[str] | None) -> Iterator[None]:
    """Allow nothing outside of some locations, nor outside of those that are in force already.

    Threads of :class:`splitlib.remote.workers.Workers` take over what is in force where their work
    was submitted.

    Args:
        prefixes: None = no others than before.
    """
    if prefixes is None:
        yield
        return
    token = _in_force.set((*_in_force.get(), AllowedLocations(prefixes)))
    try:
        yield
    finally:
        _in_force.reset(token)


def is_restricted() -> bool:
    """Whether some locations are not allowed."""
    return bool(_in_force.get())


def refuse_outside(*locations: str) -> None:
    """Make sure that locations are allowed by all that is in force.

    Raises:
        LocationNotAllowed: naming one that is not.
    """
    for allowed in _in_force.get():
        allowed.refuse_outside(locations)


def refuse_files_outside(paths: Iterable[str]) -> None:
    """:func:`refuse_outside` for many files.

    Raises:
        LocationNotAllowed: naming one that is not allowed.
    """
    if in_force := _in_force.get():
        paths = list(paths)
        for allowed in in_force:
            allowed.refuse_files_outside(paths)


def _readings(location: str) -> tuple[_Place, ...]:
    """What a location may mean; the first is how the local disk would take it."""
    path = local_path(location)
    uri = _URI.fullmatch(without_login(path))
    if uri is None or uri[1].lower() in _LOCAL:
        path = os.path.expanduser(path if uri is None else f"{uri[2] or ''}{uri[3]}")
        # For `link/..`, Hadoop uses the parent of the link, the disk the parent of its target.
        paths = [path, os.path.normpath(path)]
        if _URI.match(location):
            parsed = _parsed(location)
            # PyArrow's filesystem, through PyIceberg, takes a host for a directory
            paths += [parsed[2], parsed[1] + parsed[2]]
        read = dict.fromkeys(map(os.path.realpath, paths))
        return tuple(_Place("file", "", _names(path)) for path in read)
    scheme = _SAME.get(uri[1].lower(), uri[1].lower())
    authority = _authority(scheme, uri[2] or "")
    cut = _parsed(f"{scheme}://host/{uri[3].removeprefix('/')}")[2]
    return tuple(
        _Place(scheme, authority, parts)
        for path in dict.fromkeys((uri[3], cut))
        for parts in (_names(os.path.normpath(f"/{path}")), _literal_names(path))
    )


def _parsed(location: str) -> tuple[str, str, str]:
    """Scheme, authority and path as ``urllib.parse``, and so PyIceberg, takes them.

    Raises:
        LocationNotAllowed: if it is no URI.
    """
    try:
        return urlparse(location)[:3]
    except ValueError as error:
        raise LocationNotAllowed(f"{location!r} is no URI: {error}") from error


def _literal_names(path: str) -> tuple[str, ...]:
    names = tuple(path.removeprefix("/").rstrip("/").split("/"))
    return names if any(names) else ()


def _authority(scheme: str, authority: str) -> str:
    """What tells stores of a scheme apart: a host, whose case does not count, or a bucket."""
    container, at, host = authority.rpartition("@")
    if scheme == "abfs" and at:
        return container + at + host.lower().replace(".blob.", ".dfs.", 1)
    if scheme in _WITH_HOSTS:
        return authority.lower().removesuffix(_HDFS_PORT if scheme == "hdfs" else "")
    return authority


def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


def _is_link(path: str) -> bool:
    """Whether a path is a link on the local disk; what is a URI is looked for in vain."""
    return os.path.islink(local_path(path))
