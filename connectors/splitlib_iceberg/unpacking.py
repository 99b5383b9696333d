"""Read and decompress bytes within limits, because a small file may decompress to gigabytes.

The limit depends on the compressed size. Decompression never allocates more memory than the limit.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Mapping
from contextlib import suppress
from gzip import GzipFile
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.catalog import PY_CATALOG_IMPL, Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io import PY_IO_IMPL, FileIO, InputFile, InputStream, OutputFile, load_file_io
from pyiceberg.typedef import EMPTY_DICT, Properties

from splitlib.arrow.deletion_vectors import bitmap_in_frame, positions_of
from splitlib.errors import CorruptMetadata, decoding
from splitlib.model import DeleteFile
from splitlib.storage import refuse_outside
from splitlib_iceberg.failures import reading

PIECE: Final = 1 << 20
# Maximum ratio of decompressed to compressed size. Iceberg's and PyIceberg's metadata files have a
# ratio of about 20. Small files may compress better, so ``_LEAST`` bytes are added.
_RATIO: Final = 100
_LEAST: Final = 4 << 20
# Maximum number of bytes read at once.
MOST_RECEIVED: Final = (1 << 31) - 1
_OWN: Final = "splitlib.py-io-impl"
"""Property that keeps the user's ``py-io-impl``, which this module replaces by its own class."""
_GUARDED: Final = f"{__name__}.GuardedFileIO"
_COMPRESSED: Final = ".gz.metadata.json"


def limit_of(compressed: int) -> int:
    """Return the maximum decompressed size of a file, given its compressed size in bytes."""
    return _LEAST + _RATIO * compressed


def unpacked(codec: str, data: bytes, limit: int) -> bytes:
    """Decompress a block of an Avro file.

    Args:
        codec: Name of the codec in the file's header.
        data: The block as stored.
        limit: Maximum decompressed size in bytes.

    Raises:
        ValueError, EOFError: if the block is damaged, decompresses to more than ``limit`` bytes, or
            has an unknown codec.
        ImportError: if the codec needs a package that is not installed.
    """
    if codec not in KNOWN_CODECS:
        raise ValueError(f"The codec {codec} is unknown.")
    match codec:
        case "null":
            return data
        case "deflate":
            return _inflated(data, limit)
        case "bzip2":
            return _of_bzip2(data, limit)
        case "zstandard":
            return _of_zstandard(data, limit)
        case "snappy":
            if _snappy_size(data) > limit:
                raise _too_large(limit)
    known = KNOWN_CODECS[codec]
    assert known is not None
    found: bytes = known.decompress(data)
    return found


def unpacks_by_gzip(data: bytes) -> bool:
    """Return whether a gzip file's decompressed size is within the limit.

    The result is also true for a damaged file, because PyIceberg later decompresses the file with
    the same class, and then raises an error.
    """
    left = limit_of(len(data))
    with GzipFile(fileobj=BytesIO(data)) as stream, suppress(OSError, EOFError, zlib.error):
        while piece := stream.read(PIECE):
            left -= len(piece)
            if left < 0:
                return False
    return True


def received(stream: InputStream, size: int | None = None) -> bytes:
    """Read bytes from the current position of a stream.

    Args:
        stream: An open file.
        size: Number of bytes, or None to read to the end. Fewer bytes are returned if the file
            ends earlier.

    Raises:
        ValueError: if the size exceeds the limit for one read.
    """
    if size is None:
        return _all_of(stream)
    if not 0 <= size <= MOST_RECEIVED:
        raise ValueError(f"{size} bytes exceed the limit of one read.")
    if size <= PIECE:
        return stream.read(size)
    # ``size`` may be wrong, so read in pieces. Then memory is allocated only for bytes that exist.
    found = bytearray()
    while len(found) < size and (piece := stream.read(min(size - len(found), PIECE * 16))):
        found += piece
    return bytes(found)


def _all_of(stream: InputStream) -> bytes:
    size = getattr(stream, "size", None)
    size = size() if callable(size) else size
    if isinstance(size, int) and size > MOST_RECEIVED:
        raise ValueError(f"{size} bytes exceed the limit of one read.")
    return stream.read()


def _inflated(data: bytes, limit: int) -> bytes:
    decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        found = decompressor.decompress(data, limit + 1)
    except zlib.error as error:
        raise ValueError(f"A block cannot be decompressed: {error}") from error
    if len(found) > limit:
        raise _too_large(limit)
    if not decompressor.eof:
        raise EOFError("A block is truncated.")
    return found


def _of_bzip2(data: bytes, limit: int) -> bytes:
    found = b""
    while data:
        decompressor = bz2.BZ2Decompressor()
        try:
            found += decompressor.decompress(data, limit + 1 - len(found))
        except OSError as error:
            raise ValueError(f"A block cannot be decompressed: {error}") from error
        if len(found) > limit:
            raise _too_large(limit)
        if not decompressor.eof:
            raise EOFError("A block is truncated.")
        data = decompressor.unused_data
    return found


