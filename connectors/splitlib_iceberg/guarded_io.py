"""A FileIO that opens nothing outside of ``allowed_locations``.

Catalogs read the table's metadata file while they load it, where only a FileIO comes in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyiceberg.io import PY_IO_IMPL, FileIO, InputFile, OutputFile, load_file_io
from pyiceberg.typedef import Properties

from splitlib.storage import is_restricted, refuse_outside

_OWN: Final = "splitlib.py-io-impl"
"""The property that keeps what the user has chosen as ``py-io-impl``."""


class GuardedFileIO(FileIO):
    """What PyIceberg would take by itself, or what the user has chosen, behind a check."""

    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)
        others = {k: v for k, v in properties.items() if k not in (PY_IO_IMPL, _OWN)}
        chosen = properties.get(_OWN)
        self._behind = others if chosen is None else {**others, PY_IO_IMPL: chosen}

    def new_input(self, location: str) -> InputFile:
        """See ``FileIO``.

        Raises:
            LocationNotAllowed: if it lies outside of ``allowed_locations``.
        """
        refuse_outside(location)
        return load_file_io(self._behind, location).new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """Nothing is written."""
        raise NotImplementedError

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Nothing is deleted."""
        raise NotImplementedError


def guarded(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties of a catalog whose files are opened behind a check, if any location is refused."""
    if not is_restricted():
        return dict(properties)
    own = {_OWN: properties[PY_IO_IMPL]} if PY_IO_IMPL in properties else {}
    return {**properties, **own, PY_IO_IMPL: f"{__name__}.{GuardedFileIO.__name__}"}
