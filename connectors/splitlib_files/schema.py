"""Find a table's columns: declared by the user, or read from the first file or from all files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from splitlib.arrow import parquet_footer
from splitlib.errors import ConfigError, SourceError, TableNotFound, UnsupportedTable
from splitlib.hive.file_types import (
    COLLATIONS,
    has_plain_type,
    orc_columns,
    parquet_columns,
    readable_columns,
)
from splitlib.hive.partition_values import parse_schema
from splitlib.model import SPARK_FIELD
from splitlib.remote.calls import Workers
from splitlib.storage import Storage

# Number of footers that are read in parallel.
_THREADS = 16
# Hints for a file that does not have the table's format, by the extension of its name.
_OTHER_FORMAT = {
    name: f"pass format={name!r}{other}."
    for name, other in (
        ("parquet", ""),
        ("orc", ""),
        ("json", " and schema="),
        ("csv", " and schema="),
    )
}


def merged_columns(known: Iterable[pa.Field], more: Iterable[pa.Field]) -> list[pa.Field]:
    """Merge two lists of columns. Columns that are only in ``more`` come last.

    Raises:
        UnsupportedTable: if a column has two types that Spark does not merge, or the names of two
            columns in one file differ only in case.
    """
    found = _by_name(known)
    for name, field in _by_name(more).items():
        found[name] = _merged(found[name], field) if name in found else field
    return list(found.values())


def _by_name(fields: Iterable[pa.Field]) -> dict[str, pa.Field]:
    found: dict[str, pa.Field] = {}
    for field in fields:
        if field.name.lower() in found:
            raise UnsupportedTable(
                f"A file has several columns named {field.name!r}, if case is ignored.",
                hint="pass the data columns as schema=, or rewrite the file.",
            )
        found[field.name.lower()] = field
    return found


def _merged(one: pa.Field, other: pa.Field) -> pa.Field:
    if one.type == other.type and _spark_type(one) == _spark_type(other):
        return one
    kind = _merged_type(one, other)
    if kind is None or SPARK_FIELD in {*(one.metadata or {}), *(other.metadata or {})}:
        raise UnsupportedTable(
            f"Column {one.name!r} is {one.type} in one file and {other.type} in another.",
            hint="pass the data columns as schema=, or rewrite the files.",
        )
    return one.with_type(kind)


def _merged_type(one: pa.Field, other: pa.Field) -> pa.DataType | None:
    """Return the common type of two fields, or None if Spark cannot merge their types."""
    left, right = one.type, other.type
    if pa.types.is_decimal(left) and pa.types.is_decimal(right) and left.scale == right.scale:
        return max(left, right, key=lambda kind: kind.precision)
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        return pa.struct(merged_columns(left, right))
    if pa.types.is_map(left) and pa.types.is_map(right):
        key, item = _merged_parts(
            [left.key_field, left.item_field], [right.key_field, right.item_field]
        )
        return pa.map_(key, item)
    if pa.types.is_list(left) and pa.types.is_list(right):
        return pa.list_(*_merged_parts([left.value_field], [right.value_field]))
    return None


def _merged_parts(left: Sequence[pa.Field], right: Sequence[pa.Field]) -> list[pa.Field]:
    return [_merged(one, other) for one, other in zip(left, right, strict=True)]


def _spark_type(field: pa.Field) -> Any:
    """Return the type that Spark stored in the file, or None if it follows from the Arrow type."""
    text = (field.metadata or {}).get(SPARK_FIELD)
    declared = None if text is None else json.loads(text)
    if declared is None or has_plain_type(declared):
        return None
    return declared["type"], (declared.get("metadata") or {}).get(COLLATIONS)


def declared_schema(given: Any) -> pa.Schema | None:
    """Parse the option ``schema`` or ``partition_schema``.

    Args:
        given: Value of the option: a schema, a string such as ``k int, d date``, or None.

    Returns:
        The schema, or None if the option is not set.

    Raises:
        ConfigError: if the value is neither a schema nor a string of names and types.
        UnsupportedTable: for a type that Spark cannot read.
    """
    if given is None or isinstance(given, pa.Schema):
        return None if given is None else readable_columns(given)
    if isinstance(given, str) and given.strip():
        try:
            return parse_schema(given)
        except UnsupportedTable as error:
            raise ConfigError(
                f"{given!r} is not a schema: {error.message}",
                hint="write names and types as in SQL, such as 'k int, d date'.",
            ) from error
    if isinstance(given, str):
        raise ConfigError("A schema is empty.", hint="write columns such as 'k int, d date'.")
    raise ConfigError(
        f"A schema must be a pyarrow.Schema or 'k int, d date', not a {type(given).__name__}."
    )


def schema_of_files(
    storage: Storage,
    paths: Sequence[str],
    form: str,
    settings: Mapping[str, str] | None,
    summaries: Sequence[str] = (),
) -> pa.Schema:
    """Read the columns of all files, and merge them as Spark does with ``mergeSchema``.

    Args:
        storage: Access to the files.
        paths: Paths of the files.
        form: The table's file format.
        settings: See :func:`schema_of_file`.
        summaries: Paths of summary files, whose columns come last.

    Raises:
        UnsupportedTable: if a column has types that cannot be merged; the message names a file.
        SplitlibError: see :func:`schema_of_file`.
    """
    if not paths and not summaries:
        return schema_of_file(storage, None, form, settings)
    # Spark merges files in path order. If names differ only in case, it keeps the first name.
    paths = [*sorted(paths), *summaries]
    read = partial(schema_of_file, storage, form=form, settings=settings)
    columns: list[pa.Field] = []
    latest: pa.Schema | None = None
    with Workers(_THREADS, "splitlib-footers") as pool:
        for path, found in zip(paths, pool.map(read, paths), strict=True):
            if latest is not None and found.equals(latest, check_metadata=True):
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
        path: Path of the file, or None if the table has no file.
        form: The format of the table.
        settings: Settings of the Spark session that affect column types, by name. Their names are
            in :data:`splitlib.hive.file_types.SETTINGS`.

    Raises:
        TableNotFound: if there is no file.
        ConfigError: for a format whose files do not declare their columns, such as CSV.
        SourceError: for a file whose columns Arrow cannot represent.
    """
    if form == "text":
        return pa.schema([("value", pa.string())])
    if form not in ("parquet", "orc"):
        raise ConfigError(f"Files of {form} do not declare their columns.", hint="pass schema=.")
    if path is None:
        raise TableNotFound(
            "The directory has no data file to read the columns from.",
            hint="pass the directory of the table, not the path of a file. If it has no files yet, "
            "or path_glob matches none, pass schema=.",
        )
    fs, local = storage.filesystem(path)
    with fs.open(local, "rb") as file:
        try:
            if form == "orc":
                from pyarrow import orc

                return orc_columns(orc.ORCFile(file).schema)
            return parquet_columns(parquet_footer.read_footer(file).metadata, settings)
        except (pa.ArrowException, OSError) as error:
            # The file may be damaged or have another format. But Arrow also rejects some maps and
            # lists that Spark can read.
            is_encrypted = "encrypted" in str(error)
            of_file = isinstance(error, pa.ArrowException) or "an ORC file" in str(error)
            if not (is_encrypted or of_file):
                raise  # an error of the storage
            hint = "pass schema=, or move the file away if it is damaged."
            ending = path.rpartition(".")[2].lower()
            if is_encrypted:
                hint = "pass schema=, and read the rows with Spark, which may have the keys."
            elif ending != form:
                hint = _OTHER_FORMAT.get(ending, hint)
            raise SourceError(
                f"The columns of {path!r} cannot be read: {error}", hint=hint
            ) from error
