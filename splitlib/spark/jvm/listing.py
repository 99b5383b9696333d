"""List many directories in one JVM call, with the session's filesystems, as an Arrow batch.

In the other direction, :func:`file_statuses` converts an Arrow table of files to Hadoop's
``FileStatus[]``.

Directories on S3 are listed together, by listing all files below their common parent. S3 returns up
to 1,000 keys in one request, even if they are in different directories. Hadoop's S3A uses such
requests for recursive listings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from os.path import commonpath
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.model import FILE_SCHEMA
from splitlib.redaction import get_logger
from splitlib.spark.jvm.gateway import JVM_ERRORS, Jvm
from splitlib.spark.jvm.java_handles import (
    FileStatus,
    HadoopConf,
    HadoopFiles,
    HadoopPath,
    JavaArray,
    Seq,
    Uri,
)
from splitlib.spark.jvm.scala import Scala, each
from splitlib.spark.jvm.spark_handles import JvmSession
from splitlib.storage import is_restricted

FILE_STATUS: Final = "org.apache.hadoop.fs.FileStatus"
PATH: Final = "org.apache.hadoop.fs.Path"
_INDEX: Final = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"
_ARGUMENTS: Final = (
    "org.apache.hadoop.conf.Configuration",
    "org.apache.hadoop.fs.PathFilter",
    "org.apache.spark.sql.SparkSession",
    "scala.collection.immutable.Map",
)
PATH_FILTER: Final = "mapreduce.input.pathFilter.class"
# Matches names of hidden files, and of files that are still being copied.
_HIDDEN: Final = r"^(?:_[^=]*$|\.)|\._COPYING_$"
# Matches the scheme and the authority of a path.
STORE: Final = r"[^:/]+:(?://[^/]*)?"
# Separates strings that the JVM returns as one text. Paths cannot contain this character.
_END: Final = "\0"
_log = get_logger(__name__)
_S3A: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})
_UTIL: Final = "org.apache.hadoop.util.functional"
_PAGING: Final = "fs.s3a.paging.maximum"
FILES_PER_PAGE: Final = 1000
"""Maximum number of keys in one S3 response."""


def hadoop_path(jvm: Jvm, location: str | Uri) -> HadoopPath:
    """Return Hadoop's ``Path`` for a location."""
    path: HadoopPath = jvm.class_(PATH)(location)
    return path


def file_statuses(jvm: Jvm, files: pa.Table) -> JavaArray[FileStatus]:
    """Convert an Arrow table of files to Hadoop's ``FileStatus[]``.

    Args:
        jvm: The session's JVM.
        files: The files; see :func:`encode_statuses` for the columns.
    """
    stream = jvm.class_("java.io.ByteArrayInputStream")(encode_statuses(files))
    writable = jvm.class_("org.apache.hadoop.io.ArrayWritable")(jvm.reflected(FILE_STATUS))
    writable.readFields(jvm.class_("java.io.DataInputStream")(stream))
    statuses = jvm.array(FILE_STATUS, files.num_rows)
    jvm.class_("java.lang.System").arraycopy(writable.get(), 0, statuses, 0, files.num_rows)
    return statuses


def encode_statuses(files: pa.Table) -> bytes:
    """Serialize files as Hadoop serializes an ``ArrayWritable`` of ``FileStatus``.

    Each status is a length, followed by the message ``FileStatusProto`` of Hadoop's FSProtos.proto.
    The field ``owner``, which Spark ignores, holds the number of the file's partition.

    Args:
        files: Columns ``path``, ``size``, ``modified`` and ``partition``.
    """
    columns = (files[name].to_pylist() for name in ("path", "size", "modified", "partition"))

    def messages() -> Iterator[bytes]:
        yield files.num_rows.to_bytes(4, "big")
        for path, size, modified, partition in zip(*columns, strict=True):
            name, owner = path.encode(), b"%d" % partition
            message = b"".join(
                (
                    b"\x08\x02",  # fileType = FT_FILE
                    b"\x12" + _varint(len(name)) + name,
                    b"\x18" + _varint(size),
                    b"\x2a" + _varint(len(owner)) + owner,
                    b"\x38" + _varint(modified),
                )
            )
            yield len(message).to_bytes(4, "big")
            yield message

    return b"".join(messages())


def _varint(value: int) -> bytes:
    """Encode a number as protobuf's varint. Negative numbers become their two's complement."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Listing(NamedTuple):
    """Data files that were found in the requested directories."""

    files: pa.RecordBatch
    """The files, with the columns of :data:`splitlib.model.FILE_SCHEMA`. ``partition`` is the
    position of the file's directory among the requested directories."""
    statuses: Seq[FileStatus]
    """Hadoop's statuses of the same files from the listing, a ``Seq[FileStatus]``."""
    missing: tuple[int, ...] = ()
    """Positions of the requested directories that do not exist."""


