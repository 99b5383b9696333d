"""Columns: as they are declared, else as the first file says."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from splitlib.arrow import parquet_footer
from splitlib.errors import ConfigError, TableNotFound
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


def schema_of_file(storage: Storage, path: str | None, form: str) -> pa.Schema:
    """The columns of a file.

    Args:
        storage: Where it is.
        path: Of the file; None = there is none.
        form: The format of the table.

    Raises:
        TableNotFound: if there is no file.
        ConfigError: for a format whose files do not declare their columns.
    """
    if form == "text":
        return pa.schema([("value", pa.string())])
    if form not in ("parquet", "orc"):
        raise ConfigError(f"Files of {form} do not declare their columns.", hint="pass schema=.")
    if path is None:
        raise TableNotFound("There is no file below its root to take the columns from.")
    fs, local = storage.filesystem(path)
    with fs.open(local, "rb") as file:
        if form == "orc":
            from pyarrow import orc

            schema = orc.ORCFile(file).schema
        else:
            schema = parquet_footer.read_schema(file)
    return schema.remove_metadata()
