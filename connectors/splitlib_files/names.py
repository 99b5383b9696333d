"""Names of directories, ``key=value``: escapes undone, values in the types of the keys."""

from __future__ import annotations

import re
from functools import reduce
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import ConfigError, SourceError
from splitlib.hive.partition_values import escape, split_names, unescape
from splitlib_files.key_types import values_of

Escapes = Literal["spark", "utf-8"]
ESCAPES: Final = ("spark", "utf-8")
# Hive and Spark never write it: they escape ASCII alone, one character each.
_BYTE = "%[89a-fA-F][0-9a-fA-F]"


class Values(NamedTuple):
    """What names of directories say."""

    columns: pa.RecordBatch
    """A column for each key."""
    are_of_type: pa.BooleanArray
    """False for directories with a value that is not of its key's type."""


class DirectoryNames:
    """How names of directories are read.

    Args:
        escapes: ``spark``: each escape is a character, as Hive and Spark read them. ``utf-8``: each
            is a byte of UTF-8, as pyarrow, Polars and DuckDB write them. None = nobody has said
            which, and a name in which it matters is refused.
    """

    def __init__(self, escapes: Escapes | None) -> None:
        self._escapes = escapes

    def key(self, name: str) -> str:
        """The key in a directory's name; empty if it has none.

        Raises:
            SourceError: if its escapes can be read in two ways.
        """
        key, equals, _ = self._as_spark(name).partition("=")
        return unescape(key) if equals else ""

    def values(self, directories: pa.StringArray, keys: pa.Schema, *, inferred: bool) -> Values:
        """The values in paths such as ``k1=v1/k2=v2``.

        Args:
            directories: The paths.
            keys: The keys of all their levels.
            inferred: Whether values are read by the rules that have inferred the types. Otherwise
                they stay text, which the engine reads.

        Raises:
            SourceError: if escapes can be read in two ways.
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
        """The value in a directory's name, escaped as Spark does it."""
        return self._as_spark(name).partition("=")[2]

    def _as_spark(self, path: str) -> str:
        if self._escapes == "spark" or not re.search(_BYTE, path):
            return path
        if self._escapes is None:
            raise SourceError(
                f"Directory {path!r} has escapes of bytes. Spark reads them as "
                f"{unescape(path)!r}, pyarrow, Polars and DuckDB as {unquote(path)!r}.",
                hint='pass percent_escapes="utf-8", or "spark" to read them as Spark does.',
            )
        return "/".join(map(_as_hive, path.split("/")))


def escapes_of(given: object, default: Escapes | None) -> Escapes | None:
    """The option ``percent_escapes``.

    Raises:
        ConfigError: if it is something else.
    """
    if given is None:
        return default
    for known in ESCAPES:
        if str(given).lower() == known:
            return known
    raise ConfigError(f"Option percent_escapes must be 'utf-8' or 'spark', not {given!r}.")


def _as_hive(name: str) -> str:
    """A name whose escapes are bytes of UTF-8, escaped as Hive does it.

    Raises:
        SourceError: if they are no UTF-8.
    """
    key, equals, value = name.partition("=")
    try:
        key, value = (escape(unquote(text, errors="strict")) for text in (key, value))
    except UnicodeDecodeError as error:
        raise SourceError(
            f"The escapes in the directory's name {name!r} are no UTF-8.",
            hint='pass percent_escapes="spark" to read them as Spark does.',
        ) from error
    return key + equals + value