def list_directories(
    scala: Scala, session: JvmSession, conf: HadoopConf, paths: Seq[HadoopPath], threads: int
) -> Listing:
    """List the data files directly in the given directories, except files that Spark skips.

    Args:
        scala: Access to Scala's library in the session's JVM.
        session: The JVM session whose settings and credentials are used.
        conf: The session's Hadoop configuration. Callers create it once, because this is slow.
        paths: A ``Seq[Path]`` of directories, as returned by :func:`qualified`.
        threads: Maximum number of concurrent listings. Local directories use at most one thread
            for each processor.
    """
    if paths.isEmpty():
        return files_of(scala, scala.nil, scala.nil)
    jvm, functions = scala.jvm, scala.functions
    if paths.head().toUri().getScheme() == "file":
        threads = min(threads, os.cpu_count() or 1)
    filter_ = None
    if conf.get(PATH_FILTER) is not None:
        job = jvm.class_("org.apache.hadoop.mapred.JobConf")(conf)
        filter_ = jvm.class_("org.apache.hadoop.mapred.FileInputFormat").getInputPathFilter(job)
    bulk = functions.method(f"{_INDEX}$", "bulkListLeafFiles", scala.seq_class, *_ARGUMENTS)
    bulk = functions.bound(bulk, 0, jvm.object_(_INDEX))
    bulk = functions.bound(bulk, 1, conf, filter_, session, scala.map({}))
    listed = jvm.object_("org.apache.spark.util.ThreadUtils").parmap(
        paths.grouped(1).toIndexedSeq(), "splitlib-list", threads, functions.function(bulk)
    )
    of_each = scala.mapped(listed, functions.calling(scala.operations, "head"))
    files = functions.calling("scala.Tuple2", "_2")
    lengths = scala.mapped(of_each, files, functions.calling(scala.operations, "length"))
    names = scala.mapped(paths, functions.calling(PATH, "toString"))
    statuses = scala.flat_mapped(of_each, files)
    directories, *shown = texts(scala, names, *_shown(scala, statuses, lengths))
    found = _listing(statuses, shown)
    empty = pc.indices_nonzero(pc.equal(_numbers(shown[0]), 0)).to_pylist()
    asked = ((number, paths.apply(number)) for number in empty)
    missing = tuple(number for number, p in asked if not p.getFileSystem(conf).exists(p))
    return right_in(scala, found, directories)._replace(missing=missing)


def files_of(scala: Scala, statuses: Seq[FileStatus], lengths: Seq[Any]) -> Listing:
    """Convert a ``Seq[FileStatus]`` to a :class:`Listing`, in one JVM call.

    Args:
        scala: Access to Scala's library in the session's JVM.
        statuses: The files, ordered by directory, a ``Seq[FileStatus]``.
        lengths: Number of files in each directory, a ``Seq[Int]``.
    """
    return _listing(statuses, texts(scala, *_shown(scala, statuses, lengths)))


def _shown(scala: Scala, statuses: Seq[FileStatus], lengths: Seq[int]) -> tuple[Seq[object], ...]:
    """Return the columns of a listing, each as a Scala ``Seq``.

    The columns are the number of files in each directory, and the path, size and modification time
    of each file.
    """
    functions = scala.functions
    path = functions.method(FILE_STATUS, "getPath")
    path = functions.then(path, functions.method(PATH, "toString"))
    return (
        lengths,
        scala.mapped(statuses, functions.function(path)),
        scala.mapped(statuses, functions.calling(FILE_STATUS, "getLen")),
        scala.mapped(statuses, functions.calling(FILE_STATUS, "getModificationTime")),
    )


def _listing(statuses: Seq[FileStatus], shown: Sequence[Sequence[str]]) -> Listing:
    """Build a listing from the columns of :func:`_shown`."""
    lengths, paths, sizes, modified = shown
    columns = [
        pc.replace_substring_regex(pa.array(paths, pa.string()), "^file:/+", "/"),
        _numbers(sizes),
        _numbers(modified),
        pa.array(np.repeat(np.arange(len(lengths)), _numbers(lengths)), pa.int64()),
    ]
    files = pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)
    return Listing(files, statuses.toIndexedSeq())


