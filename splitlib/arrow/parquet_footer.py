"""The columns of a Parquet file, from bytes that are read in Python."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

# After the footer: its length in 4 bytes, little endian, and the name of the format.
_END_BYTES = 8
# What Arrow reads first, too: more than most footers take.
_FIRST_BYTES = 1 << 16


def read_schema(file: Any) -> pa.Schema:
    """The schema in the footer of a Parquet file, with Arrow's and the file's own metadata.

    Arrow is given bytes and not the file: a thread in which Arrow has called back into Python, to
    read from a storage that hangs, aborts the process when that is about to end.

    Args:
        file: Open for reading, with ``seek`` and ``read``.

    Raises:
        pyarrow.ArrowInvalid: if it is no such file.
    """
    from pyarrow import parquet  # dear to import, and for tables that declare nothing

    return parquet.read_schema(pa.BufferReader(_footer(file)))


def read_metadata(file: Any) -> Any:
    """The whole footer, a ``pyarrow.parquet.FileMetaData``; otherwise as :func:`read_schema`."""
    from pyarrow import parquet

    return parquet.read_metadata(pa.BufferReader(_footer(file)))


def _footer(file: Any) -> bytes:
    """The last bytes of the file, the footer among them."""
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
