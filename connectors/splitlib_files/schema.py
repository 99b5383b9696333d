"""The data columns of a table that nobody has declared: those of its first file."""

from __future__ import annotations

import pyarrow as pa

from splitlib.errors import ConfigError, TableNotFound
from splitlib.storage import Storage


def infer_schema(storage: Storage, root: str, kind: str, levels: int) -> pa.Schema:
    """Columns of the first file that a walk of ``levels`` directories comes to.

    Raises:
        TableNotFound: if there is no file at all.
        ConfigError: for a format whose files do not declare their columns.
    """
    if kind == "text":
        return pa.schema([("value", pa.string())])
    if kind not in ("parquet", "orc"):
        raise ConfigError(f"Files of {kind} do not declare their columns.", hint="pass schema=.")
    path = _first_file(storage, root, levels)
    if path is None:
        raise TableNotFound(f"There is no file below {root!r} to take the columns from.")
    fs, local = storage.filesystem(path)
    with fs.open(local, "rb") as file:
        if kind == "orc":
            from pyarrow import orc

            schema = orc.ORCFile(file).schema
        else:
            from pyarrow import parquet

            schema = parquet.read_schema(file)
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
