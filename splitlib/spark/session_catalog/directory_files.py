"""Assign listed files to the directories that contain them, without access to storage."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import SourceError, UnsupportedTable
from splitlib.model import FILE_SCHEMA
from splitlib.spark.file_scan import canonical_paths

Below = Literal["ignored", "keys refused", "refused", "read"]

_PARENT = "parent"
# Scheme and authority of a URI, in the spelling of Hadoop's `Path`.
_AUTHORITY = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
# Locations with scheme and host. If one is missing, Hadoop adds its default when it lists the
# location.
_QUALIFIED = re.compile(r"^(file:/|[A-Za-z][A-Za-z0-9+.-]*://[^/]+(/|$))", re.IGNORECASE)
_LIST_BUCKET = "HIVE_DEFAULT_LIST_BUCKETING_DIR_NAME"


def files_by_directory(
    files: pa.Table,
    directories: Sequence[str],
    below: Below = "ignored",
) -> pa.RecordBatch:
    """Return the files of each directory, as a batch with the columns of :data:`FILE_SCHEMA`.

    ``partition`` is the position of the file's directory in ``directories``.

    Args:
        files: All files in or below the directories, with columns ``path``, ``size``, ``modified``.
        directories: The directories. A directory may occur several times.
        below: Treatment of files in subdirectories. ``read`` assigns them to all directories above
            them. ``ignored`` drops them. ``keys refused`` also drops them, but raises an error if
            the name of the subdirectory contains ``=``. ``refused`` always raises an error.

    Raises:
        SourceError: if a file is in none of the directories.
        UnsupportedTable: if a file in a subdirectory is refused.
    """
    paths = canonical_paths(files["path"])
    parents = pc.replace_substring_regex(paths, r"/[^/]*$", "").dictionary_encode()
    parents = parents.combine_chunks()
    places = _Places(directories)
    rows_of = places.rows_above if below == "read" else partial(places.rows_at, refused=below)
    pairs = [
        (number, row)
        for number, parent in enumerate(parents.dictionary.to_pylist())
        for row in rows_of(parent)
    ]
    rows = pa.table(
        {
            _PARENT: pa.array([number for number, _ in pairs], pa.int32()),
            "partition": pa.array([row for _, row in pairs], pa.int64()),
        }
    )
    paths = pc.replace_substring_regex(paths, r"^file:/", "/")  # local paths have no scheme
    columns = {"path": paths, "size": files["size"], "modified": files["modified"]}
    listed = pa.table({**columns, _PARENT: parents.indices})
    joined = listed.join(rows, _PARENT, join_type="inner").select(FILE_SCHEMA.names)
    joined = joined.cast(FILE_SCHEMA).combine_chunks()
    batches = joined.to_batches()
    return batches[0] if batches else FILE_SCHEMA.empty_table().to_batches()[0]


class _Places:
    """Looks up directories by path, even if their locations lack a scheme or host.

    Args:
        directories: Locations from a catalog.
    """

    def __init__(self, directories: Sequence[str]) -> None:
        self._by_path: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
        self._loose: set[str] = set()
        spelled = canonical_paths(pa.array(directories, pa.string())).to_pylist()
        for row, (given, text) in enumerate(zip(directories, spelled, strict=True)):
            place = text.rstrip("/")
            self._by_path[_path(place)].setdefault(place, []).append(row)
            if not _QUALIFIED.match(given):
                self._loose.add(place)

    def rows_at(self, directory: str, *, refused: Below = "ignored") -> list[int]:
        """Return the positions of a directory in the request; empty for an ignored subdirectory."""
        rows = self._rows(directory)
        if rows or any(self._rows(above) for above in _above(directory)):
            name = directory.rpartition("/")[2]
            of_keys = refused == "keys refused" and ("=" in name or name == _LIST_BUCKET)
            if not rows and (refused == "refused" or of_keys):
                raise UnsupportedTable(f"The subdirectory {directory!r} may contain table rows.")
            return rows
        raise SourceError(f"Spark listed files in {directory!r}, which was not requested.")

    def rows_above(self, directory: str) -> list[int]:
        """Return the indexes of a directory and its parents among the requested directories."""
        found = [row for each in (directory, *_above(directory)) for row in self._rows(each)]
        if not found:
            self.rows_at(directory)
        return found

    def _rows(self, directory: str) -> list[int]:
        spelled = self._by_path.get(_path(directory), {})
        if self._loose.isdisjoint(spelled):
            return spelled.get(directory, [])
        if len(spelled) > 1:
            raise SourceError(f"These locations may be the same directory: {', '.join(spelled)}.")
        (rows,) = spelled.values()
        return rows


def _path(place: str) -> str:
    return _AUTHORITY.sub("", place)


def _above(directory: str) -> Iterator[str]:
    root = _AUTHORITY.match(directory)
    shortest = len(root[0]) if root else 0
    while (cut := directory.rfind("/")) >= shortest:
        directory = directory[:cut]
        yield directory
