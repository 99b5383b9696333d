"""Compare the column types of ORC files with the table's.

Spark converts a condition for ORC's reader with the types of each file. If a column has another
type in a file, such as INT in place of STRING, the query fails. So a condition may only use columns
of the same type in all files. Conditions on timestamps could lose rows.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from splitlib.config import SplitConfig
from splitlib.errors import SplitlibError
from splitlib.redaction import get_logger
from splitlib.remote.calls import BoundedCalls
from splitlib.statistics.known import is_unchanged
from splitlib.statistics.store import young_since
from splitlib.storage import StoredFile
from splitlib.table import Table

_log = get_logger(__name__)
# Number of bytes to read from the end of a file, for its footer. If a footer is longer, the types
# of the file are unknown.
FOOTER_LENGTH = 2**18
MOST_FILES: Final = 1000
"""Maximum number of files whose types are compared."""
_MOST_KNOWN: Final = 50_000
# ORC stores the minimum and maximum of timestamps as local times of the writer's time zone, and its
# reader converts them with its own time zone. When clocks are set back, the same local times occur
# twice. The reader takes them for the later ones.
_CLOCKS: Final = "are timestamps, which ORC's reader compares wrongly when clocks are set back"

_Kinds = frozenset[tuple[str, str]]
# Columns of each file: pairs of a name in lower case and a kind of type. Files with the same
# columns share one set, from `_distinct`, to save memory.
_known: dict[StoredFile, _Kinds] = {}
_distinct: dict[_Kinds, _Kinds] = {}


class SameTypes(NamedTuple):
    """The columns of a table that have the same kind of type in all files as in the table."""

    columns: pa.Schema
    """The columns. Columns that a file does not have are included."""
    files_read: int
    """Number of footers read in this call, without those that an earlier call has read."""
    reason: str | None
    """Why the other columns are missing, as a part of a sentence; None if there are no others."""


def of_same_type(
    table: Table, files: pa.Table | pa.RecordBatch, columns: pa.Schema, config: SplitConfig
) -> SameTypes:
    """Return the columns that have the same kind of type in all files as in the table.

    If there are more than :data:`MOST_FILES` files, or a file cannot be read, no column is
    returned.

    Args:
        table: Table that the files belong to.
        files: ORC files of the table, with columns ``path``, ``size`` and ``modified``.
        columns: Columns of the table.
        config: Settings, such as the allowed locations.
    """
    if not len(files) or not columns.names:
        return SameTypes(columns, 0, None)
    if len(files) > MOST_FILES:
        many = f"may differ in type in one of more than {MOST_FILES:,} files"
        return SameTypes(pa.schema([]), 0, many)
    every = dict.fromkeys(
        StoredFile(**file) for file in files.select(StoredFile._fields).to_pylist()
    )
    found = {file: kinds for file in every if (kinds := _known.get(file)) is not None}
    if found and table.may_be_old:
        same = is_unchanged(table, files, config)
        paths = set(files["path"].filter(same).to_pylist())
        found = {file: kinds for file, kinds in found.items() if file.path in paths}
    unread = [file for file in every if file not in found]
    newest = young_since(time.time())
    endless = replace(config, enumeration_deadline_seconds=0)
    try:
        with BoundedCalls(endless, Future()) as calls:
            tasks = [calls.submit(partial(_kinds_in, table, file, config)) for file in unread]
            for file, task in zip(unread, tasks, strict=True):
                found[file] = calls.result(task)
    except (SplitlibError, OSError, pa.ArrowException):
        _log.debug("The types of ORC files could not be read.", exc_info=True)
        return SameTypes(
            pa.schema([]), len(unread), "have types that could not be read from all files"
        )
    if len(_known) > _MOST_KNOWN:
        _known.clear()
        _distinct.clear()
    _known.update(
        (file, _distinct.setdefault(kinds, kinds))
        for file, kinds in found.items()
        # Files with an unknown or very recent time are read again in the next call, because a
        # change of such a file could not be noticed.
        if 0 < file.modified < newest
    )
    return _same_types(columns, set(found.values()), len(unread))


def _same_types(columns: pa.Schema, files: Iterable[_Kinds], files_read: int) -> SameTypes:
    stored = set().union(*files)
    same = [
        column
        for column in columns
        if {kind for name, kind in stored if name == column.name.lower()} <= {_kind(column.type)}
    ]
    kept = [column for column in same if not pa.types.is_timestamp(column.type)]
    reasons = ["have other types in some files"] * (len(same) < len(columns))
    reasons += [_CLOCKS] * (len(kept) < len(same))
    return SameTypes(pa.schema(kept), files_read, " or ".join(reasons) or None)


def _kinds_in(table: Table, file: StoredFile, config: SplitConfig) -> _Kinds:
    from pyarrow import orc  # slow to import

    end = table.read_end(file, min(file.size, FOOTER_LENGTH), config)
    schema = orc.ORCFile(pa.PythonFile(_End(end, file.size), mode="r")).schema
    return frozenset((field.name.lower(), _kind(field.type)) for field in schema)


def _kind(kind: pa.DataType) -> str:
    """Return the same name for types that ORC's reader compares with the same literals."""
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind):
        return "floating"
    return str(kind).partition("[")[0].partition("(")[0]


class _End(io.RawIOBase):
    """A file with only its last bytes. Reading the others raises an error.

    Args:
        end: The last bytes.
        size: Size of the file in bytes.
    """

    def __init__(self, end: bytes, size: int) -> None:
        self._end, self._size, self._at = end, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        begin = self._at - (self._size - len(self._end))
        if begin < 0:
            raise OSError("The footer of the ORC file is too long.")
        found = self._end[begin:] if size < 0 else self._end[begin : begin + size]
        self._at += len(found)
        return found
