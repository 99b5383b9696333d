"""Find and decode deletion vectors: bitmaps of deleted row positions."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from splitlib.errors import CorruptMetadata, MissingFile, UnsupportedTable
from splitlib.model import DeleteFile
from splitlib.spi import deleted_positions
from splitlib.storage import Storage, local_path
from splitlib_delta.actions import decoding

_UUID_LENGTH: Final = 20  # length of a UUID encoded in base 85, in characters
_Z85: Final = (
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)
_B85: Final = (
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
)
_TO_B85: Final = str.maketrans(_Z85, _B85)
_MOST_BYTES: Final = 1 << 30
_FRAME_BYTES: Final = 8  # the length before a vector in a file, and the checksum after it


def delete_file(vector: Mapping[str, Any], path: str, root: str) -> DeleteFile:
    """Return the location of a deletion vector, or its bytes if the log contains them.

    Args:
        vector: The field ``deletionVector`` of the data file's log entry.
        path: Path of the data file.
        root: Location of the table.

    Raises:
        UnsupportedTable: for a storage type that this connector does not support.
        CorruptMetadata: if the entry is damaged.
    """
    kind, text = vector["storageType"], vector["pathOrInlineDv"]
    size, offset = vector["sizeInBytes"], vector["offset"] or 0
    with decoding(f"The deletion vector of {path}"):
        if not isinstance(text, str) or not 0 <= size <= _MOST_BYTES or offset < 0:
            raise ValueError("it has no text or an impossible size")
        match kind:
            case "i":
                place, framed = path, 0
            case "u":
                name = uuid.UUID(bytes=_of_z85(text[-_UUID_LENGTH:]))
                above = f"{text[:-_UUID_LENGTH]}/" if len(text) > _UUID_LENGTH else ""
                place, framed = (
                    f"{root.rstrip('/')}/{above}deletion_vector_{name}.bin",
                    _FRAME_BYTES,
                )
            case "p":
                place, framed = local_path(unquote(text, errors="strict")), _FRAME_BYTES
            case _:
                raise UnsupportedTable(
                    f"The deletion vector of {path} has the unknown storage type {kind!r}.",
                    hint="read the table with Spark's own Delta reader.",
                )
    return DeleteFile(
        "vector",
        place,
        size + framed,
        "delta",
        offset=offset,
        length=size + framed,
        records=vector["cardinality"],
        inline=text if kind == "i" else "",
    )


def read_vector(storage: Storage, delete: DeleteFile) -> pa.Int64Array:
    """Return the positions of the deleted rows, ascending. Only the vector's bytes are read.

    Raises:
        CorruptMetadata: if the bytes are not a valid vector, or the number of rows in the vector
            differs from the number in the log.
        MissingFile: if the file does not exist.
    """
    try:
        return deleted_positions(_stored(storage, delete), delete.records)
    except CorruptMetadata as error:
        error.message = f"{delete.path}: {error.message}"
        raise


def _stored(storage: Storage, delete: DeleteFile) -> bytes:
    """Return the bytes of a deletion vector.

    In a file, the vector's length precedes these bytes, and a checksum follows. Both are included.
    """
    if delete.inline:
        with decoding("The deletion vector"):
            return _of_z85(delete.inline)[: delete.length]
    fs, path = storage.filesystem(delete.path)
    try:
        with fs.open(path, "rb") as stream:
            stream.seek(delete.offset)
            data: bytes = stream.read(delete.length)
    except FileNotFoundError as error:
        raise MissingFile(f"The deletion vector {delete.path} no longer exists.") from error
    if len(data) != delete.length:
        raise CorruptMetadata("The deletion vector is truncated.")
    return data


def _of_z85(text: str) -> bytes:
    """Decode Z85, ZeroMQ's variant of base 85. Its alphabet differs from Python's."""
    return base64.b85decode(text.translate(_TO_B85))
