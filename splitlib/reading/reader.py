"""Read the rows of a split as Arrow batches, from any fsspec filesystem, without Spark.

The rows are the same as those that Spark reads. If they might differ, an error is raised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from splitlib.errors import (
    AccessDenied,
    FileChanged,
    MissingFile,
    SourceError,
    SplitlibError,
    UnsupportedTable,
)
from splitlib.model import INITIAL_DEFAULT, FileSplit, ReadFormat
from splitlib.reading.columns import NATIVE, Find, by_name, padded
from splitlib.reading.formats import RowGroupFilter
from splitlib.redaction import redact
from splitlib.storage import Storage, local_path, modified

BATCH_ROWS = 2**16
# Options of ORC's reader that change how it finds columns, or the calendar of the dates in a file.
# Only the value "false" is supported.
_ORC_COLUMNS = re.compile(r"orc\.(force|schema|mapred|include|proleptic)\b")
# Options of Spark's Parquet source that set the calendar of the dates and timestamps in a file.
# Only the value "CORRECTED", for the Gregorian calendar, is supported.
_CALENDARS = ("datetimerebasemode", "int96rebasemode")


def read_split(
    split: FileSplit,
    schema: pa.Schema,
    storage: Storage | None = None,
    *,
    row_groups: RowGroupFilter | None = None,
    batch_rows: int = BATCH_ROWS,
    verify: bool = False,
    find: Find = by_name,
    deleted: pa.Int64Array | None = None,
    pre_buffer: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``split`` as Arrow batches with the columns of ``schema``.

    Args:
        split: The split to read.
        schema: The columns to return, in order: columns of the file, by name, and partition keys.
            CHAR values are returned as stored, possibly without padding. A column that the file
            does not have is null, or raises an error if the column has a default.
        storage: Storage client that opens the file; by default one without options.
        row_groups: Filter that skips Parquet row groups without join keys; None means no filter.
        batch_rows: Maximum number of rows in a batch.
        verify: Whether to also compare the file's modification time with the listing. Its size is
            always compared.
        find: Function that finds the columns in the file.
        deleted: Positions of rows to leave out. Required for a split with delete files.
        pre_buffer: Whether Arrow's I/O threads may read ahead. Must be false if such a thread calls
            this function, because it would wait for itself.

    Raises:
        UnsupportedTable: if the rows might differ from those that Spark reads.
        FileChanged: if the size, or the time with ``verify``, differs from the listing.
        SourceError: if the file is damaged.
        MissingFile: if the file does not exist.
        AccessDenied: if the storage denies access.
    """
    refuse_unreadable(split.read_format, by_id=find is not by_name)
    if split.deletes and deleted is None:
        raise UnsupportedTable("The file's delete files cannot be applied here.", hint=NATIVE)
    keys = {name.lower(): value for name, value in split.partition_values.items()}
    constant = {
        field.name: pa.repeat(_constant(keys[field.name.lower()], field), batch_rows)
        for field in schema
        if field.name.lower() in keys
    }
    data = [field for field in schema if field.name not in constant]
    with naming(split), open_file(split, storage or Storage(), verify=verify) as file:
        if split.read_format.name == "orc":
            found = _orc(file, split, data, batch_rows, deleted)
        else:
            from splitlib.reading.formats import read_parquet  # This module is slow to import.

            found = read_parquet(
                file, split, data, row_groups, batch_rows, find, deleted, pre_buffer=pre_buffer
            )
        for rows, columns in found:
            refuse_missing(field for field in data if field.name not in columns)
            for start in range(0, rows, batch_rows):
                yield _batch(schema, columns, constant, min(batch_rows, rows - start))


def _constant(value: Any, field: pa.Field) -> pa.Scalar:
    texts = (pa.string(), pa.large_string(), pa.string_view())
    if isinstance(value, str) and field.type not in texts:
        raise UnsupportedTable(
            f"Partition value {value!r} of {field.name!r} is ambiguous as {field.type}.",
            hint=NATIVE,
        )
    return pa.scalar(value, field.type)


