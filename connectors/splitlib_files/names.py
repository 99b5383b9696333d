"""Parse directory names such as ``key=value``: decode escapes, and convert values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce
from itertools import takewhile
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import ConfigError, SourceError
from splitlib.hive.partition_values import escape, split_names, unescape
from splitlib_files.key_types import values_of

Escapes = Literal["spark", "utf-8"]
ESCAPES: Final = ("spark", "utf-8")
# An escaped byte above 127. Hive and Spark never write such escapes, because they escape only ASCII
# characters. So another tool has written the name.
_BYTE = "%[89a-fA-F][0-9a-fA-F]"


class Values(NamedTuple):
    """Partition values parsed from directory names."""

    columns: pa.RecordBatch
    """One column per key."""
    are_of_type: pa.BooleanArray
    """For each directory, whether all of its values could be converted to the types of the keys."""


class DirectoryNames:
    """Parses directory names such as ``key=value``.

    Args:
        escapes: ``spark``: each escape is a character, as in Hive and Spark. ``utf-8``: each escape
            is a byte of UTF-8, as written by pyarrow, Polars and DuckDB. None: the encoding is
            unknown, so a name with different values in the two encodings raises an error.
    """

    def __init__(self, escapes: Escapes | None) -> None:
        self._escapes = escapes

    def key(self, name: str) -> str:
        """Return the key in a directory's name, or an empty string if the name has no key.

        Raises:
            SourceError: if the escapes are ambiguous.
        """
        key, equals, _ = self._as_spark(name).partition("=")
        return unescape(key) if equals else ""

    def keys(self, directories: Iterable[str]) -> list[str]:
        """Return the keys of nested directories, down to the first name without a key.

        Raises:
            SourceError: if the escapes of a name are ambiguous.
        """
        return list(takewhile(bool, map(self.key, directories)))

    def values(self, directories: pa.StringArray, keys: pa.Schema, *, inferred: bool) -> Values:
        """Return the partition values in paths such as ``k1=v1/k2=v2``.

        Args:
            directories: The paths.
            keys: The keys, one for each level of the paths.
            inferred: Whether the key types were inferred. If so, this method parses the values, by
                the rules of the inference. Otherwise values remain strings that the engine parses.

        Raises:
            SourceError: if escapes are ambiguous.
        """
        if pc.any(pc.match_substring_regex(directories, _BYTE)).as_py():
            found = map(self._as_spark, directories.to_pylist())
            directories = pa.array(found, pa.string())
        texts = split_names(directories, keys.names)
        if not inferred:
            return Values(texts, pa.repeat(pa.scalar(value=True), len(directories)))
        columns = [values_of(text, key.type) for text, key in zip(texts, keys, strict=True)]
        pairs = zip(texts, columns, strict=True)
        read = reduce(pc.and_, (pc.or_(pc.is_null(t), pc.is_valid(c)) for t, c in pairs))
        return Values(pa.record_batch(columns, names=keys.names), read)

    def value_text(self, name: str) -> str:
        """Return the value in a directory's name, with escapes as Spark writes them."""
        return self._as_spark(name).partition("=")[2]

    def _as_spark(self, path: str) -> str:
        if self._escapes == "spark" or not re.search(_BYTE, path):
            return path
        if self._escapes is None:
            raise SourceError(
                f"Directory {path!r} has ambiguous escapes. Spark reads them as "
                f"{unescape(path)!r}, pyarrow, Polars and DuckDB as {unquote(path)!r}.",
                hint='pass percent_escapes="utf-8", or "spark" to read them as Spark does.',
            )
        return "/".join(map(_as_hive, path.split("/")))


def escapes_of(given: object, default: Escapes | None) -> Escapes | None:
    """Parse the option ``percent_escapes``, or return ``default`` if it is not set.

    Raises:
        ConfigError: if the value is neither ``utf-8`` nor ``spark``.
    """
    if given is None:
        return default
    for known in ESCAPES:
        if str(given).lower() == known:
            return known
    raise ConfigError(f"Option percent_escapes must be 'utf-8' or 'spark', not {given!r}.")


def _as_hive(name: str) -> str:
    """Convert a name with UTF-8 byte escapes to Hive's escapes.

    Raises:
        SourceError: if the escapes are not valid UTF-8.
    """
    key, equals, value = name.partition("=")
    try:
        key, value = (escape(unquote(text, errors="strict")) for text in (key, value))
    except UnicodeDecodeError as error:
        raise SourceError(
            f"The escapes in directory name {name!r} are not valid UTF-8.",
            hint='pass percent_escapes="spark" to read them as Spark does.',
        ) from error
    return key + equals + value
