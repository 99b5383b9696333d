"""List many S3 directories together, by listing all files below their common parent.

S3 returns up to 1,000 keys in one request, even if they are in different directories. Hadoop's S3A
uses such requests for recursive listings.
"""

from __future__ import annotations

from os.path import commonpath
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.redaction import get_logger
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.java_handles import FileStatus, HadoopConf, HadoopFiles, HadoopPath, Seq
from splitlib.spark.jvm.listing import PATH, PATH_FILTER, Listing, files_of, hadoop_path, right_in
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


class FlatListing(NamedTuple):
    """Files found by one listing of the common parent of several directories."""

    found: Listing
    """The files; ``partition`` is an index into ``directories``."""
    directories: list[int]
    """Positions, in the request, of the directories in which files were found. Other directories
    may be empty or may not exist."""
    pages: int
    """Number of S3 requests made."""


def flat_listing(
    scala: Scala, conf: HadoopConf, paths: Seq[HadoopPath], pages: int
) -> FlatListing | None:
    """List the common parent of several directories, and return the files directly in them.

    The result is None if the directories have to be listed one by one: if they are not on S3, if
    ``allowed_locations`` is set, if Hadoop is configured with a path filter, if a directory occurs
    twice, or if one directory contains all others. The result has no files if the listing failed,
    or would need too many requests. It may fail because there is no permission to list the parent.

    Args:
        scala: Access to Scala's library in the session's JVM.
        conf: The session's Hadoop configuration.
        paths: A ``Seq[Path]`` of at least two directories, in their filesystem's spelling.
        pages: Maximum number of S3 requests.
    """
    first = str(paths.head().toString())
    if first.partition("://")[0] not in _SCHEMES or is_restricted():
        return None
    if conf.get(PATH_FILTER) is not None:
        return None
    to_text = scala.functions.calling(PATH, "toString")
    names = scala.text(scala.mapped(paths, to_text), _END).split(_END)
    directories = [name.rstrip("/") for name in names]
    above = _above(directories)
    if above is None or above in directories or len(set(directories)) < len(directories):
        return None
    path = hadoop_path(scala.jvm, above)
    page = min(int(conf.get(_PAGING) or FILES_PER_PAGE), FILES_PER_PAGE)
    empty = files_of(scala, scala.nil, scala.nil)
    try:
        filesystem = path.getFileSystem(conf)
        if filesystem.getClass().getName() != _S3A:
            return None
        statuses = _listed(scala, filesystem, path, pages * page)
    except JVM_ERRORS:
        _log.info("The common listing failed. Directories are listed one by one.", exc_info=True)
        return FlatListing(empty, [], 1)
    if statuses is None:  # S3A has read one page beyond the limit, and has requested another one
        return FlatListing(empty, [], pages + 2)
    below = files_of(scala, statuses, scala.seq([statuses.size()]))
    # If the last page was full, one more request may have followed.
    requests = len(below.files) // page + 1
    found = _of_each(scala, below, directories)
    numbers = found.files["partition"]
    there = pc.unique(numbers)
    place = found.files.schema.get_field_index("partition")
    own = pc.index_in(numbers, value_set=there).cast(pa.int64())
    files = found.files.set_column(place, found.files.schema.field(place), own)
    return FlatListing(found._replace(files=files), there.to_pylist(), requests)


def _above(directories: list[str]) -> str | None:
    """Return the common parent of the directories; None if it is a bucket or does not exist."""
    stores = {directory.partition("://")[0] for directory in directories}
    rest = commonpath([directory.partition("://")[2] for directory in directories])
    return f"{stores.pop()}://{rest}" if len(stores) == 1 and "/" in rest else None


def _listed(
    scala: Scala, filesystem: HadoopFiles, path: HadoopPath, most: int
) -> Seq[FileStatus] | None:
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


def _of_each(scala: Scala, listing: Listing, directories: list[str]) -> Listing:
    """Return the files whose parent is one of the directories, in the order of the directories."""
    paths = listing.files["path"]
    parents = pc.replace_substring_regex(paths, "/[^/]*$", "")
    number = pc.index_in(parents, value_set=pa.array(directories, pa.string())).cast(pa.int64())
    kept = pc.indices_nonzero(pc.is_valid(number))
    keyed = pa.table({"number": number.take(kept), "path": paths.take(kept)})
    keys = [("number", "ascending"), ("path", "ascending")]
    order = kept.take(pc.sort_indices(keyed, sort_keys=keys))
    place = listing.files.schema.get_field_index("partition")
    files = listing.files.set_column(place, listing.files.schema.field(place), number).take(order)
    found = Listing(files, scala.mapped(scala.positions(order), listing.statuses))
    return right_in(scala, found, directories)
