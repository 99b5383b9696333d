"""Read deletion vectors, which Iceberg stores in Puffin files."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.io import FileIO

from splitlib.arrow.deletion_vectors import bitmap_in_frame, positions_of
from splitlib.errors import CorruptMetadata
from splitlib.model import DeleteFile
from splitlib_iceberg.failures import decoding, reading
from splitlib_iceberg.unpacking import received


def read_vector(files: FileIO, delete: DeleteFile) -> pa.Int64Array:
    """Return the positions of the deleted rows, ascending. Reads only the bytes of the vector.

    Raises:
        CorruptMetadata: if the bytes are not a valid vector, or the vector does not have the number
            of rows in the manifest.
        MissingFile: if the file does not exist.
    """
    what = "deletion vector"
    with reading(what, delete.path), files.new_input(delete.path).open() as stream:
        stream.seek(delete.offset)
        data = received(stream, delete.length)
    bitmap = bitmap_in_frame(data) if len(data) == delete.length else None
    if bitmap is None:
        raise CorruptMetadata(
            f"There is no deletion vector at byte {delete.offset} of {delete.path}."
        )
    with decoding(what, delete.path):
        return pa.array(positions_of(bitmap, delete.records))
