"""List many S3 directories together, by listing all files below their common parent.

S3 returns up to 1,000 keys in one request, even if they are in different directories. Hadoop's S3A
uses such requests for recursive listings. Results can be placed in Spark's own cache of listings.
"""

from __future__ import annotations

from functools import lru_cache
from os.path import commonpath
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.redaction import get_logger
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.listing import FILE_STATUS, PATH, PATH_FILTER, Listing, files_of, right_in
from splitlib.spark.jvm.scala import Scala
from splitlib.storage import is_restricted

_log = get_logger(__name__)

_S3A: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})
_UTIL: Final = "org.apache.hadoop.util.functional"
_PAGING: Final = "fs.s3a.paging.maximum"
FILES_PER_PAGE: Final = 1000
"""Maximum number of keys in one response of S3."""
_END: Final = "\0"
_DATASOURCES: Final = "org.apache.spark.sql.execution.datasources."
_CACHE: Final = _DATASOURCES + "FileStatusCache"
# Paths below a table that Spark ignores because of a file's or a directory's name.
_HIDDEN_BELOW: Final = r"/(?:_[^=/]*(?:/|$)|\.)|\._COPYING_(?:/|$)"


class FlatListing(NamedTuple):
    """Files found by one listing of the common parent of several directories."""

    found: Listing
    """The files; ``partition`` is an index into ``directories``."""
    directories: list[int]
    """Positions, in the request, of the directories in which files were found. Other directories
    may be empty or may not exist."""
    pages: int
    """Number of S3 requests made."""


class Below(NamedTuple):
    """All files below a directory, at any depth."""

    files: Listing | None
    """The files; None if the listing failed, or would need too many requests. It may fail because
    there is no permission to list the directory."""
    pages: int
    """Number of S3 requests made."""


def is_on_s3(directory: str) -> bool:
    """Return whether a directory is on S3, by its scheme."""
    return directory.partition("://")[0] in _SCHEMES


def flat_listing(scala: Scala, conf: Any, paths: Any, pages: int) -> FlatListing | None:
    """List the common parent of several directories, and return the files directly in them.

    The result is None if the directories have to be listed one by one: if :func:`files_below`
    returns None, if a directory occurs twice, or if one directory contains all others.

    Args:
        scala: Access to Scala's library in the session's JVM.
        conf: The session's Hadoop configuration.
        paths: A ``Seq[Path]`` of at least two directories, in their filesystem's spelling.
        pages: Maximum number of S3 requests.
    """
    if not is_on_s3(str(paths.head().toString())):
        return None
    names = scala.text(paths.map(scala.functions.calling(PATH, "toString")), _END).split(_END)
    directories = [name.rstrip("/") for name in names]
    above = _above(directories)
    if above is None or above in directories or len(set(directories)) < len(directories):
        return None
    below = files_below(scala, conf, above, pages)
    if below is None:
        return None
    if below.files is None:
        return FlatListing(files_of(scala, scala.nil, scala.nil), [], below.pages)
    found = _of_each(scala, below.files, directories)
    numbers = found.files["partition"]
    there = pc.unique(numbers)
    place = found.files.schema.get_field_index("partition")
    own = pc.index_in(numbers, value_set=there).cast(pa.int64())
    files = found.files.set_column(place, found.files.schema.field(place), own)
    return FlatListing(found._replace(files=files), there.to_pylist(), below.pages)


