"""Parse locations as catalogs spell them, and find the packages that can access them."""

from __future__ import annotations

import re
from typing import NamedTuple

from splitlib.errors import CorruptMetadata

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")

# By scheme: fsspec's protocol, and the extra of splitlib that installs its package.
_OBJECT_STORES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), ("s3", "s3")),
    **dict.fromkeys(("gs", "gcs"), ("gs", "gcs")),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), ("abfss", "azure")),
    "az": ("az", "azure"),
}
_OF_HADOOP = frozenset({"hdfs", "viewfs", "webhdfs", "har", "ofs", "o3fs"})


class Location(NamedTuple):
    """A directory or file, in the spelling of the package that accesses it."""

    protocol: str
    """Name of the protocol in fsspec, such as ``s3``."""
    path: str
    """Path including the protocol, except on the local disk."""

    @property
    def is_on_object_store(self) -> bool:
        """Whether the location is on an object store, where empty directories do not exist."""
        return self.protocol in _OBJECT_STORES

    @property
    def store(self) -> str:
        """Bucket of S3 or Google, or account of Azure, as ``protocol://name``."""
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
    """Parse a location as a catalog spells it, such as ``s3n://bucket/table``.

    Raises:
        CorruptMetadata: for a null character, or for an empty path, which fsspec would read as the
            working directory.
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
    return Location(known[0], known[0] + path[len(scheme[1]) :])


def local_path(location: str) -> str:
    """Convert ``file:/a`` and ``file:///a`` to ``/a``. Return other locations unchanged.

    Nothing is percent-decoded: in Hadoop's paths, ``%20`` is three characters.
    """
    if location[:5].lower() != "file:":
        return location
    rest = location[5:]
    return "/" + rest.lstrip("/") if rest.startswith("///") else re.sub(r"^//[^/]*", "", rest)