def _batch(
    schema: pa.Schema, columns: Mapping[str, pa.Array], constant: Mapping[str, pa.Array], rows: int
) -> pa.RecordBatch:
    """Return a batch of the file's columns and the constant columns. Missing columns are null."""
    fields = [field.remove_metadata() for field in schema]
    arrays = [
        padded(columns[field.name], field)
        if field.name in columns
        else padded(constant[field.name][:rows], field)
        if field.name in constant
        else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def refuse_unreadable(form: ReadFormat, *, by_id: bool = False) -> None:
    """Reject a format that this module might read differently from Spark.

    Args:
        form: The format.
        by_id: Whether the caller finds columns by field id, which is supported for Parquet.

    Raises:
        UnsupportedTable: if the format is rejected. The hint names a reader that can read it.
    """
    if form.name not in ("parquet", "orc"):
        raise UnsupportedTable(
            f"Files of format {form.name} cannot be read with Arrow.", hint=NATIVE
        )
    if form.columns != "name" and not (by_id and form.name == "parquet"):
        raise UnsupportedTable(
            "Columns matched by field id cannot be read with Arrow.", hint=NATIVE
        )
    for option, value in form.options:
        is_other = option.lower() in _CALENDARS and value.upper() != "CORRECTED"
        if is_other or (_ORC_COLUMNS.match(option.lower()) and value.lower() != "false"):
            raise UnsupportedTable(
                f"The option {option}={value} is not supported with Arrow.", hint=NATIVE
            )


def _orc(
    file: pa.NativeFile,
    split: FileSplit,
    fields: list[pa.Field],
    batch_rows: int,
    deleted: pa.Int64Array | None,
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    from splitlib.reading.formats import read_orc

    if deleted is not None:
        raise UnsupportedTable("Some rows of the ORC file are deleted.", hint=NATIVE)
    return read_orc(file, split, fields, batch_rows)


def refuse_missing(fields: Iterable[pa.Field]) -> None:
    """Reject missing columns that have an initial default.

    Spark would return the default for the file's rows, and this module would return null.

    Raises:
        UnsupportedTable: if one of ``fields`` has an initial default.
    """
    for field in fields:
        if field.metadata and INITIAL_DEFAULT in field.metadata:
            raise UnsupportedTable(
                f"The file lacks column {field.name!r}, which has a default.", hint=NATIVE
            )


def refuse_missing_inside(
    names: Iterable[str], schema: pa.Schema, stored: pa.Schema, find: Find
) -> None:
    """Reject a file without a struct field that is constant within the file's partition.

    Iceberg would return the value of the partition, and this module would return null.

    Args:
        names: Full names of the struct fields, such as ``s.a``.
        schema: The table's columns.
        stored: The columns in the file.
        find: Function that finds the columns in the file.

    Raises:
        UnsupportedTable: if the file lacks one of the fields.
    """
    for name in names:
        if not _has(name, schema, stored, find):
            raise UnsupportedTable(
                f"The file lacks the field {name!r}, by which the table is partitioned.",
                hint="rewrite the file with Iceberg's procedure rewrite_data_files, which adds "
                "the field.",
            )


def _has(name: str, schema: pa.Schema, stored: pa.Schema, find: Find) -> bool:
    for field in schema:
        if name == field.name or name.startswith(f"{field.name}."):
            column = find(stored, [field]).get(field.name)
            if column is None or name == field.name:
                return column is not None
            inside = pa.schema(list(field.type)), pa.schema(list(stored.field(column).type))
            return _has(name.removeprefix(f"{field.name}."), *inside, find)
    return False


def open_file(
    split: FileSplit,
    storage: Storage,
    *,
    verify: bool = False,
    wrapped: Callable[[Any], Any] | None = None,
) -> pa.NativeFile:
    """Open a split's file, and check that it has not changed since it was listed.

    If the file is not local, Arrow reads it through fsspec's file object. ``wrapped``, if given, is
    called with this object, and Arrow reads through its result instead.

    Raises:
        SplitlibError: if the file cannot be opened, or has changed; see :func:`read_split`.
    """
    return open_with_time(split, storage, verify=verify, wrapped=wrapped)[0]


def open_with_time(
    split: FileSplit,
    storage: Storage,
    *,
    verify: bool,
    wrapped: Callable[[Any], Any] | None = None,
) -> tuple[pa.NativeFile, FileSplit]:
    """Open a file as :func:`open_file` does, and also return its current modification time.

    The second result is the split with this time. The time is 0, which means unknown, if looking it
    up would take another request.
    """
    with naming(split):
        fs, path = storage.filesystem(split.path)
        verify = verify and bool(split.modified)  # a time of 0 in the listing means unknown
        if path == local_path(split.path) and path.startswith("/"):
            now = modified(fs.info(path))
            file = pa.OSFile(path)
        else:
            # No cache, because it would read more than the bytes that pyarrow requires.
            opened = fs.open(path, "rb", cache_type="none")
            details = getattr(opened, "details", None)  # fsspec requests them when it opens a file
            now = modified(details) if isinstance(details, Mapping) else 0
            now = modified(fs.info(path)) if verify and not now else now
            file = pa.PythonFile(opened if wrapped is None else wrapped(opened), mode="r")
        size = file.size()
        if size != split.file_size:
            file.close()
            raise _changed("size", f"{split.file_size} bytes", f"{size} bytes")
        if verify and not _is_same_time(split.modified, now):
            file.close()
            raise _changed("modification time", _time(split.modified), _time(now))
        return file, replace(split, modified=now)


def _changed(what: str, listed: str, found: str) -> FileChanged:
    return FileChanged(
        f"The file has changed since it was listed: its {what} was {listed} and is {found}.",
        hint="read the table again.",
    )


def _is_same_time(listed: int, found: int) -> bool:
    """Return whether two times, in milliseconds, are equal within their precision.

    Storage clients may round up or down, and object stores may return whole seconds.
    """
    in_seconds = listed % 1000 == 0 or found % 1000 == 0
    return abs(listed - found) <= 1 or (in_seconds and listed // 1000 == found // 1000)


def _time(milliseconds: int) -> str:
    if not milliseconds:
        return "unknown"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


@contextmanager
def naming(split: FileSplit) -> Iterator[None]:
    """Add the path of the split's file to every error that is raised in the ``with`` block."""
    try:
        yield
    except SplitlibError as error:
        if redact(split.path) in error.message:
            raise
        error.message = f"{redact(split.path)}: {error.message}"
        raise
    except FileNotFoundError as error:
        raise MissingFile(
            f"{split.path} was deleted after it was listed.", hint="read the table again."
        ) from error
    except PermissionError as error:
        raise AccessDenied(f"{split.path}: {error}") from error
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{split.path}: {error}") from error
