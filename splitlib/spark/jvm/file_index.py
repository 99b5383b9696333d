"""Spark's ``InMemoryFileIndex``, made so that it lists nothing by itself.

Normally it lists its root directories. Here it is given a cache of its own in which it finds each
of them listed already: files that were given, the files of a few partitions, or no file at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.model import FILE_SCHEMA
from splitlib.spark.jvm.file_statuses import FILE_STATUS, file_statuses
from splitlib.spark.jvm.scala import Scala, each

# Indexes are equal when their roots are, and Spark reads once, or takes from its cache, what is
# equal: the root of a scan is a digest of what it reads. Spark takes a root that is not found for
# an empty one; over http listing is an error instead: REFRESH TABLE on a view of the scan fails,
# and the files stay pinned, where they would be forgotten without a word.
PINNED_ROOT: Final = "http://pinned-by-splitlib/"
"""Where the files of a pinned scan seem to lie."""

PATH: Final = "org.apache.hadoop.fs.Path"
_PARTITION = "org.apache.spark.sql.catalyst.catalog.CatalogTablePartition"
_STRUCT = "org.apache.spark.sql.types.StructType"
_ROW = "org.apache.spark.sql.catalyst.InternalRow"
_UNSAFE = "org.apache.spark.sql.catalyst.expressions.Unsafe"
_SPARK = "org.apache.spark.sql.execution.datasources."

# Directories that one thread lists one after the other.
_FEW = 4


def pinned_index(
    scala: Scala, session: Any, files: pa.Table, keys: Any, rows: Any, name: str
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

    Raises:
        RuntimeError: if Spark would read other files than those.
    """
    statuses = file_statuses(scala.jvm, files)
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


def listed_index(
    scala: Scala,
    session: Any,
    listing: Any,
    table: Any,
    keys: Any,
    partitions: Any,
    threads: int,
) -> Any:
    """An index that has listed exactly ``partitions``.

    Spark would build the same index after it has fetched every partition, and would list many
    directories in a job with a task for each. Here each of a few threads has Spark list some on the
    driver, with its own rules for what is a data file. An index takes ten milliseconds to be made,
    whatever it lists, so that there are not too many.

    Args:
        scala: Of the session's JVM.
        session: Spark's, that will read.
        listing: A session that lists any number of directories on the driver.
        table: The ``CatalogTable``.
        keys: The ``StructType`` of the partition columns.
        partitions: A ``Seq[CatalogTablePartition]``.
        threads: How many listings at a time.
    """
    functions = scala.functions
    hadoop_conf = session.sessionState().newHadoopConf()
    rows = partitions.map(_row_of(scala, session, keys))
    paths = _qualified(scala, hadoop_conf, partitions) if partitions.nonEmpty() else partitions
    together = functions.constructor(_SPARK + "PartitionPath", _ROW, PATH)
    directories = rows.lazyZip(paths).map(functions.function(together, 2), scala.build_from)
    cache = _private_cache(scala)
    # Spark refuses to overwrite what it reads, going by the root directories of what it reads
    root = _qualified_one(hadoop_conf, scala.jvm.class_(PATH)(table.location()))
    if not paths.contains(root):  # where a partition may be as well
        cache.putLeafFiles(root, scala.array(FILE_STATUS, scala.nil))
    # options of the table that say which files to list hold for tables without partitions only
    _list(paths, threads, _indexes(scala, listing, keys, cache))
    return _indexes(scala, session, keys, cache, directories)(paths.prepended(root))


def narrowed_index(scala: Scala, session: Any, index: Any, keys: Any, positions: Any = None) -> Any:
    """An index of some partitions of another one, pinned. Nothing is listed.

    Its files stay those that they are, whatever Spark would have an index list again for.

    Args:
        scala: Of the session's JVM.
        session: Spark's, that will read.
        index: The other one.
        keys: The ``StructType`` of the partition columns.
        positions: A ``Seq`` of the numbers of the partitions; None = all.

    Raises:
        RuntimeError: if Spark would read other files than those.
    """
    functions = scala.functions
    directories = index.partitionSpec().partitions()
    kept = index.listFiles(scala.nil, scala.nil)
    if positions is not None:
        directories, kept = positions.map(directories), positions.map(kept)
    statuses = kept.flatMap(_files_of(scala)).map(
        functions.calling(_SPARK + "FileStatusWithMetadata", "fileStatus")
    )
    array = scala.array(FILE_STATUS, statuses)
    name = _digest(scala, index.rootPaths().head().toString(), keys, kept, statuses)
    root = scala.jvm.class_(PATH)(f"{PINNED_ROOT}{name}")
    cache = _private_cache(scala)
    cache.putLeafFiles(root, array)
    narrowed = _indexes(scala, session, keys, cache, directories)(scala.seq([root]))
    if directories.nonEmpty() and not directories.head().path().isAbsolute():
        # of a scan that was pinned by the reader: numbers in the place of directories
        _group_by_partition(scala, narrowed, array)
    read = _files_read(scala, narrowed)
    if read != statuses.size():
        raise RuntimeError(f"Spark would read {read} files of {statuses.size()}.")
    return narrowed


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


