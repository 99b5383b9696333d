"""Which of some directories each listed file lies in. Pure."""

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
# What precedes the path in a URI as Hadoop's `Path` spells it.
_AUTHORITY = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
# Locations that stay as they are when Hadoop says which filesystem they are on.
_QUALIFIED = re.compile(r"^(file:/|[A-Za-z][A-Za-z0-9+.-]*://[^/]+(/|$))", re.IGNORECASE)
_LIST_BUCKET = "HIVE_DEFAULT_LIST_BUCKETING_DIR_NAME"


def files_by_directory(
    files: pa.Table,
    directories: Sequence[str],
    below: Below = "ignored",
) -> pa.RecordBatch:
    """Files of :data:`FILE_SCHEMA`, whose ``partition`` is the position of their directory.

    Args:
        files: Columns ``path``, ``size``, ``modified``: all that lie in the directories or below.
        directories: Several may be the same.
        below: What is done about files in directories below: they are nobody's, refused if the
            directory's name says ``key=value``, refused, or belong to the directory above.

    Raises:
        SourceError: if a file is in none of the directories: it is not known whose it is.
        UnsupportedTable: if a file is refused.
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
    paths = pc.replace_substring_regex(paths, r"^file:/", "/")  # plain on the local disk
    columns = {"path": paths, "size": files["size"], "modified": files["modified"]}
    listed = pa.table({**columns, _PARENT: parents.indices})
    joined = listed.join(rows, _PARENT, join_type="inner").select(FILE_SCHEMA.names)
    joined = joined.cast(FILE_SCHEMA).combine_chunks()
    batches = joined.to_batches()
    return batches[0] if batches else FILE_SCHEMA.empty_table().to_batches()[0]


class _Places:
    """Directories by their place, however much of their filesystem each spelling says.

    Args:
        directories: As a catalog spells them.
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
        """The positions of a directory; none if it lies below one of those given."""
        rows = self._rows(directory)
        if rows or any(self._rows(above) for above in _above(directory)):
            name = directory.rpartition("/")[2]
            of_keys = refused == "keys refused" and ("=" in name or name == _LIST_BUCKET)
            if not rows and (refused == "refused" or of_keys):
                raise UnsupportedTable(f"Rows may lie below it, in {directory!r}.")
            return rows
        raise SourceError(f"Spark lists files of {directory!r}, which is no directory asked for.")

    def rows_above(self, directory: str) -> list[int]:
        """The positions of a directory and of all above it."""
        found = [row for each in (directory, *_above(directory)) for row in self._rows(each)]
        if not found:
            self.rows_at(directory)
        return found

    def _rows(self, directory: str) -> list[int]:
        spelled = self._by_path.get(_path(directory), {})
        if self._loose.isdisjoint(spelled):
            return spelled.get(directory, [])
        if len(spelled) > 1:
            raise SourceError(f"Which of these directories are the same? {', '.join(spelled)}")
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
