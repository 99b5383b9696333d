"""Find the columns of a table: the declared columns, or the columns of its first file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from splitlib.arrow import parquet_footer
from splitlib.errors import ConfigError, SourceError, TableNotFound, UnsupportedTable
from splitlib.hive.file_types import orc_columns, parquet_columns, readable_columns
from splitlib.hive.partition_values import parse_schema
from splitlib.remote.calls import Workers
from splitlib.storage import Storage
from splitlib_files.merging import merged_columns

# Number of footers that are read in parallel.
_THREADS = 16

# What to do if a file is not Parquet, by the end of its name.
_OTHER_FORMAT = {
    name: f"pass format={name!r}{other}."
    for name, other in (("orc", ""), ("json", " and schema="), ("csv", " and schema="))
}


def declared_schema(given: Any) -> pa.Schema | None:
    """Parse a schema option.

    Args:
        given: A schema, a text such as ``k int, d date``, or None.

    Returns:
        The schema, or None if the option is missing.

    Raises:
        ConfigError: if the value is neither a schema nor a text.
        UnsupportedTable: for a type that Spark cannot read.
    """
    if given is None or isinstance(given, pa.Schema):
        return None if given is None else readable_columns(given)
    if isinstance(given, str):
        return parse_schema(given)
    raise ConfigError(f"A schema must be a pyarrow.Schema or 'k int, d date', not {given!r}.")


def schema_of_files(
    storage: Storage, paths: Sequence[str], form: str, settings: Mapping[str, str] | None
) -> pa.Schema:
    """Read the columns of all files, and merge them as Spark does with ``mergeSchema``.

    Args:
        storage: Access to the files.
        paths: Paths of the files.
        form: The format of the table.
        settings: See :func:`schema_of_file`.

    Raises:
        UnsupportedTable: if a column has types that cannot be merged; the message names a file.
        SplitlibError: see :func:`schema_of_file`.
    """
    if not paths:
        return schema_of_file(storage, None, form, settings)
    paths = sorted(paths)  # Spark merges in this order, and takes the first spelling of a name
    read = partial(schema_of_file, storage, form=form, settings=settings)
    columns: list[pa.Field] = []
    latest = None
    with Workers(_THREADS, "splitlib-footers") as pool:
        for path, found in zip(paths, pool.map(read, paths), strict=True):
            if found == latest:
                continue
            latest = found
            try:
                columns = merged_columns(columns, found)
            except UnsupportedTable as error:
                error.message = f"{path}: {error.message}"
                raise
    return pa.schema(columns)


def schema_of_file(
    storage: Storage, path: str | None, form: str, settings: Mapping[str, str] | None
) -> pa.Schema:
    """Read the columns of a file.

    Args:
        storage: Access to the file.
        path: Path of the file; None if the table has no file.
        form: The format of the table.
        settings: Settings of the Spark session that affect column types, by name. Their names are
            in :data:`splitlib.hive.file_types.SETTINGS`.

    Raises:
        TableNotFound: if there is no file.
        ConfigError: for a format without declared columns in its files, such as CSV.
        SourceError: for a file whose columns Arrow cannot represent.
    """
    if form == "text":
        return pa.schema([("value", pa.string())])
    if form not in ("parquet", "orc"):
        raise ConfigError(f"Files of {form} do not declare their columns.", hint="pass schema=.")
    if path is None:
        raise TableNotFound("The directory has no data file to read the columns from.")
    fs, local = storage.filesystem(path)
    with fs.open(local, "rb") as file:
        if form == "orc":
            from pyarrow import orc

            return orc_columns(orc.ORCFile(file).schema)
        try:
            return parquet_columns(parquet_footer.read_metadata(file), settings)
        except pa.ArrowException as error:  # raised also for some maps and lists that Spark reads
            raise SourceError(
                f"The columns of {path!r} cannot be read: {error}",
                hint=_OTHER_FORMAT.get(path.rpartition(".")[2].lower())
                or "pass schema=, or move the file away if it is damaged.",
            ) from error
