"""A FileIO that rejects decompression bombs, and files outside of ``allowed_locations``.

A FileIO is the object by which PyIceberg opens files. PyIceberg's catalogs read a table's metadata
file while they load the table, and only a FileIO can check this read.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

from pyiceberg.io import PY_IO_IMPL, FileIO, InputFile, InputStream, OutputFile, load_file_io
from pyiceberg.typedef import Properties

from splitlib.errors import CorruptMetadata
from splitlib.storage import refuse_outside
from splitlib_iceberg.unpacking import received, unpacks_by_gzip

_OWN: Final = "splitlib.py-io-impl"
"""Property with the user's value of ``py-io-impl``, which this module replaces by its own class."""
_COMPRESSED: Final = ".gz.metadata.json"


class GuardedFileIO(FileIO):
    """Wraps PyIceberg's default FileIO, or the one that the user chose, with checks."""

    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)
        others = {k: v for k, v in properties.items() if k not in (PY_IO_IMPL, _OWN)}
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
        scheme = location.partition(":")[0]
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
    """A compressed file whose decompressed size is checked, because PyIceberg has no limit."""

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
                f"The metadata file {self.location} of {len(data)} bytes decompresses to too many."
            )
        return BytesIO(data)


def guarded(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return catalog properties that make PyIceberg use :class:`GuardedFileIO`."""
    own = {_OWN: properties[PY_IO_IMPL]} if PY_IO_IMPL in properties else {}
    return {**properties, **own, PY_IO_IMPL: f"{__name__}.{GuardedFileIO.__name__}"}