def qualified(scala: Scala, conf: HadoopConf, locations: Seq[Uri]) -> Seq[HadoopPath]:
    """Convert a ``Seq[URI]`` to a ``Seq[Path]`` of fully qualified paths."""
    functions = scala.functions
    to_path = functions.function(functions.constructor(PATH, "java.net.URI"))
    paths: Seq[HadoopPath] = scala.mapped(locations, to_path)
    if paths.isEmpty():
        return paths
    # Encoded URIs contain no spaces, so a space can separate them.
    stores = {urlsplit(uri)[:2] for uri in scala.text(locations, " ").split()}
    if len(stores) > 1:
        return scala.seq([p.getFileSystem(conf).makeQualified(p) for p in each(paths)])
    first = paths.head()
    filesystem = first.getFileSystem(conf)
    if filesystem.makeQualified(first).equals(first):
        return paths
    qualify = functions.method("org.apache.hadoop.fs.FileSystem", "makeQualified", PATH)
    return scala.mapped(paths, functions.function(functions.bound(qualify, 0, filesystem)))


def right_in(scala: Scala, found: Listing, directories: Sequence[str]) -> Listing:
    """Keep the data files that are directly in one of the directories, and drop other files.

    Spark's listing includes files in subdirectories, but Spark does not read them as part of the
    partition.

    Args:
        scala: Access to Scala's library in the session's JVM.
        found: All files below the directories.
        directories: The directories, as fully qualified paths.
    """
    above = pc.replace_substring_regex(pa.array(directories, pa.string()), f"^{STORE}", "")
    above = pc.utf8_rtrim(above, "/").take(found.files["partition"])
    parts = pc.extract_regex(found.files["path"], f"^(?:{STORE})?(?P<up>(?s:.*))/(?P<name>[^/]*)$")
    hidden = pc.match_substring_regex(pc.struct_field(parts, "name"), _HIDDEN)
    right = pc.and_(pc.equal(pc.struct_field(parts, "up"), above), pc.invert(hidden))
    kept = pc.indices_nonzero(right)
    if len(kept) == len(found.files):
        return found
    return Listing(found.files.take(kept), scala.mapped(scala.positions(kept), found.statuses))


def _numbers(texts: Sequence[str]) -> pa.Array:
    return pa.array(texts, pa.string()).cast(pa.int64())


def texts(scala: Scala, *columns: Seq[object]) -> list[list[str]]:
    """Return one list of strings for each collection, in one JVM call. No item may be empty."""
    first, *others = columns
    for column in others:
        first = scala.joined(scala.appended(first, ""), column)
    found: list[list[str]] = [[]]
    for text in scala.text(first, _END).split(_END):
        if text:
            found[-1].append(text)
        else:
            found.append([])
    return found


class FlatListing(NamedTuple):
    """Files found by one listing of the common parent of several directories."""

    found: Listing
    """The files; ``partition`` is an index into ``directories``."""
    directories: list[int]
    """Positions of the requested directories in which files were found. Other directories may be
    empty or may not exist."""
    pages: int
    """Number of S3 requests made."""


def flat_listing(
    scala: Scala, conf: HadoopConf, paths: Seq[HadoopPath], pages: int
) -> FlatListing | None:
    """List the common parent of several directories, and return the files in these directories.

    The result is None if the directories have to be listed one by one: if they are not on S3, if
    ``allowed_locations`` is set, if Hadoop is configured with a path filter, if a directory occurs
    twice, or if one directory contains all others. The result has no files if the listing failed,
    or would need too many requests. For example, listing fails without permission on the parent.

    Args:
        scala: Access to Scala's library in the session's JVM.
        conf: The session's Hadoop configuration.
        paths: A ``Seq[Path]`` of at least two directories, as returned by :func:`qualified`.
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
        _log.info(
            "Listing the common parent failed. The directories are listed one by one.",
            exc_info=True,
        )
        return FlatListing(empty, [], 1)
    if statuses is None:  # S3A has read one page beyond the limit, and has requested another one
        return FlatListing(empty, [], pages + 2)
    below = files_of(scala, statuses, scala.seq([statuses.size()]))
    # If the last page was full, another request may have followed, so count one more.
    requests = len(below.files) // page + 1
    found = _of_each(scala, below, directories)
    numbers = found.files["partition"]
    there = pc.unique(numbers)
    place = found.files.schema.get_field_index("partition")
    own = pc.index_in(numbers, value_set=there).cast(pa.int64())
    files = found.files.set_column(place, found.files.schema.field(place), own)
    return FlatListing(found._replace(files=files), there.to_pylist(), requests)


def _above(directories: list[str]) -> str | None:
    """Return the common parent of directories, or None if no path in one bucket contains all."""
    stores = {directory.partition("://")[0] for directory in directories}
    rest = commonpath([directory.partition("://")[2] for directory in directories])
    return f"{stores.pop()}://{rest}" if len(stores) == 1 and "/" in rest else None


def _listed(
    scala: Scala, filesystem: HadoopFiles, path: HadoopPath, most: int
) -> Seq[FileStatus] | None:
    """Return the files below a path as a ``Seq[FileStatus]``, or None if more than ``most``."""
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
