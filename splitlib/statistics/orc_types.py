"""Compare the column types of ORC files with the table's.

Spark converts a condition for ORC's reader with the types of each file. If a column has another
type in a file, such as INT in place of STRING, the query fails.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.config import SplitConfig
from splitlib.errors import SplitlibError
from splitlib.redaction import get_logger
from splitlib.remote.calls import run_bounded
from splitlib.storage import StoredFile
from splitlib.table import Table

_log = get_logger(__name__)
# Number of bytes to read from the end of a file, for its footer. A longer footer is not read.
FOOTER_LENGTH = 2**18


def of_same_type(
    table: Table, files: pa.Table | pa.RecordBatch, columns: pa.Schema, config: SplitConfig
) -> tuple[pa.Schema, int]:
    """Return the columns that have types of the table's kind in the oldest and the newest file.

    Columns that a file does not have are included. If a file cannot be read, no column is returned.
    The second result is the number of files read.

    Args:
        table: Table that the files belong to.
        files: ORC files of the table, with columns ``path``, ``size`` and ``modified``.
        columns: Columns of the table.
        config: Settings, such as the allowed locations.
    """
    if not len(files) or not columns.names:
        return columns, 0
    ends = pc.unique(pc.sort_indices(files["modified"]).take(pa.array([0, len(files) - 1])))
    some = files.select(StoredFile._fields).take(ends).to_pylist()
    try:
        stored = run_bounded(
            lambda: [_schema(table, StoredFile(**file), config) for file in some], config
        )
    except (SplitlibError, OSError, pa.ArrowException):
        _log.debug("The types of ORC files could not be read.", exc_info=True)
        return pa.schema([]), len(some)
    kinds = [{field.name.lower(): _kind(field.type) for field in schema} for schema in stored]
    same = [
        column
        for column in columns
        if {known.get(column.name.lower()) for known in kinds} <= {None, _kind(column.type)}
    ]
    return pa.schema(same), len(some)


def _schema(table: Table, file: StoredFile, config: SplitConfig) -> pa.Schema:
    from pyarrow import orc  # slow to import

    end = table.read_end(file, min(file.size, FOOTER_LENGTH), config)
    return orc.ORCFile(pa.PythonFile(_End(end, file.size), mode="r")).schema


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