def _of_zstandard(data: bytes, limit: int) -> bytes:
    from zstandard import ZstdDecompressor, ZstdError

    found = bytearray()
    try:
        with ZstdDecompressor().stream_reader(BytesIO(data)) as reader:
            while piece := reader.read(min(PIECE, limit + 1 - len(found))):
                found += piece
                if len(found) > limit:
                    raise _too_large(limit)
    except ZstdError as error:
        raise ValueError(f"A block cannot be decompressed: {error}") from error
    return bytes(found)


def _snappy_size(data: bytes) -> int:
    """Return the decompressed size that is stored at the start of a Snappy block."""
    size = 0
    for shift, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return size
    raise ValueError("A block does not contain its size.")


def _too_large(limit: int) -> ValueError:
    return ValueError(f"A block decompresses to more than the limit of {limit} bytes.")


class GuardedFileIO(FileIO):
    """Checks each file, and opens it with PyIceberg's default FileIO or the user's FileIO.

    Files outside of ``allowed_locations`` are rejected, and so are compressed metadata files that
    decompress to too many bytes.
    """

    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)
        others = _without_class(properties)
        chosen = properties.get(_OWN)
        self._behind = others if chosen is None else {**others, PY_IO_IMPL: chosen}
        self._by_scheme: dict[str, FileIO] = {}

    def new_input(self, location: str) -> InputFile:
        """Return the input file for a location.

        Raises:
            LocationNotAllowed: if the location is outside of ``allowed_locations``.
            CorruptMetadata: for a compressed metadata file that decompresses to too many bytes.
        """
        refuse_outside([location])
        scheme = location.partition("://")[0] if "://" in location else ""
        files = self._by_scheme.get(scheme)
        if files is None:
            files = self._by_scheme[scheme] = load_file_io(self._behind, location)
        found = files.new_input(location)
        return _Unpackable(found) if location.endswith(_COMPRESSED) else found

    def new_output(self, location: str) -> OutputFile:
        """Not supported: splitlib writes no files."""
        raise NotImplementedError

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Not supported: splitlib deletes no files."""
        raise NotImplementedError


class _Unpackable(InputFile):
    """A compressed file whose decompressed size is limited. PyIceberg itself has no limit."""

    def __init__(self, behind: InputFile) -> None:
        super().__init__(behind.location)
        self._behind = behind

    def __len__(self) -> int:
        return len(self._behind)

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self._behind.exists()

    def open(self, seekable: bool = True) -> InputStream:
        """Open the file, after checking its decompressed size.

        Raises:
            CorruptMetadata: if the file decompresses to too many bytes.
        """
        with self._behind.open(seekable) as stream:
            data = received(stream)
        if not unpacks_by_gzip(data):
            raise CorruptMetadata(
                f"The metadata file {self.location} of {len(data)} bytes decompresses to more "
                "bytes than splitlib accepts."
            )
        return BytesIO(data)


def guarded(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return catalog properties that make PyIceberg use :class:`GuardedFileIO`."""
    own = {_OWN: properties[PY_IO_IMPL]} if PY_IO_IMPL in properties else {}
    return {**_without_class(properties), **own, PY_IO_IMPL: _GUARDED}


def keep_guarded(catalog: Catalog, properties: Mapping[str, Any]) -> None:
    """Make a catalog's tables use the FileIO of ``properties``, from :func:`guarded`.

    Otherwise a server could name any class, and PyIceberg would create an instance of it. PyIceberg
    also merges a table's properties into those of the catalog. Then whoever writes the table could
    choose the endpoint that receives the user's credentials. So a table's properties are ignored.
    REST catalogs ignore them by themselves (``LimitedRestCatalog``), because they pass the
    credentials of the server in the same way.
    """
    chosen = {name: properties[name] for name in (PY_IO_IMPL, _OWN) if name in properties}
    catalog.properties = {**_without_class(catalog.properties), **chosen}
    load = catalog._load_file_io
    # A catalog class of the user may pass anything.
    ignores = PY_CATALOG_IMPL not in properties and not isinstance(catalog, RestCatalog)

    def load_guarded(properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        return load({} if ignores else _without_class(properties), location)

    vars(catalog)["_load_file_io"] = load_guarded


def _without_class(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if name not in (PY_IO_IMPL, _OWN)}


def read_vector(files: FileIO, delete: DeleteFile) -> pa.Int64Array:
    """Read a deletion vector, and return the positions of deleted rows in ascending order.

    Only the bytes of the vector are read, not the whole file.

    Raises:
        CorruptMetadata: if the bytes are not a valid vector, or the number of rows in the vector
            differs from the number in the manifest.
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
    with decoding(f"The {what} {delete.path}"):
        return pa.array(positions_of(bitmap, delete.records))
