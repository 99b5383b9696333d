"""Parse the locations of files and directories, and check them against ``allowed_locations``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple
from urllib.parse import urlparse

from splitlib.errors import CorruptMetadata, LocationNotAllowed
from splitlib.redaction import without_login

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")

# For each URI scheme: fsspec's protocol, and the splitlib extra that installs the client.
_OBJECT_STORES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), ("s3", "s3")),
    **dict.fromkeys(("gs", "gcs"), ("gs", "gcs")),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), ("abfss", "azure")),
    "az": ("az", "azure"),
}
_OF_HADOOP = frozenset({"hdfs", "viewfs", "webhdfs", "har", "ofs", "o3fs"})
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
_LOCAL: Final = frozenset({"file", "local"})
_WITH_HOSTS: Final = frozenset(
    {"hdfs", "webhdfs", "viewfs", "ofs", "o3fs", "http", "https", "ftp", "sftp"}
)
_HDFS_PORT: Final = ":8020"  # default port
# Some URI parsers drop these characters, others keep them. So a client could open a location that
# differs from the one that was checked.
_DROPPED: Final = re.compile(r"^\s|[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Matches path parts for which a check of the parent directory is not enough, such as `..` or `a?b`.
_SPECIAL_NAME: Final = re.compile(r"\.{0,2}|.*:|.*[\x00-\x1f\x7f-\x9f\u2028\u2029?#;].*", re.DOTALL)


class Location(NamedTuple):
    """The location of a directory or file, in the form that fsspec expects."""

    protocol: str
    """fsspec's name for the protocol, such as ``s3``."""
    path: str
    """Path with the protocol, such as ``s3://bucket/a``. A local path has no protocol."""

    @property
    def is_on_object_store(self) -> bool:
        """Whether the location is on an object store, where empty directories do not exist."""
        return self.protocol in _OBJECT_STORES

    @property
    def store(self) -> str:
        """The bucket on S3 or Google, or the account on Azure, such as ``s3://bucket``."""
        authority = self.path.partition("://")[2].partition("/")[0]
        _, of_azure, host = authority.rpartition("@")
        return f"{self.protocol}://{host.partition('.')[0] if of_azure else host}"

    @property
    def is_of_hadoop(self) -> bool:
        """Whether the location needs Hadoop's client, which runs in the JVM."""
        return self.protocol.lower() in _OF_HADOOP

    @property
    def hint(self) -> str:
        """How to install the package that can access the location."""
        if self.protocol in _OBJECT_STORES:
            return f"pip install 'splitlib[{_OBJECT_STORES[self.protocol][1]}]'."
        if self.is_of_hadoop:
            return (
                "open the table with a classic Spark session, which has a client for it; or "
                "install the package that fsspec needs for it."
            )
        return "install the package that adds this protocol to fsspec."


def located(location: str) -> Location:
    """Parse a location from a catalog, such as ``s3n://bucket/table``.

    Raises:
        CorruptMetadata: for a null character, for an empty path, which fsspec would read as the
            working directory, or for an object store without ``//``.
    """
    path = local_path(location or "")
    if not path:
        raise CorruptMetadata(f"{location!r} is not a location of files.")
    if "\0" in path:
        raise CorruptMetadata(
            f"{location!r} is not a location of files: it contains a null character.",
            hint="correct the location in the catalog or in your call.",
        )
    scheme = _SCHEME.match(path)
    if scheme is None:
        return Location("file", path)
    known = _OBJECT_STORES.get(scheme[1].lower())
    if known is None:
        return Location(scheme[1], path)
    if not path.startswith("//", len(scheme[0])):
        raise CorruptMetadata(
            f"{location!r} names no bucket.", hint=f"write {scheme[0]}//bucket/directory."
        )
    return Location(known[0], known[0] + path[len(scheme[1]) :])


def local_path(location: str) -> str:
    """Convert ``file:/a`` and ``file:///a`` to ``/a``. Return other locations unchanged.

    Percent signs stay unchanged: in Hadoop's paths, ``%20`` is three characters, not a space.
    """
    if location[:5].lower() != "file:":
        return location
    rest = location[5:]
    return "/" + rest.lstrip("/") if rest.startswith("///") else re.sub(r"^//[^/]*", "", rest)


class _Place(NamedTuple):
    """One possible meaning of a location, split into parts. See :class:`AllowedLocations`."""

    scheme: str
    authority: str
    parts: tuple[str, ...]
    """Directory names, from the root down."""

    def is_in(self, other: _Place) -> bool:
        return self[:2] == other[:2] and self.parts[: len(other.parts)] == other.parts