def _digest(scala: Scala, root: str, keys: Any, partitions: Any, statuses: Any) -> str:
    """A text that two indexes share only if they have the same files under the same values.

    Args:
        scala: Of the session's JVM.
        root: Of the table.
        keys: The ``StructType`` of the partition columns.
        partitions: A ``Seq[PartitionDirectory]``.
        statuses: A ``Seq[FileStatus]`` of all their files.
    """
    functions, class_ = scala.functions, scala.jvm.class_
    # a row of this kind shows every byte of itself
    projection = scala.jvm.object_(_UNSAFE + "Projection").create(keys)
    to_bytes = functions.bound(
        functions.method(_UNSAFE + "Projection", "apply", _ROW), 0, projection
    )
    shown = functions.then(to_bytes, functions.method(_UNSAFE + "Row", "toString"))
    values = functions.method(_SPARK + "PartitionDirectory", "values")
    path = functions.method(FILE_STATUS, "getPath")
    digest = class_("java.security.MessageDigest").getInstance("SHA-256")
    utf8 = class_("java.nio.charset.StandardCharsets").UTF_8
    digest.update(utf8.encode(root))
    for items, handle in (
        (partitions, functions.then(values, shown)),
        (partitions.map(_files_of(scala)), functions.method("scala.collection.SeqOps", "length")),
        (statuses, functions.then(path, functions.method(PATH, "toString"))),
        (statuses, functions.method(FILE_STATUS, "getLen")),
        (statuses, functions.method(FILE_STATUS, "getModificationTime")),
    ):
        # it stays in the JVM: there may be a hundred thousand files
        text = class_("scala.collection.mutable.StringBuilder")()
        items.map(functions.function(handle)).addString(text, "\n", "\n", "\n")
        digest.update(utf8.encode(class_("java.nio.CharBuffer").wrap(text)))
    return bytes(digest.digest()).hex()


def _list(paths: Any, threads: int, index: Callable[[Any], Any]) -> None:
    """Have directories listed into the cache of an index."""
    size = paths.size()
    if size and paths.head().toUri().getScheme() == "file":
        # nothing is waited for
        threads = min(threads, os.cpu_count() or 1)
    step = max(_FEW, -(-size // threads))
    with ThreadPoolExecutor(threads, thread_name_prefix="splitlib-list") as pool:
        pieces = [paths.slice(start, start + step) for start in range(0, size, step)]
        for listed in [pool.submit(index, piece) for piece in pieces]:
            listed.result()


def _row_of(scala: Scala, session: Any, keys: Any) -> Any:
    """A function from a ``CatalogTablePartition`` to its values."""
    functions = scala.functions
    zone = session.sessionState().conf().sessionLocalTimeZone()
    to_row = functions.method(_PARTITION, "toRow", _STRUCT, "java.lang.String")
    return functions.function(functions.bound(to_row, 1, keys, zone))


def _qualified(scala: Scala, hadoop_conf: Any, partitions: Any) -> Any:
    """The directories, spelled as their filesystem spells what it lists."""
    functions = scala.functions
    uris = partitions.map(functions.calling(_PARTITION, "location"))
    paths = uris.map(functions.function(functions.constructor(PATH, "java.net.URI")))
    # a location is encoded, so that it has neither white space nor another one's beginning
    stores = {urlsplit(uri)[:2] for uri in uris.mkString(" ").split()}
    if len(stores) > 1:
        return scala.seq([_qualified_one(hadoop_conf, path) for path in each(paths)])
    first = paths.head()
    filesystem = first.getFileSystem(hadoop_conf)
    if filesystem.makeQualified(first).equals(first):
        return paths
    qualify = functions.method("org.apache.hadoop.fs.FileSystem", "makeQualified", PATH)
    return paths.map(functions.function(functions.bound(qualify, 0, filesystem)))


def _qualified_one(hadoop_conf: Any, path: Any) -> Any:
    return path.getFileSystem(hadoop_conf).makeQualified(path)
