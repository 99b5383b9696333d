"""Read the footer of a Parquet file. Python reads the bytes, and Arrow parses them.

Arrow does not get the file object itself. If Arrow read through Python and the storage
did not respond, the blocked Arrow thread would abort the process at exit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from splitlib.model import FIELD_ID

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

# A Parquet file ends with the footer's length (4 bytes, little endian) and the text "PAR1".
_END_BYTES: Final = 8
# Thrift encoding of a ``ColumnOrder``. In 2026, Parquet got orders in addition to TYPE_ORDER.
_ORDER: Final = re.compile(rb"[\x1c\x2c\x3c]\x00\x00")
_TYPE_ORDER: Final = b"\x1c\x00\x00"
# Number of bytes to read first. Arrow uses the same number. Most footers are smaller.
_FIRST_BYTES: Final = 1 << 16


def read_schema(file: Any) -> pa.Schema:
    """Read the Arrow schema from the footer of a Parquet file, including the schema's metadata.

    Args:
        file: File object that is open for reading, with ``seek`` and ``read``.

    Raises:
        pyarrow.ArrowInvalid: if the file is not a Parquet file.
    """
    from pyarrow import parquet  # Slow to import, and used only for tables without a schema.

    return parquet.read_schema(pa.BufferReader(_footer_of(file)))


class Footer(NamedTuple):
    """The footer of a Parquet file."""

    metadata: FileMetaData
    ordered: tuple[bool, ...]
    """For each column, whether the file declares that its bounds use the order of the column's
    type. Old writers do not declare it. They compare unsigned integers, and the bytes of text and
    decimals, as signed numbers. So their bounds may be wrong."""


def read_footer(file: Any) -> Footer:
    """Read the footer of a Parquet file.

    Raises:
        pyarrow.ArrowException, OSError: see :func:`parse_footer`.
    """
    return parse_footer(_footer_of(file))


def parse_footer(end: bytes) -> Footer:
    """Parse the footer in the last bytes of a Parquet file.

    Files with encrypted columns are rejected. Their footer may be signed but not encrypted. Arrow
    parses such a footer, but aborts the process when an encrypted column's statistics are accessed.

    Raises:
        pyarrow.ArrowException, OSError: if the bytes are not a footer, or the footer is
            encrypted or signed.
    """
    from pyarrow import parquet

    metadata = parquet.read_metadata(pa.BufferReader(end))
    # A signed footer is longer than its metadata, because a signature follows.
    if metadata.serialized_size != _length(end):
        raise pa.ArrowInvalid("Columns of the Parquet file may be encrypted.")
    # In a footer that is neither encrypted nor signed, the list of column orders comes last.
    return Footer(metadata, _ordered(end[:-_END_BYTES], metadata.num_columns))


def _ordered(thrift: bytes, columns: int) -> tuple[bool, ...]:
    """Return for each column whether the last field of a footer gives it the order of its type."""
    size = len(_TYPE_ORDER)
    end = len(thrift) - 1  # a zero byte ends the footer
    orders = [thrift[at : at + size] for at in range(end - size * columns, end, size)]
    if thrift[end:] != b"\x00" or not all(map(_ORDER.fullmatch, orders)):
        return (False,) * columns
    return tuple(order == _TYPE_ORDER for order in orders)


def names_by_id(schema: pa.Schema) -> dict[int, str]:
    """Return the names of the columns in a file's schema by field id, including nested columns."""
    return dict(_by_field_id(schema))


def _by_field_id(fields: Iterable[pa.Field]) -> Iterator[tuple[int, str]]:
    for field in fields:
        identifier = (field.metadata or {}).get(FIELD_ID)
        if identifier is not None:
            yield int(identifier), field.name
        kind = field.type
        if pa.types.is_map(kind):
            yield from _by_field_id([kind.key_field, kind.item_field])
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            yield from _by_field_id([kind.value_field])
        elif pa.types.is_struct(kind):
            yield from _by_field_id(kind)


def footer(size: int, last: Callable[[int], bytes], most_bytes: int | None = None) -> bytes:
    """Return the last bytes of a Parquet file, which include the footer.

    Args:
        size: Size of the file, in bytes.
        last: Function that takes a number of bytes and returns that many bytes from the end of the
            file. It is called once, or twice for a large footer.
        most_bytes: Maximum size of the footer, in bytes; None means no limit.

    Raises:
        pyarrow.ArrowInvalid: if the footer is larger than ``most_bytes``.
    """
    end = last(min(size, _FIRST_BYTES))
    wanted = _length(end) + _END_BYTES
    if len(end) >= wanted or wanted > size:
        return end
    if most_bytes is not None and wanted > most_bytes:
        raise pa.ArrowInvalid(f"The footer has {wanted} bytes, above the limit of {most_bytes}.")
    return last(wanted)


def _length(end: bytes) -> int:
    """Return the length of the footer, without the 8 bytes that follow the footer."""
    return int.from_bytes(end[-_END_BYTES:-4], "little")


def _footer_of(file: Any) -> bytes:
    file.seek(0, os.SEEK_END)
    size = file.tell()
    return footer(size, partial(_last, file, size))


def _last(file: Any, size: int, wanted: int) -> bytes:
    file.seek(size - wanted)
    data: bytes = file.read(wanted)
    return data
