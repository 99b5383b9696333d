"""What Spark keeps of the listings of a table, filled before it would list each directory alone.

Spark looks there for the files of every partition, and clears it when it clears what it has listed
itself: on ``REFRESH TABLE``, and when it has written to the table.
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
# Below a table, what Spark passes over by its name, and all below that.
_HIDDEN: Final = r"/(?:_[^=/]*(?:/|$)|\.)|\._COPYING_(?:/|$)"


def fill_listing_cache(scala: Scala, conf: Any, index: Any, partition: str, pages: int) -> int:
    """Give Spark the files of all directories of a table, if few pages of S3 tell them.

    Args:
        scala: Of the session's JVM.
        conf: Its Hadoop configuration.
        index: A ``CatalogFileIndex``.
        partition: The name of some partition: if Spark knows its files already, nothing is listed.
        pages: How many requests it may take.

    Returns:
        How many it took; 0 = nothing was listed.
    """
    cache = _cache_of(scala).get(index)
    root = index.rootPaths().headOption()
    if root.isEmpty() or "Noop" in cache.getClass().getName():  # Spark is set to keep nothing
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
    """Keep a ``Seq[FileStatus]`` by the directories in which these files are."""
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
    """The field in which an index of a table of the catalog keeps its cache."""
    field = scala.jvm.reflected(_DATASOURCES + "CatalogFileIndex").getDeclaredField(
        "fileStatusCache"
    )
    field.setAccessible(True)
    return field
