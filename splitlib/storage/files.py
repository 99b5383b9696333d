"""What a listing finds, and which of it Spark looks at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.model import FILE_SCHEMA

# Options of Spark's file sources by which a table takes only some of the files it holds.
SELECTING_OPTIONS = frozenset({"pathglobfilter", "modifiedbefore", "modifiedafter"})


class StoredFile(NamedTuple):
    """One file as listed."""

    path: str
    size: int
    modified: int
    """Milliseconds since the epoch, 0 = unknown."""


class Level(NamedTuple):
    """What is directly in a directory, sorted by name, without what Spark does not look at."""

    files: list[StoredFile]
    directories: list[str]
    """Their names."""
    requests: int
    """What it took: pages of a listing."""


def is_data(name: str) -> bool:
    """Whether Spark looks at a file or directory of this name."""
    hidden = name.startswith(".") or (name.startswith("_") and "=" not in name)
    return not hidden and not name.endswith("._COPYING_")


def are_data(names: pa.StringArray) -> pa.BooleanArray:
    """:func:`is_data` of many."""
    return pc.invert(pc.match_substring_regex(names, r"^(\.|_[^=]*$)|\._COPYING_$"))


def of_rows(files: pa.RecordBatch, rows: pa.Array) -> pa.RecordBatch:
    """The same files, of partitions whose rows are at the places that they name in ``rows``."""
    at = files.schema.get_field_index("partition")
    return files.set_column(at, FILE_SCHEMA.field(at), rows.cast(pa.int64()).take(files[at]))


def file_batch(files: Iterable[tuple[int, StoredFile]]) -> pa.RecordBatch:
    """Pairs of partition row and file as a batch of :data:`splitlib.model.FILE_SCHEMA`."""
    rows = [(f.path, f.size, f.modified, partition) for partition, f in files]
    columns = zip(*rows, strict=True) if rows else ((),) * len(FILE_SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, FILE_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)
