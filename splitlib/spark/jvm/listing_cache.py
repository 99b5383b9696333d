"""Fill Spark's cache of a table's file listings, so that Spark does not list each directory.

Spark looks up the files of each partition in this cache. Spark clears the cache on
``REFRESH TABLE`` and after it has written to the table.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import pyarrow.compute as pc

from splitlib.spark.jvm.file_statuses import FILE_STATUS
from splitlib.spark.jvm.flat_listing import files_below
from splitlib.spark.jvm.listing import PATH
from splitlib.spark.jvm.scala import Scala

_DATASOURCES: Final = "org.apache.spark.sql.execution.datasources."
_CACHE: Final = _DATASOURCES + "FileStatusCache"
# Paths below a table that Spark ignores because of a file's or a directory's name.
_HIDDEN: Final = r"/(?:_[^=/]*(?:/|$)|\.)|\._COPYING_(?:/|$)"


def fill_listing_cache(scala: Scala, conf: Any, index: Any, partition: str, pages: int) -> int:
    """Add the files of all directories of a table to Spark's cache, if it takes few S3 requests.

    Args:
        scala: The Scala objects of the session's JVM.
        conf: The session's Hadoop configuration.
        index: A ``CatalogFileIndex``.
        partition: The name of any partition. If its files are in the cache, nothing is listed.
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
        shown = pc.indices_nonzero(pc.invert(pc.match_substring_regex(names, _HIDDEN)))
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