def files_below(scala: Scala, conf: Any, directory: str, pages: int) -> Below | None:
    """Return all files below a directory on S3, at any depth.

    The result is None if the directory must not be listed recursively: if it is not on S3, if
    ``allowed_locations`` is set, or if Hadoop is configured with a path filter.

    Args:
        scala: Access to Scala's library in the session's JVM.
        conf: The session's Hadoop configuration.
        directory: The directory, in its filesystem's spelling.
        pages: Maximum number of S3 requests.
    """
    if not is_on_s3(directory) or is_restricted() or conf.get(PATH_FILTER) is not None:
        return None
    path = scala.jvm.class_(PATH)(directory)
    page = min(int(conf.get(_PAGING) or FILES_PER_PAGE), FILES_PER_PAGE)
    try:
        filesystem = path.getFileSystem(conf)
        if filesystem.getClass().getName() != _S3A:
            return None
        statuses = _listed(scala, filesystem, path, pages * page)
    except JVM_ERRORS:
        _log.info("The common listing failed. Directories are listed one by one.", exc_info=True)
        return Below(None, 1)
    if statuses is None:  # S3A has read one page beyond the limit, and has requested another one
        return Below(None, pages + 2)
    files = files_of(scala, statuses, scala.seq([statuses.size()]))
    # If the last page was full, one more request may have followed.
    return Below(files, len(files.files) // page + 1)


def _above(directories: list[str]) -> str | None:
    """Return the common parent of the directories; None if it is a bucket or does not exist."""
    stores = {directory.partition("://")[0] for directory in directories}
    rest = commonpath([directory.partition("://")[2] for directory in directories])
    return f"{stores.pop()}://{rest}" if len(stores) == 1 and "/" in rest else None


def _listed(scala: Scala, filesystem: Any, path: Any, most: int) -> Any | None:
    """Return all files below a path, a ``Seq[FileStatus]``; None for more than ``most`` files."""
    jvm, functions = scala.jvm, scala.functions
    iterators = jvm.class_(f"{_UTIL}.RemoteIterators")
    # The iterator takes one or two permits for each file. When no permit is left, it stops,
    # silently or with an error. So if permits are left at the end, the listing is complete.
    permits = jvm.class_("java.util.concurrent.Semaphore")(2 * most + 2)
    take = functions.method("java.util.concurrent.Semaphore", "tryAcquire")
    take = functions.bound(take, 0, permits)
    go_on = functions.implementing(f"{_UTIL}.CallableRaisingIOE", take)
    listed = iterators.haltableRemoteIterator(filesystem.listFiles(path, True), go_on)
    statuses = iterators.toList(listed)
    if not permits.availablePermits():
        return None
    return scala.seq_of_array(statuses.toArray())


def _of_each(scala: Scala, told: Listing, directories: list[str]) -> Listing:
    """Return the files whose parent is one of the directories, in the order of the directories."""
    paths = told.files["path"]
    parents = pc.replace_substring_regex(paths, "/[^/]*$", "")
    number = pc.index_in(parents, value_set=pa.array(directories, pa.string())).cast(pa.int64())
    kept = pc.indices_nonzero(pc.is_valid(number))
    keyed = pa.table({"number": number.take(kept), "path": paths.take(kept)})
    keys = [("number", "ascending"), ("path", "ascending")]
    order = kept.take(pc.sort_indices(keyed, sort_keys=keys))
    place = told.files.schema.get_field_index("partition")
    files = told.files.set_column(place, told.files.schema.field(place), number).take(order)
    found = Listing(files, scala.positions(order).map(told.statuses))
    return right_in(scala, found, directories)


def fill_listing_cache(scala: Scala, conf: Any, index: Any, partition: str, pages: int) -> int:
    """List all files of a table with few S3 requests, and add them to Spark's cache of listings.

    Args:
        scala: Access to Scala's library in the session's JVM.
        conf: The session's Hadoop configuration.
        index: A ``CatalogFileIndex``.
        partition: Name of any partition, such as ``dt=1``. If its files are in the cache, nothing
            is listed.
        pages: Maximum number of S3 requests.

    Returns:
        Number of S3 requests made; 0 if nothing was listed.
    """
    cache = _cache_of(scala).get(index)
    root = index.rootPaths().headOption()
    if root.isEmpty() or "Noop" in cache.getClass().getName():  # Spark's cache is disabled
        return 0
    above = str(root.get().toString()).rstrip("/")
    if cache.getLeafFiles(scala.jvm.class_(PATH)(f"{above}/{partition}")).isDefined():
        return 0
    below = files_below(scala, conf, above, pages)
    if below is None:
        return 0
    if below.files is not None:
        names = pc.utf8_slice_codeunits(below.files.files["path"], len(above))
        shown = pc.indices_nonzero(pc.invert(pc.match_substring_regex(names, _HIDDEN_BELOW)))
        _put(scala, cache, scala.positions(shown).map(below.files.statuses))
    return below.pages


def _put(scala: Scala, cache: Any, statuses: Any) -> None:
    """Put a ``Seq[FileStatus]`` into the cache, grouped by directory."""
    functions = scala.functions
    path = functions.method(FILE_STATUS, "getPath")
    above = functions.then(path, functions.method(PATH, "getParent"))
    operations = scala.jvm.object_("scala.collection.ArrayOps")
    files = scala.array(FILE_STATUS, statuses)
    grouped = getattr(operations, "groupBy$extension")(files, functions.function(above))
    put = functions.method(_CACHE, "putLeafFiles", PATH, f"[L{FILE_STATUS};")
    put = functions.function(functions.bound(put, 0, cache), 2)
    grouped.keys().toSeq().lazyZip(grouped.values().toSeq()).foreach(put)


@lru_cache(maxsize=1)
def _cache_of(scala: Scala) -> Any:
    """Return the private field of ``CatalogFileIndex`` that holds its cache."""
    field = scala.jvm.reflected(_DATASOURCES + "CatalogFileIndex").getDeclaredField(
        "fileStatusCache"
    )
    field.setAccessible(True)
    return field
