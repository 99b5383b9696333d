"""Create Spark's ``InMemoryFileIndex`` over a fixed list of files, and read the files of an index.

Spark lists the root directory of an index, unless the index's cache has an entry for this root. So
each index gets a private cache with an entry for its root.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.model import FILE_SCHEMA
from splitlib.spark.jvm.java_handles import (
    FileStatus,
    ForeignObject,
    HadoopPath,
    JavaArray,
    JavaField,
    JavaObject,
    Option,
    Seq,
)
from splitlib.spark.jvm.listing import (
    FILE_STATUS,
    PATH,
    Listing,
    file_statuses,
    files_of,
    hadoop_path,
)
from splitlib.spark.jvm.scala import Scala, each
from splitlib.spark.jvm.spark_handles import (
    CatalystStruct,
    FileIndex,
    InternalRow,
    JvmSession,
    LogicalPlan,
    PartitionDirectory,
)

# If two indexes have equal roots, Spark considers them equal, and reads only one of them or uses
# cached rows. So the root of a scan ends with a digest of its files and partition values.
# The scheme is http because Spark fails when it lists such a root. With another scheme, Spark would
# treat the missing root as empty, and REFRESH TABLE on a view of the scan would drop the files.
PINNED_ROOT: Final = "http://pinned-by-splitlib/"
"""Prefix of the artificial root directory of each scan that reads a fixed list of files (pinned
scan)."""

_ROW = "org.apache.spark.sql.catalyst.InternalRow"
_BLOCK = "org.apache.hadoop.fs.BlockLocation"
_LOCATED = "org.apache.hadoop.fs.LocatedFileStatus"
_SPARK = "org.apache.spark.sql.execution.datasources."


def pinned_index(
    scala: Scala,
    session: JvmSession,
    files: pa.Table,
    keys: CatalystStruct,
    rows: JavaArray[InternalRow] | None,
    name: str,
    known: Seq[FileStatus] | None = None,
) -> FileIndex:
    """Create an index of a fixed list of files. No file is opened, so the files need not exist.

    Each file is assigned to its partition directly. Spark would derive the partition from the
    directory, but several partitions may share a directory, and directories may be nested.

    Args:
        scala: Access to Scala's library in the session's JVM.
        session: The JVM session that reads the files.
        files: The files; column ``partition`` is an index into ``rows``.
        keys: The ``StructType`` of the partition columns.
        rows: Partition values, an ``Array[InternalRow]``; None if the files have no partitions.
        name: Name of the root directory. It must differ for each set of files and partitions.
        known: Hadoop's ``FileStatus`` objects from a listing of the same files, as a ``Seq``. They
            contain the filesystem's paths and block locations. None if the files were not listed.

    Raises:
        RuntimeError: if Spark would not read exactly these files.
    """
    if known is None:
        statuses = file_statuses(scala.jvm, files)
    elif rows is None:
        statuses = scala.array(FILE_STATUS, known)
    else:
        statuses = _as_known(scala, file_statuses(scala.jvm, files), known)
    root = hadoop_path(scala.jvm, f"{PINNED_ROOT}{name}")
    cache = _private_cache(scala)
    cache.putLeafFiles(root, statuses)
    directories = scala.nil if rows is None else _numbered_directories(scala, rows)
    # Without partitions, Spark needs this option to return files that are in subdirectories.
    options = {"recursiveFileLookup": "true"} if rows is None else {}
    make = _indexes(scala, session, keys, cache, directories, options)
    index = make(scala.seq([root]))
    if rows is not None:
        _group_by_partition(scala, index, statuses)
    wanted = (files.num_rows, pc.count_distinct(files["path"]).as_py())
    found = (_files_read(scala, index), index.allFiles().size())
    if found != wanted:
        raise RuntimeError(
            f"Spark would read {found[0]} files ({found[1]} distinct) instead of {wanted[0]} "
            f"({wanted[1]} distinct)"
        )
    return index


def index_of_directory(scala: Scala, session: JvmSession, location: str) -> FileIndex:
    """Create an index of a directory that contains no files, without listing the directory."""
    root = hadoop_path(scala.jvm, location)
    cache = _private_cache(scala)
    cache.putLeafFiles(root, file_statuses(scala.jvm, FILE_SCHEMA.empty_table()))
    return _indexes(scala, session, None, cache)(scala.seq([root]))


def _indexes(
    scala: Scala,
    session: JvmSession,
    keys: CatalystStruct | None,
    cache: ForeignObject,
    directories: Seq[JavaObject] | None = None,
    options: dict[str, str] | None = None,
) -> Callable[[Seq[HadoopPath]], FileIndex]:
    """Return a function that creates an index from a ``Seq`` of root paths.

    Args:
        scala: Access to Scala's library in the session's JVM.
        session: The JVM session of the index.
        keys: The ``StructType`` of the partition columns; None to infer them from directory names.
        cache: A ``FileStatusCache`` that has the files of the roots.
        directories: Directories of the partitions, a ``Seq[PartitionPath]``; None if there are no
            partitions.
        options: Options of the data source.
    """
    class_ = scala.jvm.class_(_SPARK + "InMemoryFileIndex")
    schema: Option[CatalystStruct] = scala.none
    spec: Option[JavaObject] = scala.none
    if keys is not None:
        listed = scala.nil if directories is None else directories
        spec = scala.some(scala.jvm.class_(_SPARK + "PartitionSpec")(keys, listed))
        schema = scala.some(keys)
    given = scala.map(options or {})
    return lambda roots: class_(session, roots, given, schema, cache, spec, scala.none)


def _as_known(
    scala: Scala, statuses: JavaArray[FileStatus], known: Seq[FileStatus]
) -> JavaArray[FileStatus]:
    """Return ``statuses`` with paths and block locations from ``known``, the original listing."""
    functions, made = scala.functions, scala.seq_of_array(statuses)
    # Some listings return no block locations. Copy them only if all statuses have them.
    kinds = scala.mapped(known, functions.calling("java.lang.Object", "getClass")).distinct()
    if kinds.size() == 1 and scala.jvm.is_a(known.head(), _LOCATED):
        blocks = scala.mapped(known, functions.calling(_LOCATED, "getBlockLocations"))
        located = functions.constructor(_LOCATED, FILE_STATUS, f"[L{_BLOCK};")
        made = scala.zipped(functions.function(located, 2), made, blocks)
    paths = scala.mapped(known, functions.calling(FILE_STATUS, "getPath"))
    spell = functions.method(FILE_STATUS, "setPath", PATH)
    scala.zipped(functions.function(spell, 2), made, paths)
    return scala.array(FILE_STATUS, made)


def _private_cache(scala: Scala) -> ForeignObject:
    """Return a cache for one index, large enough to keep all entries.

    Spark's shared cache may evict an entry. Spark would then list the root and find no files.
    """
    shared = scala.jvm.class_(_SPARK + "SharedInMemoryCache")(1 << 40, -1)
    cache: ForeignObject = shared.createForNewClient()
    return cache


def _files_read(scala: Scala, index: FileIndex) -> int:
    """Return how many files Spark would read. A file in two partitions is counted twice."""
    return scala.flat_mapped(
        index.listFiles(scala.nil, scala.nil),
        scala.functions.calling(_SPARK + "PartitionDirectory", "files"),
    ).size()


def _numbered_directories(scala: Scala, rows: JavaArray[InternalRow]) -> Seq[JavaObject]:
    """Return a ``Seq[PartitionPath]`` that gives each partition an artificial directory.

    The name of the directory is the partition's row number in ``rows``.
    """
    functions = scala.functions
    to_text = functions.method("java.lang.String", "valueOf", "java.lang.Object")
    to_path = functions.then(to_text, functions.constructor(PATH, "java.lang.String"))
    together = functions.constructor(_SPARK + "PartitionPath", _ROW, PATH)
    values = scala.seq_of_array(rows)
    numbers = scala.mapped(values.indices(), functions.function(to_path))
    return scala.zipped(functions.function(together, 2), values, numbers)


def _group_by_partition(scala: Scala, index: FileIndex, statuses: JavaArray[FileStatus]) -> None:
    """Group the files of an index by partition, and store the groups in the index.

    The field ``owner`` of each ``FileStatus`` holds the number of the file's partition.
    """
    functions = scala.functions
    owner = functions.method(FILE_STATUS, "getOwner")
    to_path = functions.then(owner, functions.constructor(PATH, "java.lang.String"))
    grouped = scala.grouped(statuses, functions.function(to_path))
    _files_by_directory(scala).set(index, grouped)


@lru_cache(maxsize=1)
def _files_by_directory(scala: Scala) -> JavaField:
    """Return the private field of ``InMemoryFileIndex`` that holds the files of each directory."""
    class_ = scala.jvm.reflected(_SPARK + "InMemoryFileIndex")
    field = class_.getDeclaredField("cachedLeafDirToChildrenFiles")
    field.setAccessible(True)
    return field


def directories_of(scala: Scala, index: FileIndex) -> Seq[PartitionDirectory]:
    """Return all partitions of an ``InMemoryFileIndex``, a ``Seq[PartitionDirectory]``."""
    return index.listFiles(scala.nil, scala.nil)


def some_files_of(scala: Scala, index: FileIndex, most: int) -> pa.RecordBatch:
    """Return up to ``most`` files of an ``InMemoryFileIndex``, spread evenly over the index."""
    functions = scala.functions
    files = functions.calling(_SPARK + "PartitionDirectory", "files")
    status = functions.calling(_SPARK + "FileStatusWithMetadata", "fileStatus")
    found = scala.flat_mapped(directories_of(scala, index), files).toIndexedSeq()
    number = min(most, found.size())
    rows = pa.array([i * found.size() // number for i in range(number)], pa.int64())
    some = scala.mapped(scala.positions(rows), found, status)
    return files_of(scala, some, scala.seq([number])).files


def files_in(scala: Scala, directories: Seq[PartitionDirectory]) -> Listing:
    """Return the files of a ``Seq[PartitionDirectory]`` as a listing."""
    functions = scala.functions
    files = functions.calling(_SPARK + "PartitionDirectory", "files")
    length = functions.calling(scala.operations, "length")
    lengths = scala.mapped(directories, files, length)
    status = functions.calling(_SPARK + "FileStatusWithMetadata", "fileStatus")
    found = scala.mapped(scala.flat_mapped(directories, files), status)
    return files_of(scala, found, lengths)


def rows_of(
    scala: Scala, directories: Seq[PartitionDirectory], positions: pa.Array | None = None
) -> JavaArray[InternalRow]:
    """Return the partition values of a ``Seq[PartitionDirectory]``, an ``Array[InternalRow]``.

    Args:
        scala: Access to Scala's library in the session's JVM.
        directories: The partitions.
        positions: Positions of the partitions to return; None for all.
    """
    if positions is not None:
        directories = scala.mapped(scala.positions(positions), directories)
    values = scala.functions.calling(_SPARK + "PartitionDirectory", "values")
    return scala.array(_ROW, scala.mapped(directories, values))


def pinned_roots(scala: Scala, plan: LogicalPlan) -> frozenset[str]:
    """Return the artificial root directories of all pinned scans in a plan and its subqueries."""
    functions, found = scala.functions, set[str]()
    for part in (plan, *each(plan.subqueriesAll())):
        leaves = part.collectLeaves().filter(functions.instance_of(_SPARK + "LogicalRelation"))
        relations = scala.mapped(leaves, functions.calling(_SPARK + "LogicalRelation", "relation"))
        of_files = relations.filter(functions.instance_of(_SPARK + "HadoopFsRelation"))
        roots = scala.mapped(
            of_files,
            functions.calling(_SPARK + "HadoopFsRelation", "location"),
            functions.calling(_SPARK + "FileIndex", "rootPaths"),
            functions.calling(scala.operations, "headOption"),
        )
        found.update(scala.texts(roots))
    # The texts are those of Scala options, such as ``Some(/path)``.
    names = (text.removeprefix("Some(").removesuffix(")") for text in found)
    return frozenset(name for name in names if name.startswith(PINNED_ROOT))