class AllowedLocations:
    """Locations that may be accessed, including everything below them.

    Whole directory names are compared, so ``s3://b/sales`` does not allow ``s3://b/sales2``.
    Schemes for the same store (``s3``, ``s3a``, ``s3n``) are equal. Case matters for bucket names,
    but not for host names. A percent sign has no special meaning.

    Storage clients do not agree on the meaning of some locations: ``..`` may be the parent
    directory or a name, and ``?``, ``#`` and ``;`` may end the path. A location must be allowed in
    all of its possible meanings. Control characters and leading white space are rejected, because
    some clients drop them. Symbolic links on the local disk are followed, in both the allowed and
    the checked locations.

    Args:
        prefixes: Allowed locations, as absolute paths and URIs.
    """

    def __init__(self, prefixes: Sequence[str]) -> None:
        self._prefixes = tuple(prefixes)
        self._places = [_readings(prefix)[0] for prefix in prefixes]

    def refuse_outside(self, locations: Iterable[str]) -> None:
        """Check that all locations are allowed. Files in the same directory share one check.

        Raises:
            LocationNotAllowed: if a location is not allowed. The error names it.
        """
        # The directories that are allowed, each with the paths that it may have on the local disk.
        known: dict[str, list[str]] = {}
        for location in locations:
            directory, _, name = location.rpartition("/")
            ends = name, directory.rpartition("/")[2]
            plain = not any(map(_SPECIAL_NAME.fullmatch, ends))
            if (
                plain
                and (paths := known.get(directory)) is not None
                and not any(os.path.islink(f"{path}/{name}") for path in paths)
            ):
                continue
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
            # An allowed location may be a single file, so its directory is checked separately.
            if plain and directory not in known and self._is_inside(directory):
                known[directory] = _local_paths(directory)

    def _is_inside(self, location: str) -> bool:
        return all(
            any(reading.is_in(place) for place in self._places) for reading in _readings(location)
        )


_in_force: ContextVar[tuple[AllowedLocations, ...]] = ContextVar("allowed_locations", default=())


@contextmanager
def only_within(*allowed: Sequence[str] | None) -> Iterator[None]:
    """Restrict access to these locations within the ``with`` block.

    Restrictions of outer blocks still apply. Threads of :class:`splitlib.remote.calls.Workers` have
    the restrictions of the code that submitted their work.

    Args:
        allowed: Lists of location prefixes. A location must match a prefix in each list. If a list
            is None, it allows all locations.
    """
    more = (AllowedLocations(prefixes) for prefixes in allowed if prefixes is not None)
    token = _in_force.set((*_in_force.get(), *more))
    try:
        yield
    finally:
        _in_force.reset(token)


def is_restricted() -> bool:
    """Return whether :func:`only_within` currently restricts access."""
    return bool(_in_force.get())


def refuse_outside(locations: Iterable[str]) -> None:
    """Check that all current restrictions allow the locations.

    Args:
        locations: Locations to check. They are not iterated over if there is no restriction.

    Raises:
        LocationNotAllowed: if a location is not allowed. The error names it.
    """
    if in_force := _in_force.get():
        locations = list(locations)
        for allowed in in_force:
            allowed.refuse_outside(locations)


def _readings(location: str) -> tuple[_Place, ...]:
    """Return all possible meanings of a location. For an allowed prefix, only the first counts."""
    if paths := _local_paths(location):
        read = dict.fromkeys(map(os.path.realpath, paths))
        return tuple(_Place("file", "", _names(path)) for path in read)
    uri = _URI.fullmatch(without_login(local_path(location)))
    assert uri is not None
    scheme = uri[1].lower()
    scheme, _ = _OBJECT_STORES.get(scheme, (scheme, ""))
    authority = _authority(scheme, uri[2] or "")
    cut = _parsed(f"{scheme}://host/{uri[3].removeprefix('/')}")[2]
    return tuple(
        _Place(scheme, authority, parts)
        for path in dict.fromkeys((uri[3], cut))
        for parts in (_names(os.path.normpath(f"/{path}")), _literal_names(path))
    )


def _local_paths(location: str) -> list[str]:
    """Return all paths on the local disk that a location may mean.

    The list is empty if the location is not on the local disk.
    """
    path = local_path(location)
    uri = _URI.fullmatch(without_login(path))
    if uri is not None and uri[1].lower() not in _LOCAL:
        return []
    path = os.path.expanduser(path if uri is None else f"{uri[2] or ''}{uri[3]}")
    # `link/..` is the parent of the link in Hadoop, but the parent of the link's target in the
    # operating system. So the location may mean either path.
    paths = [path, os.path.normpath(path)]
    if _URI.match(location):
        parsed = _parsed(location)
        # PyArrow's filesystem, which PyIceberg uses, treats the host as a directory.
        paths += [parsed[2], parsed[1] + parsed[2]]
    return list(dict.fromkeys(paths))


def _parsed(location: str) -> tuple[str, str, str]:
    """Split a URI into scheme, authority and path as ``urllib.parse`` and PyIceberg do."""
    try:
        return urlparse(location)[:3]
    except ValueError as error:
        raise LocationNotAllowed(f"{location!r} is not a valid URI: {error}") from error


def _literal_names(path: str) -> tuple[str, ...]:
    names = tuple(path.removeprefix("/").rstrip("/").split("/"))
    return names if any(names) else ()


def _authority(scheme: str, authority: str) -> str:
    """Normalize a URI's host or bucket, so that two URIs of the same store can be compared as text.

    Hosts become lower case, without the default port of HDFS. Azure's host name with ``.blob.``
    becomes the name with ``.dfs.``.
    """
    container, at, host = authority.rpartition("@")
    if scheme == "abfss" and at:
        return container + at + host.lower().replace(".blob.", ".dfs.", 1)
    if scheme in _WITH_HOSTS:
        return authority.lower().removesuffix(_HDFS_PORT if scheme == "hdfs" else "")
    return authority


def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)
