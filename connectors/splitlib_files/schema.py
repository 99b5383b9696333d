"""Columns and partition keys: as they are declared, else as the first file and directories say."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from splitlib.arrow import parquet_footer
from splitlib.errors import ConfigError, TableNotFound, UnsupportedTable
from splitlib.hive.types import parse_schema
from splitlib.storage import Storage


def declared_schema(given: Any) -> pa.Schema | None:
    """An option that is a schema, or its text such as ``k int, d date``; None if it is not given.

    Raises:
        ConfigError: for anything else.
        UnsupportedTable: for a type that Spark cannot read.
    """
    if given is None or isinstance(given, pa.Schema):
        return given
    if isinstance(given, str):
        return parse_schema(given)
    raise ConfigError(f"A schema is a pyarrow.Schema or 'k int, d date', not {given!r}.")


def keys_of_directories(storage: Storage, root: str, names: list[str]) -> pa.Schema:
    """The keys that the first directory of each level is named after.

    They are strings: no directory tells the type of the others.

    Args:
        storage: Where the directories are.
        root: The table's directory.
        names: The directories in it.

    Raises:
        UnsupportedTable: if a key comes twice on the way down.
    """
    keys: list[pa.Field] = []
    path = root
    while names and "=" in names[0]:
        key = names[0].partition("=")[0]
        if any(key == known.name for known in keys):  # also where a link leads back
            raise UnsupportedTable(
                f"Directories below {path!r} are of partition key {key!r} again."
            )
        keys.append(pa.field(key, pa.string()))
        path = f"{path}/{names[0]}"
        names = storage.directories(path)
    return pa.schema(keys)


def schema_of_files(storage: Storage, root: str, form: str, levels: int) -> pa.Schema:
    """The columns of the first file that a walk of ``levels`` directories comes to.

    Raises:
        TableNotFound: if there is no file at all.
        ConfigError: for a format whose files do not declare their columns.
    """
    if form == "text":
        return pa.schema([("value", pa.string())])
    if form not in ("parquet", "orc"):
        raise ConfigError(f"Files of {form} do not declare their columns.", hint="pass schema=.")
    path = _first_file(storage, root, levels)
    if path is None:
        raise TableNotFound(f"There is no file below {root!r} to take the columns from.")
    fs, local = storage.filesystem(path)
    with fs.open(local, "rb") as file:
        if form == "orc":
            from pyarrow import orc

            schema = orc.ORCFile(file).schema
        else:
            schema = parquet_footer.read_schema(file)
    return schema.remove_metadata()


def _first_file(storage: Storage, path: str, levels: int) -> str | None:
    if levels == 0:
        files = storage.files(path)
        return files[0].path if files else None
    for name in storage.directories(path):
        found = _first_file(storage, f"{path}/{name}", levels - 1)
        if found:
            return found
    return None
