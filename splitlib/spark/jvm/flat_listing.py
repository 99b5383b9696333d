"""Directories of S3 listed together, by the pages of what is above them.

S3 tells up to 1,000 keys a request whatever directories they are in. Hadoop's S3A asks for such
pages where all files below a directory are listed.
"""

from __future__ import annotations

from os.path import commonpath
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.redaction import get_logger
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.listing import PATH, PATH_FILTER, Listing, files_of, right_in
from splitlib.spark.jvm.scala import Scala
from splitlib.storage import is_restricted

_log = get_logger(__name__)

_S3A: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})
_UTIL: Final = "org.apache.hadoop.util.functional"
_PAGING: Final = "fs.s3a.paging.maximum"
FILES_PER_PAGE: Final = 1000
"""What one request of S3 tells at most."""
_END: Final = "\0"


class FlatListing(NamedTuple):
    """The files of those directories of which any were found."""

    found: Listing
    directories: list[int]
    """Which of the directories that were asked for these are; of the others nothing is known."""
    pages: int
    """Requests that it took."""


class Below(NamedTuple):
    """All files below a directory, however deep."""

    files: Listing | None
    """None if this has failed, as for who may list a directory but nothing above it, and if there
    are more files than the pages tell."""
    pages: int
    """Requests that it took."""


def is_on_s3(directory: str) -> bool:
    """Whether a directory is where many may be listed together."""
    return directory.partition("://")[0] in _SCHEMES


def flat_listing(scala: Scala, conf: Any, paths: Any, pages: int) -> FlatListing | None:
    """The files right in some directories; None where they have to be listed one by one.

    That is where :func:`files_below` lists nothing, and if a directory is there twice or is above
    the others.

    Args:
        scala: Of the session's JVM.
        conf: Its Hadoop configuration.
        paths: A ``Seq[Path]``, at least two, spelled as their filesystem spells what it lists.
        pages: How many requests it may take.
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
    """The files below a directory; None where nobody should list them together.

    That is if they are not on S3, and if ``allowed_locations`` says what may be listed or Hadoop
    has a filter of paths.

    Args:
        scala: Of the session's JVM.
        conf: Its Hadoop configuration.
        directory: As its filesystem spells it.
        pages: How many requests it may take.
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
        _log.info("Directories are listed one by one.", exc_info=True)
        return Below(None, 1)
    if statuses is None:  # S3A has read the page that is one too many, and asked for the next
        return Below(None, pages + 2)
    files = files_of(scala, statuses, scala.seq([statuses.size()]))
    # of a page that is full it is not known that it was the last
    return Below(files, len(files.files) // page + 1)


def _above(directories: list[str]) -> str | None:
    """What is above all of them, below a bucket."""
    stores = {directory.partition("://")[0] for directory in directories}
    rest = commonpath([directory.partition("://")[2] for directory in directories])
    return f"{stores.pop()}://{rest}" if len(stores) == 1 and "/" in rest else None


def _listed(scala: Scala, filesystem: Any, path: Any, most: int) -> Any | None:
    """All files below a path, a ``Seq[FileStatus]``; None if there are more than ``most``."""
    jvm, functions = scala.jvm, scala.functions
    iterators = jvm.class_(f"{_UTIL}.RemoteIterators")
    # The iterator asks whether to go on, once or twice for each file, and ends silently, or in an
    # error, when it is not to. While a permit is left, it was never told so.
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
    """Those right in one of the directories, in the order of these."""
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
