"""Read the footer of a Parquet file. Python reads the bytes, and Arrow parses them."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

# A Parquet file ends with the footer's length (4 bytes, little endian) and the text "PAR1".
_END_BYTES = 8
# Number of bytes to read first, as Arrow does; most footers are smaller.
_FIRST_BYTES = 1 << 16


def read_schema(file: Any) -> pa.Schema:
    """Read the Arrow schema from the footer of a Parquet file, with the file's metadata.

    Arrow gets the bytes, not the file. If Arrow called back into Python to read, and the storage
    hung, the blocked thread would abort the process at exit.

    Args:
        file: File open for reading, with ``seek`` and ``read``.

    Raises:
        pyarrow.ArrowInvalid: if the file is not a Parquet file.
    """
    from pyarrow import parquet  # slow to import, and needed only for tables without a schema

    return parquet.read_schema(pa.BufferReader(_footer(file)))


def read_metadata(file: Any) -> Any:
    """Read the whole footer of a Parquet file, as a ``pyarrow.parquet.FileMetaData``."""
    from pyarrow import parquet

    return parquet.read_metadata(pa.BufferReader(_footer(file)))


def _footer(file: Any) -> bytes:
    """Return the last bytes of the file, which include the footer."""
    file.seek(0, os.SEEK_END)
    size = file.tell()
    end = _last(file, size, _FIRST_BYTES)
    wanted = int.from_bytes(end[-_END_BYTES:-4], "little") + _END_BYTES
    if len(end) < wanted <= size:
        end = _last(file, size, wanted)
    return end


def _last(file: Any, size: int, wanted: int) -> bytes:
    file.seek(max(0, size - wanted))
    data: bytes = file.read(min(size, wanted))
    return data
