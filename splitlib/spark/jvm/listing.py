"""Directories listed by the session's own filesystems: many in one call, one answer in Arrow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.model import FILE_SCHEMA
from splitlib.spark.jvm.file_statuses import FILE_STATUS
from splitlib.spark.jvm.scala import Scala, each
from splitlib.storage import is_restricted, refuse_outside

PATH: Final = "org.apache.hadoop.fs.Path"
_INDEX: Final = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"
_SEQ: Final = "scala.collection.immutable.Seq"
_ARGUMENTS: Final = (
    _SEQ,
    "org.apache.hadoop.conf.Configuration",
    "org.apache.hadoop.fs.PathFilter",
    "org.apache.spark.sql.SparkSession",
    "scala.collection.immutable.Map",
)
_OPERATIONS: Final = "scala.collection.SeqOps"
PATH_FILTER: Final = "mapreduce.input.pathFilter.class"
# Of a file that is hidden, or still being copied.
_HIDDEN: Final = r"^(?:_[^=]*$|\.)|\._COPYING_$"
# The scheme and the authority of a path.
STORE: Final = r"[^:/]+:(?://[^/]*)?"
# A path has any character but this one.
_END: Final = "\0"


class Listing(NamedTuple):
    """The data files of some directories."""

    files: pa.RecordBatch
    """As :data:`splitlib.model.FILE_SCHEMA`; ``partition`` is the number of the directory."""
    statuses: Any
    """The same files as their filesystem shows them, a ``Seq[FileStatus]``."""
    missing: tuple[int, ...] = ()
    """The numbers of directories that do not exist."""


def list_directories(scala: Scala, session: Any, conf: Any, paths: Any, threads: int) -> Listing:
    """The files right in some directories, by Spark's rules for what is a data file.

    Args:
        scala: Of the session's JVM.
        session: Whose settings and credentials hold.
        conf: Its Hadoop configuration, which takes long to be made.
        paths: A ``Seq[Path]``, spelled as their filesystems spell what they list.
        threads: How many at a time; as many as there are processors where nothing is waited for.

    Raises:
        LocationNotAllowed: for a directory outside of ``allowed_locations``.
    """
    if paths.isEmpty():
        return files_of(scala, paths, paths)
    refuse_directories(scala, paths)
    jvm, functions = scala.jvm, scala.functions
    if paths.head().toUri().getScheme() == "file":
        threads = min(threads, os.cpu_count() or 1)
    filter_ = None
    if conf.get(PATH_FILTER) is not None:
        job = jvm.class_("org.apache.hadoop.mapred.JobConf")(conf)
        filter_ = jvm.class_("org.apache.hadoop.mapred.FileInputFormat").getInputPathFilter(job)
    bulk = functions.method(f"{_INDEX}$", "bulkListLeafFiles", *_ARGUMENTS)
    bulk = functions.bound(bulk, 0, jvm.object_(_INDEX))
    bulk = functions.function(functions.bound(bulk, 1, conf, filter_, session, scala.map({})))
    listed = jvm.object_("org.apache.spark.util.ThreadUtils").parmap(
        paths.grouped(1).toSeq(), "splitlib-list", threads, bulk
    )
    of_each = listed.map(functions.calling("scala.collection.IterableOps", "head"))
    files = functions.calling("scala.Tuple2", "_2")
    lengths = of_each.map(files).map(functions.calling(_OPERATIONS, "length"))
    names = paths.map(functions.calling(PATH, "toString"))
    statuses = of_each.flatMap(files)
    directories, *shown = texts(scala, names, *_shown(scala, statuses, lengths))
    found = _listing(statuses, shown)
    empty = pc.indices_nonzero(pc.equal(_numbers(shown[0]), 0)).to_pylist()
    missing = tuple(number for number in empty if not _exists(paths.apply(number), conf))
    return right_in(scala, found, directories)._replace(missing=missing)


def refuse_directories(scala: Scala, paths: Any) -> None:
    """Make sure that directories, a ``Seq[Path]``, may be listed.

    Raises:
        LocationNotAllowed: for one outside of ``allowed_locations``.
    """
    if is_restricted() and paths.nonEmpty():
        names = paths.map(scala.functions.calling(PATH, "toString"))
        refuse_outside(*scala.text(names, _END).split(_END))


def files_of(scala: Scala, statuses: Any, lengths: Any) -> Listing:
    """Files in one answer.

    Args:
        scala: Of the session's JVM.
        statuses: The files of one directory after the other, a ``Seq[FileStatus]``.
        lengths: How many files each directory has, a ``Seq[Int]``.
    """
    return _listing(statuses, texts(scala, *_shown(scala, statuses, lengths)))


def _shown(scala: Scala, statuses: Any, lengths: Any) -> tuple[Any, ...]:
    """What of some files and their directories is to leave the JVM: a ``Seq`` each."""
    functions = scala.functions
    path = functions.method(FILE_STATUS, "getPath")
    path = functions.then(path, functions.method(PATH, "toString"))
    return (
        lengths,
        statuses.map(functions.function(path)),
        statuses.map(functions.calling(FILE_STATUS, "getLen")),
        statuses.map(functions.calling(FILE_STATUS, "getModificationTime")),
    )


def _listing(statuses: Any, shown: Sequence[Sequence[str]]) -> Listing:
    """The files of which :func:`_shown` has told."""
    lengths, paths, sizes, modified = shown
    columns = [
        pc.replace_substring_regex(pa.array(paths, pa.string()), "^file:/+", "/"),
        _numbers(sizes),
        _numbers(modified),
        pa.array(np.repeat(np.arange(len(lengths)), _numbers(lengths)), pa.int64()),
    ]
    files = pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)
    return Listing(files, statuses.toIndexedSeq())


def qualified(scala: Scala, conf: Any, locations: Any) -> Any:
    """A ``Seq[Path]`` of a ``Seq[URI]``, spelled as their filesystems spell what they list."""
    functions = scala.functions
    paths = locations.map(functions.function(functions.constructor(PATH, "java.net.URI")))
    if paths.isEmpty():
        return paths
    # a location is encoded, so that it has neither white space nor another one's beginning
    stores = {urlsplit(uri)[:2] for uri in scala.text(locations, " ").split()}
    if len(stores) > 1:
        return scala.seq([_qualified(conf, path) for path in each(paths)])
    first = paths.head()
    filesystem = first.getFileSystem(conf)
    if filesystem.makeQualified(first).equals(first):
        return paths
    qualify = functions.method("org.apache.hadoop.fs.FileSystem", "makeQualified", PATH)
    return paths.map(functions.function(functions.bound(qualify, 0, filesystem)))


def _qualified(conf: Any, path: Any) -> Any:
    return path.getFileSystem(conf).makeQualified(path)


def _exists(path: Any, conf: Any) -> bool:
    """Whether there is a directory, or a file."""
    return bool(path.getFileSystem(conf).exists(path))


def right_in(scala: Scala, found: Listing, directories: Sequence[str]) -> Listing:
    """The files that lie right in their directories and are data by their names.

    Spark finds what lies deeper, too, and does not read it as of the directory above.

    Args:
        scala: Of the session's JVM.
        found: All files below the directories.
        directories: As their filesystems spell them.
    """
    above = pc.replace_substring_regex(pa.array(directories, pa.string()), f"^{STORE}", "")
    above = pc.utf8_rtrim(above, "/").take(found.files["partition"])
    parts = pc.extract_regex(found.files["path"], f"^(?:{STORE})?(?P<up>(?s:.*))/(?P<name>[^/]*)$")
    hidden = pc.match_substring_regex(pc.struct_field(parts, "name"), _HIDDEN)
    right = pc.and_(pc.equal(pc.struct_field(parts, "up"), above), pc.invert(hidden))
    kept = pc.indices_nonzero(right)
    if len(kept) == len(found.files):
        return found
    return Listing(found.files.take(kept), scala.positions(kept).map(found.statuses))


def _numbers(texts: Sequence[str]) -> pa.Array:
    return pa.array(texts, pa.string()).cast(pa.int64())


def texts(scala: Scala, *columns: Any) -> list[list[str]]:
    """The items of several collections as texts, in one answer; no item may be an empty text."""
    first, *others = columns
    for column in others:
        first = first.appended("").appendedAll(column)
    found: list[list[str]] = [[]]
    for text in scala.text(first, _END).split(_END):
        if text:
            found[-1].append(text)
        else:
            found.append([])
    return found
