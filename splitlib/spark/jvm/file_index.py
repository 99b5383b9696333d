"""Spark's ``InMemoryFileIndex``, made so that it lists nothing by itself.

Normally it lists its root directories. Here it is given a cache of its own in which it finds each
of them listed already: files that were given, or no file at all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.model import FILE_SCHEMA
from splitlib.spark.jvm.file_statuses import FILE_STATUS, file_statuses
from splitlib.spark.jvm.listing import PATH
from splitlib.spark.jvm.scala import Scala

# Indexes are equal when their roots are, and Spark reads once, or takes from its cache, what is
# equal: the root of a scan is a digest of what it reads. Spark takes a root that is not found for
# an empty one; over http listing is an error instead: REFRESH TABLE on a view of the scan fails,
# and the files stay pinned, where they would be forgotten without a word.
PINNED_ROOT: Final = "http://pinned-by-splitlib/"
"""Where the files of a pinned scan seem to lie."""

_ROW = "org.apache.spark.sql.catalyst.InternalRow"
_BLOCK = "org.apache.hadoop.fs.BlockLocation"
_LOCATED = "org.apache.hadoop.fs.LocatedFileStatus"
_SPARK = "org.apache.spark.sql.execution.datasources."


def pinned_index(
    scala: Scala,
    session: Any,
    files: pa.Table,
    keys: Any,
    rows: Any,
    name: str,
    known: Any = None,
) -> Any:
    """An index of given files. Nothing is looked at, so that they need not exist.

    Which files belong to which partition is set directly: Spark would go by directory, and
    directories may be shared, nested or mixed.

    Args:
        scala: Of the session's JVM.
        session: Spark's, that will read.
        files: The files, with numbers of ``rows`` as partitions.
        keys: The ``StructType`` of the partition columns.
        rows: Their values, an ``Array[InternalRow]``; None = the files have no partitions.
        name: What tells it from other indexes.
        known: The same files as their filesystem shows them, a ``Seq[FileStatus]``: spelled so, and
            with where their blocks lie. None = as ``files`` says.

    Raises:
        RuntimeError: if Spark would read other files than those.
    """
    statuses = file_statuses(scala.jvm, files)
    if known is not None and known.nonEmpty():
        statuses = _as_known(scala, statuses, known)
    root = scala.jvm.class_(PATH)(f"{PINNED_ROOT}{name}")
    cache = _private_cache(scala)
    cache.putLeafFiles(root, statuses)
    directories = scala.nil if rows is None else _numbered_directories(scala, rows)
    # without partitions Spark would look for files right under the root
    options = {"recursiveFileLookup": "true"} if rows is None else {}
    make = _indexes(scala, session, keys, cache, directories, options)
    index = make(scala.seq([root]))
    _group_by_partition(scala, index, statuses)
    distinct = pc.count_distinct(files["path"]).as_py()
    if (_files_read(scala, index), index.allFiles().size()) != (files.num_rows, distinct):
        raise RuntimeError(
            f"Spark took {_files_read(scala, index)} files ({index.allFiles().size()} distinct) "
            f"of {files.num_rows} given"
        )
    return index


def index_of_directory(scala: Scala, session: Any, location: str) -> Any:
    """An index of a directory into which nobody has looked: it seems to be empty."""
    root = scala.jvm.class_(PATH)(location)
    cache = _private_cache(scala)
    cache.putLeafFiles(root, file_statuses(scala.jvm, FILE_SCHEMA.empty_table()))
    return _indexes(scala, session, None, cache)(scala.seq([root]))


def _indexes(
    scala: Scala,
    session: Any,
    keys: Any,
    cache: Any,
    directories: Any = None,
    options: dict[str, str] | None = None,
) -> Callable[[Any], Any]:
    """Makes an index of a ``Seq`` of root paths: the one place where one is made.

    Args:
        scala: Of the session's JVM.
        session: That will list, or read.
        keys: The ``StructType`` of the partition columns; None = whatever directories are named.
        cache: Where the roots are listed already.
        directories: A ``Seq[PartitionPath]``.
        options: Of the data source.
    """
    class_ = scala.jvm.class_(_SPARK + "InMemoryFileIndex")
    schema = spec = scala.none
    if keys is not None:
        listed = scala.nil if directories is None else directories
        spec = scala.some(scala.jvm.class_(_SPARK + "PartitionSpec")(keys, listed))
        schema = scala.some(keys)
    given = scala.map(options or {})
    return lambda roots: class_(session, roots, given, schema, cache, spec, scala.none)


def _as_known(scala: Scala, statuses: Any, known: Any) -> Any:
    """The same ``FileStatus[]`` with what a filesystem has shown of the files."""
    functions, made = scala.functions, scala.seq_of_array(statuses)
    if scala.jvm.is_a(known.head(), _LOCATED):
        blocks = known.map(functions.calling(_LOCATED, "getBlockLocations"))
        located = functions.constructor(_LOCATED, FILE_STATUS, f"[L{_BLOCK};")
        made = made.lazyZip(blocks).map(functions.function(located, 2), scala.build_from)
    paths = known.map(functions.calling(FILE_STATUS, "getPath"))
    spell = functions.method(FILE_STATUS, "setPath", PATH)
    made.lazyZip(paths).foreach(functions.function(spell, 2))
    return scala.array(FILE_STATUS, made)


def _private_cache(scala: Scala) -> Any:
    """The one that all share evicts, and what was evicted is listed again, or is no file."""
    return scala.jvm.class_(_SPARK + "SharedInMemoryCache")(1 << 40, -1).createForNewClient()


def _files_of(scala: Scala) -> Any:
    """A function from a ``PartitionDirectory`` to its files."""
    return scala.functions.calling(_SPARK + "PartitionDirectory", "files")


def _files_read(scala: Scala, index: Any) -> int:
    """How many files Spark would read; one counts for each partition that it belongs to."""
    return int(index.listFiles(scala.nil, scala.nil).flatMap(_files_of(scala)).size())


def _numbered_directories(scala: Scala, rows: Any) -> Any:
    """A ``Seq[PartitionPath]``; the directory of each is just its number."""
    functions = scala.functions
    to_text = functions.method("java.lang.String", "valueOf", "java.lang.Object")
    to_path = functions.then(to_text, functions.constructor(PATH, "java.lang.String"))
    together = functions.constructor(_SPARK + "PartitionPath", _ROW, PATH)
    values = scala.seq_of_array(rows)
    numbers = values.indices().map(functions.function(to_path))
    return values.lazyZip(numbers).map(functions.function(together, 2), scala.build_from)


def _group_by_partition(scala: Scala, index: Any, statuses: Any) -> None:
    """Tell an index which partition each file belongs to, which stands in place of its owner."""
    functions = scala.functions
    owner = functions.method(FILE_STATUS, "getOwner")
    to_path = functions.then(owner, functions.constructor(PATH, "java.lang.String"))
    operations = scala.jvm.object_("scala.collection.ArrayOps")
    grouped = getattr(operations, "groupBy$extension")(statuses, functions.function(to_path))
    _files_by_directory(scala).set(index, grouped)


@lru_cache(maxsize=1)
def _files_by_directory(scala: Scala) -> Any:
    """The field in which an index keeps its files."""
    class_ = scala.jvm.reflected(_SPARK + "InMemoryFileIndex")
    field = class_.getDeclaredField("cachedLeafDirToChildrenFiles")
    field.setAccessible(True)
    return field
