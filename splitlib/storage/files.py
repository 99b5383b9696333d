"""The files and directories in a listing, and the rules for names that Spark ignores."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.model import FILE_SCHEMA

# Options of Spark's file sources that select a part of a table's files.
SELECTING_OPTIONS = frozenset(
    {"ignoredpathsegmentregex", "modifiedafter", "modifiedbefore", "pathglobfilter"}
)
# Directory in which a Spark stream logs the files that it has committed. If a table's directory
# contains this log, Spark reads only the logged files, and ignores the partitions in the catalog.
STREAM_LOG = "_spark_metadata"


class StoredFile(NamedTuple):
    """A file in a listing."""

    path: str
    size: int
    """File size in bytes."""
    modified: int
    """Modification time in milliseconds since the epoch; 0 means unknown."""


class Level(NamedTuple):
    """The files and subdirectories directly in a directory, except those that Spark ignores."""

    files: list[StoredFile]
    directories: list[str]
    """Names of the subdirectories, sorted."""
    requests: int
    """Number of list requests (pages) that were sent."""
    hidden: frozenset[str] = frozenset()
    """Names of ignored subdirectories. Some identify a table format, such as ``_delta_log``."""
    hidden_files: frozenset[str] = frozenset()
    """Names of ignored files, such as ``_common_metadata``."""


def is_data(name: str) -> bool:
    """Return whether Spark reads a file with this name."""
    hidden = name.startswith(".") or (name.startswith("_") and "=" not in name)
    return not hidden and not name.endswith("._COPYING_")


def is_searched(name: str) -> bool:
    """Return whether Spark searches a directory with this name for files.

    Spark also searches directories whose names begin like those of Parquet's summary files.
    """
    return is_data(name) or name.startswith(("_metadata", "_common_metadata"))


def of_rows(files: pa.RecordBatch, rows: pa.Array) -> pa.RecordBatch:
    """Return the files with each value ``i`` in column ``partition`` replaced by ``rows[i]``."""
    at = files.schema.get_field_index("partition")
    return files.set_column(at, FILE_SCHEMA.field(at), rows.cast(pa.int64()).take(files[at]))


def file_batch(files: Iterable[tuple[int, StoredFile]]) -> pa.RecordBatch:
    """Convert (partition index, file) pairs to a batch with the schema ``FILE_SCHEMA``."""
    rows = [(f.path, f.size, f.modified, partition) for partition, f in files]
    columns = zip(*rows, strict=True) if rows else ((),) * len(FILE_SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, FILE_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)


def of_directories(
    files: pa.Table, rows: Mapping[str, int], locations: Sequence[str], below: bool
) -> pa.RecordBatch:
    """Return the listed files that are in the directories ``rows``, as a batch.

    Args:
        files: Listed files, with columns ``path``, ``size`` and ``modified``. Files in other
            directories are ignored.
        rows: Index in ``locations`` for each directory, such as ``{"sales/day=1/": 0}``. Keys are
            paths in the bucket, with a slash at the end.
        locations: Directory locations. The returned paths start with these.
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
    """Return each file's directory, as an index into ``prefixes``, and its path in this directory.

    The index is null for files in other directories, and for files that Spark ignores.
    """
    parents = pc.replace_substring_regex(paths, "[^/]*$", "")
    names = pc.replace_substring_regex(paths, "(?s)^.*/", "")
    place = pc.index_in(parents, value_set=pa.array(prefixes))
    ignored = pc.match_substring_regex(names, r"^(\.|_[^=]*$)|\._COPYING_$")
    directly = pc.if_else(ignored, None, place)
    if not below or place.null_count == 0:
        return directly, names
    places, rests = directly.to_pylist(), names.to_pylist()
    # The remaining files are in subdirectories of ``prefixes``, or in other directories.
    others = pc.indices_nonzero(pc.is_null(place))
    for row, path in zip(others.to_pylist(), paths.take(others).to_pylist(), strict=True):
        found = bisect_right(prefixes, path) - 1
        inside = found >= 0 and path.startswith(prefixes[found])
        rests[row] = path[len(prefixes[found]) :] if inside else ""
        *directories, name = rests[row].split("/")
        is_read = inside and is_data(name) and all(map(is_searched, directories))
        places[row] = found if is_read else None
    return pa.array(places, pa.int32()), pa.array(rests, pa.string())
