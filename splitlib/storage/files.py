"""Entries of a directory listing, and the rules for names that Spark ignores."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.model import FILE_SCHEMA

# Options of Spark's file sources that select a part of a table's files.
SELECTING_OPTIONS = frozenset({"pathglobfilter", "modifiedbefore", "modifiedafter"})


class StoredFile(NamedTuple):
    """A file in a listing."""

    path: str
    size: int
    modified: int
    """Modification time in milliseconds since the epoch; 0 = unknown."""


class Level(NamedTuple):
    """The entries directly in a directory, sorted by name, without entries that Spark ignores."""

    files: list[StoredFile]
    directories: list[str]
    """Names of the subdirectories."""
    requests: int
    """Number of requests, or pages, that the listing took."""
    hidden: frozenset[str] = frozenset()
    """Names of ignored subdirectories. They show which system manages the table."""


def is_data(name: str) -> bool:
    """Whether Spark reads a file or directory with this name."""
    hidden = name.startswith(".") or (name.startswith("_") and "=" not in name)
    return not hidden and not name.endswith("._COPYING_")


def are_data(names: pa.StringArray) -> pa.BooleanArray:
    """Apply :func:`is_data` to an array of names."""
    return pc.invert(pc.match_substring_regex(names, r"^(\.|_[^=]*$)|\._COPYING_$"))


def of_rows(files: pa.RecordBatch, rows: pa.Array) -> pa.RecordBatch:
    """Replace the partition row of each file: row ``i`` becomes ``rows[i]``."""
    at = files.schema.get_field_index("partition")
    return files.set_column(at, FILE_SCHEMA.field(at), rows.cast(pa.int64()).take(files[at]))


def file_batch(files: Iterable[tuple[int, StoredFile]]) -> pa.RecordBatch:
    """Convert pairs of partition row and file to a batch of :data:`splitlib.model.FILE_SCHEMA`."""
    rows = [(f.path, f.size, f.modified, partition) for partition, f in files]
    columns = zip(*rows, strict=True) if rows else ((),) * len(FILE_SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, FILE_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)


def of_directories(
    files: pa.Table, rows: Mapping[str, int], locations: Sequence[str], below: bool
) -> pa.RecordBatch:
    """Return the listed files that are in the given directories.

    Args:
        files: Columns ``path``, ``size`` and ``modified``. May contain files elsewhere.
        rows: Index of a directory in ``locations`` by its prefix.
        locations: Locations of the directories, in the spelling for the resulting paths.
        below: Whether to include files in subdirectories.
    """
    prefixes = sorted(rows)
    directory, rest = _placed(files["path"].combine_chunks(), prefixes, below)
    wanted = pc.indices_nonzero(pc.is_valid(directory))
    row = pa.array([rows[prefix] for prefix in prefixes], pa.int64())
    row = row.take(directory.take(wanted))
    bases = pa.array([f"{location.rstrip('/')}/" for location in locations])
    path = pc.binary_join_element_wise(bases.take(row), rest.take(wanted), "")
    sizes, times = (files[c].combine_chunks().take(wanted) for c in ("size", "modified"))
    return pa.RecordBatch.from_arrays([path, sizes, times, row], schema=FILE_SCHEMA)


def _placed(
    paths: pa.StringArray, prefixes: list[str], below: bool
) -> tuple[pa.Int32Array, pa.StringArray]:
    """Return the directory of each file (null = none of them), and its path in the directory."""
    parents = pc.replace_substring_regex(paths, "[^/]*$", "")
    names = pc.replace_substring_regex(paths, "(?s)^.*/", "")
    place = pc.index_in(parents, value_set=pa.array(prefixes))
    directly = pc.if_else(are_data(names), place, None)
    if not below or place.null_count == 0:
        return directly, names
    places, rests = directly.to_pylist(), names.to_pylist()
    others = pc.indices_nonzero(pc.is_null(place))  # in subdirectories or elsewhere
    for row, path in zip(others.to_pylist(), paths.take(others).to_pylist(), strict=True):
        found = bisect_right(prefixes, path) - 1
        inside = found >= 0 and path.startswith(prefixes[found])
        rests[row] = path[len(prefixes[found]) :] if inside else ""
        places[row] = found if inside and all(map(is_data, rests[row].split("/"))) else None
    return pa.array(places, pa.int32()), pa.array(rests, pa.string())
