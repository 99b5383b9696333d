"""Spark's own file index over some partitions of a table, with their files known beforehand.

Spark would build the same index after it has fetched every partition, and would list many
directories in a job with a task for each. Here each of a few threads has it list some on the
driver, with its own rules for what is a data file, into a cache that the index then finds full.
An index takes ten milliseconds to be made, whatever it lists, so that there are not too many.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from splitlib.spark.jvm.catalyst import Catalyst, each
from splitlib.spark.jvm.pinned_relation import PINNED_ROOT, group_by_partition
from splitlib.spark.time_zones import session_time_zone

_PARTITION = "org.apache.spark.sql.catalyst.catalog.CatalogTablePartition"
_PATH = "org.apache.hadoop.fs.Path"
_STRUCT = "org.apache.spark.sql.types.StructType"
_ROW = "org.apache.spark.sql.catalyst.InternalRow"
_UNSAFE = "org.apache.spark.sql.catalyst.expressions.Unsafe"
_SPARK = "org.apache.spark.sql.execution.datasources."

# Directories that one thread lists one after the other.
_FEW = 4


def listed_index(catalyst: Catalyst, table: Any, keys: Any, partitions: Any, threads: int) -> Any:
    """An ``InMemoryFileIndex`` that has listed exactly ``partitions``.

    Args:
        catalyst: Of the session that will read.
        table: The ``CatalogTable``.
        keys: The ``StructType`` of the partition columns.
        partitions: A ``Seq[CatalogTablePartition]``.
        threads: How many listings at a time.
    """
    functions = catalyst.functions
    rows = partitions.map(_row_of(catalyst, keys))
    paths = _qualified(catalyst, partitions) if partitions.nonEmpty() else partitions
    together = functions.constructor(_SPARK + "PartitionPath", _ROW, _PATH)
    directories = rows.lazyZip(paths).map(functions.function(together, 2), catalyst.build_from)
    cache = _private_cache(catalyst)
    # Spark refuses to overwrite what it reads, going by the root directories of what it reads
    root = _qualified_one(catalyst, catalyst.jvm.class_(_PATH)(table.location()))
    if not paths.contains(root):  # where a partition may be as well
        cache.putLeafFiles(root, _no_files(catalyst))
    # options of the table that say which files to list hold for tables without partitions only
    options = catalyst.empty_map
    # the planner's own session lists any number of directories on the driver
    index = _indexes(catalyst, catalyst.own_session, options, keys, cache, catalyst.seq([]))
    _list(paths, threads, index)
    index = _indexes(catalyst, catalyst.session, options, keys, cache, directories)
    return index(paths.prepended(root))


def narrowed_index(catalyst: Catalyst, index: Any, keys: Any, positions: Any = None) -> Any:
    """An ``InMemoryFileIndex`` of some partitions of another one, pinned. Nothing is listed.

    Its files stay those that they are, whatever Spark would have an index list again for.

    Args:
        catalyst: Of the session that will read.
        index: The other one.
        keys: The ``StructType`` of the partition columns.
        positions: A ``Seq`` of the numbers of the partitions; None = all.

    Raises:
        RuntimeError: if Spark would read other files than those.
    """
    functions = catalyst.functions
    directories = index.partitionSpec().partitions()
    files = functions.method(_SPARK + "PartitionDirectory", "files")
    status = functions.method(_SPARK + "FileStatusWithMetadata", "fileStatus")
    nothing = catalyst.seq([])
    kept = index.listFiles(nothing, nothing)
    if positions is not None:
        directories, kept = positions.map(directories), positions.map(kept)
    statuses = kept.flatMap(functions.function(files)).map(functions.function(status))
    array = catalyst.array("org.apache.hadoop.fs.FileStatus", statuses)
    # indexes are equal when their roots are
    name = _digest(catalyst, index.rootPaths().head().toString(), keys, kept, statuses)
    root = catalyst.jvm.class_(_PATH)(f"{PINNED_ROOT}{name}")
    cache = _private_cache(catalyst)
    cache.putLeafFiles(root, array)
    new = _indexes(catalyst, catalyst.session, catalyst.empty_map, keys, cache, directories)
    narrowed = new(catalyst.seq([root]))
    if directories.nonEmpty() and not directories.head().path().isAbsolute():
        # of a scan that was pinned by the reader: numbers in the place of directories
        group_by_partition(catalyst.spark, narrowed, array)
    read = narrowed.listFiles(nothing, nothing).flatMap(functions.function(files)).size()
    if read != statuses.size():
        raise RuntimeError(f"Spark would read {read} files of {statuses.size()}.")
    return narrowed


def _digest(catalyst: Catalyst, root: str, keys: Any, partitions: Any, statuses: Any) -> str:
    """A text that two indexes share only if they have the same files under the same values.

    Args:
        catalyst: Of the session that will read.
        root: Of the table.
        keys: The ``StructType`` of the partition columns.
        partitions: A ``Seq[PartitionDirectory]``.
        statuses: A ``Seq[FileStatus]`` of all their files.
    """
    functions, class_ = catalyst.functions, catalyst.jvm.class_
    directory, status = _SPARK + "PartitionDirectory", "org.apache.hadoop.fs.FileStatus"
    # a row of this kind shows every byte of itself
    projection = catalyst.jvm.object_(_UNSAFE + "Projection").create(keys)
    to_bytes = functions.bound(
        functions.method(_UNSAFE + "Projection", "apply", _ROW), 0, projection
    )
    shown = functions.then(to_bytes, functions.method(_UNSAFE + "Row", "toString"))
    files = functions.function(functions.method(directory, "files"))
    path = functions.method(status, "getPath")
    digest = class_("java.security.MessageDigest").getInstance("SHA-256")
    utf8 = class_("java.nio.charset.StandardCharsets").UTF_8
    digest.update(utf8.encode(root))
    for items, handle in (
        (partitions, functions.then(functions.method(directory, "values"), shown)),
        (partitions.map(files), functions.method("scala.collection.SeqOps", "length")),
        (statuses, functions.then(path, functions.method(_PATH, "toString"))),
        (statuses, functions.method(status, "getLen")),
        (statuses, functions.method(status, "getModificationTime")),
    ):
        # it stays in the JVM: there may be a hundred thousand files
        text = class_("scala.collection.mutable.StringBuilder")()
        items.map(functions.function(handle)).addString(text, "\n", "\n", "\n")
        digest.update(utf8.encode(class_("java.nio.CharBuffer").wrap(text)))
    return bytes(digest.digest()).hex()


def _indexes(
    catalyst: Catalyst, session: Any, options: Any, keys: Any, cache: Any, directories: Any
) -> Callable[[Any], Any]:
    """Makes an index of some root paths."""
    index = catalyst.jvm.class_(_SPARK + "InMemoryFileIndex")
    spec = catalyst.some(catalyst.jvm.class_(_SPARK + "PartitionSpec")(keys, directories))
    schema = catalyst.some(keys)
    return lambda roots: index(session, roots, options, schema, cache, spec, catalyst.none)


def _private_cache(catalyst: Catalyst) -> Any:
    """The one that all share evicts, and what was evicted would be listed again."""
    return catalyst.jvm.class_(_SPARK + "SharedInMemoryCache")(1 << 40, -1).createForNewClient()


def _no_files(catalyst: Catalyst) -> Any:
    return catalyst.array("org.apache.hadoop.fs.FileStatus", catalyst.seq([]))


def _list(paths: Any, threads: int, index: Callable[[Any], Any]) -> None:
    size = paths.size()
    if size and paths.head().toUri().getScheme() == "file":
        # nothing is waited for
        threads = min(threads, os.cpu_count() or 1)
    step = max(_FEW, -(-size // threads))
    with ThreadPoolExecutor(threads, thread_name_prefix="splitlib-list") as pool:
        pieces = [paths.slice(start, start + step) for start in range(0, size, step)]
        for listed in [pool.submit(index, piece) for piece in pieces]:
            listed.result()


def _row_of(catalyst: Catalyst, keys: Any) -> Any:
    functions = catalyst.functions
    zone = session_time_zone(catalyst.spark)
    to_row = functions.method(_PARTITION, "toRow", _STRUCT, "java.lang.String")
    return functions.function(functions.bound(to_row, 1, keys, zone))


def _qualified(catalyst: Catalyst, partitions: Any) -> Any:
    """The directories, spelled as their filesystem spells what it lists."""
    functions = catalyst.functions
    location = functions.method(_PARTITION, "location")
    uris = partitions.map(functions.function(location))
    paths = uris.map(functions.function(functions.constructor(_PATH, "java.net.URI")))
    # a location is encoded, so that it has neither white space nor another one's beginning
    stores = {urlsplit(uri)[:2] for uri in uris.mkString(" ").split()}
    if len(stores) > 1:
        return catalyst.seq([_qualified_one(catalyst, path) for path in each(paths)])
    first = paths.head()
    filesystem = first.getFileSystem(catalyst.hadoop_conf)
    if filesystem.makeQualified(first).equals(first):
        return paths
    qualify = functions.method("org.apache.hadoop.fs.FileSystem", "makeQualified", _PATH)
    return paths.map(functions.function(functions.bound(qualify, 0, filesystem)))


def _qualified_one(catalyst: Catalyst, path: Any) -> Any:
    return path.getFileSystem(catalyst.hadoop_conf).makeQualified(path)
