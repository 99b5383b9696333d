"""A storage that shows only the files whose names match a pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from splitlib.errors import ConfigError
from splitlib.storage import Level, Storage

_MEANINGS = {"*": ".*", "?": ".", "{": "(?:", "}": ")"}


def pattern_of(glob: str) -> re.Pattern[str]:
    """Convert a pattern of Hadoop for file names, as in Spark's option ``pathGlobFilter``.

    ``*`` stands for any characters, ``?`` for one, ``[a-c]`` and ``[^a-c]`` for one of a class,
    ``{csv,txt}`` for one of several texts. A backslash makes the next character literal.

    Raises:
        ConfigError: if the pattern is invalid.
    """
    found, depth, at = "", 0, 0
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "\\" and at < len(glob):
            found += re.escape(glob[at])
            at += 1
        elif char == "[":
            end = glob.find("]", at + 1)
            if end < 0:
                raise ConfigError(f"path_glob {glob!r} has a [ without a ].")
            found += _class(glob[at:end])
            at = end + 1
        elif char == "," and depth:
            found += "|"
        else:
            depth += (char == "{") - (char == "}")
            found += _MEANINGS.get(char) or re.escape(char)
    try:
        return re.compile(found, re.DOTALL)
    except re.error as error:
        raise ConfigError(f"path_glob {glob!r} is not a pattern: {error}.") from error


def _class(inside: str) -> str:
    negated = inside[:1] in ("^", "!")
    escaped = re.sub(r"([\\\[^&~|])", r"\\\1", inside[negated:])
    return f"[{'^' if negated else ''}{escaped}]"


class GlobbedStorage(Storage):
    """Lists only the files whose names match a pattern. Directories are listed as without it.

    Args:
        options: Options of the fsspec filesystem.
        glob: The pattern, see :func:`pattern_of`.
    """

    def __init__(self, options: Mapping[str, Any] | None, glob: str) -> None:
        super().__init__(options)
        self._pattern = pattern_of(glob)

    def level(self, location: str, *, retries: bool = False) -> Level:
        """Return the matching files and all subdirectories directly in a directory."""
        level = super().level(location, retries=retries)
        return level._replace(files=[file for file in level.files if self._shows(file.path)])

    def list_first(
        self, locations: Sequence[str], *, below: bool = False
    ) -> tuple[pa.RecordBatch, int, int]:
        """List the matching files of the first directories; see :meth:`Storage.list_first`."""
        files, requests, listed = super().list_first(locations, below=below)
        mask = [self._shows(path) for path in files["path"].to_pylist()]
        return files.filter(pa.array(mask, pa.bool_())), requests, listed

    def _shows(self, path: str) -> bool:
        return self._pattern.fullmatch(path.rpartition("/")[2]) is not None
