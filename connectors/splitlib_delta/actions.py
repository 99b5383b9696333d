"""Convert Delta log entries to Arrow columns, and select the data files of a table version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib import errors
from splitlib.storage import local_path

VECTOR: Final = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int64(),
        "sizeInBytes": pa.int64(),
        "cardinality": pa.int64(),
    }
)
"""Arrow type of the field ``deletionVector`` in log entries."""
# Matches the start of a URI. The slash is required, because a relative path in a directory such as
# ``a:b=1`` also begins with letters and a colon.
_SCHEME: Final = "^[A-Za-z][A-Za-z0-9+.-]*:/"


class Actions(NamedTuple):
    """The data files that the entries of one log file add and remove."""

    added: pa.StructArray
    removed: pa.StructArray | None
    """None for a checkpoint, whose ``add`` entries already exclude removed files."""

    @classmethod
    def of_commit(cls, data: bytes, keys: Sequence[str]) -> Actions:
        """Parse the JSON lines of a commit or checkpoint.

        Args:
            data: The content of the file.
            keys: Names of the partition columns in the log.
        """
        file = [("path", pa.string()), ("deletionVector", VECTOR)]
        values = pa.struct([(key, pa.string()) for key in keys])
        added = [
            *file,
            *([("partitionValues", values)] if keys else []),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("stats", pa.string()),
        ]
        schema = pa.schema([("add", pa.struct(added)), ("remove", pa.struct(file))])
        table = read_json(data, schema)
        return cls(*(_present(table[name]) for name in ("add", "remove")))

    @classmethod
    def of_checkpoint(cls, table: pa.Table) -> Actions:
        """Extract the data files from the table in a Parquet checkpoint."""
        if "add" not in table.column_names:
            return cls(pa.array([], pa.struct({"path": pa.string()})), None)
        table["add"].validate(full=True)
        return cls(_present(table["add"]), None)


def read_json(data: bytes | pa.Buffer, schema: pa.Schema, block_bytes: int = 0) -> pa.Table:
    """Parse JSON lines into an Arrow table. Fields that are not in ``schema`` are ignored.

    Args:
        data: The JSON lines.
        schema: Fields to parse.
        block_bytes: Size of the blocks that are parsed in parallel. A block must be at least as
            long as the longest line. 0 means a single block.

    Raises:
        pyarrow.ArrowInvalid: if a line is not valid JSON, or a string is not valid UTF-8.
    """
    from pyarrow import json as arrow_json  # slow to import

    if not len(data):
        return schema.empty_table()
    table = arrow_json.read_json(
        pa.BufferReader(data),
        arrow_json.ReadOptions(block_size=block_bytes or len(data) + 1),
        arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    table.validate(full=True)  # checks for valid UTF-8, which Arrow's readers do not do
    return table


def entries(data: bytes, *names: str) -> Iterator[Mapping[str, Any]]:
    """Yield the parsed JSON lines that contain one of these field names, such as ``metaData``."""
    lines = set()
    for name in names:
        at = -1
        while (at := data.find(f'"{name}"'.encode(), at + 1)) >= 0:
            end = data.find(b"\n", at)
            lines.add((data.rfind(b"\n", 0, at) + 1, len(data) if end < 0 else end))
    for start, end in sorted(lines):
        yield json.loads(data[start:end])


def file_columns(
    files: pa.StructArray, root: str, keys: Sequence[str], source: int | None
) -> pa.Table:
    """Return the data files in some log entries as a table with one row per file.

    The columns are ``path``, ``size``, ``modified``, ``vector``, ``source`` and ``row``, and one
    for each partition column, named by its number. ``row`` is the data file's index among the files
    that its log file adds. ``source`` and ``row`` locate the data file's statistics.

    Args:
        files: The ``add`` or ``remove`` entries.
        root: Location of the table.
        keys: Names of the partition columns in the log.
        source: Number of the log file, or None for removed files.
    """
    values = child(files, "partitionValues")
    if keys and source is not None and len(files) and (values is None or values.null_count):
        raise ValueError("A file has no partition values.")
    columns = {
        "path": absolute(child(files, "path", pa.string()), root),
        "size": child(files, "size", pa.int64()),
        "modified": child(files, "modificationTime", pa.int64()),
        "vector": _vectors(files),
        "source": pa.repeat(pa.scalar(source, pa.int32()), len(files)),
        "row": pa.array(np.arange(len(files))),
    }
    for number, key in enumerate(keys):
        columns[str(number)] = (
            pa.nulls(len(files), pa.string())
            if source is None or values is None
            else _texts(values, key)
        )
    return pa.table(columns)


def live(recent: Sequence[pa.Table], checkpoint: Sequence[pa.Table]) -> pa.Table:
    """Return a table of the live data files: those that were added and not removed later.

    Two entries with the same path but different deletion vectors count as different files.

    Args:
        recent: Tables of :func:`file_columns` from commits, newest first.
        checkpoint: Tables from the checkpoint before these commits, which lists each file once.
    """
    older = pa.concat_tables(checkpoint).combine_chunks() if checkpoint else None
    if not recent:
        assert older is not None
        return older
    newer = pa.concat_tables(recent).combine_chunks()
    keys = _keys(newer)
    codes = keys.dictionary_encode().indices.to_numpy()
    first = np.sort(np.unique(codes, return_index=True)[1])
    found = newer.take(pa.array(first))
    found = found.filter(pc.is_valid(found["source"]))
    if older is not None:
        rows = pc.indices_nonzero(pc.is_in(older["path"], pc.unique(newer["path"])))
        changed = pc.is_in(_keys(older.take(rows)), keys)
        kept = np.ones(len(older), bool)
        kept[rows.filter(changed).to_numpy()] = False
        found = pa.concat_tables([found, older.filter(pa.array(kept))])
    return found.combine_chunks()


def _keys(files: pa.Table) -> pa.StringArray:
    """Return one string per file that identifies the file and its deletion vector."""
    files = files.combine_chunks()
    names = [
        pc.fill_null(pc.struct_field(files["vector"], name).cast(pa.string()), "")
        for name in ("storageType", "pathOrInlineDv", "offset")
    ]
    joined = pc.binary_join_element_wise(files["path"], *names, "\0")
    return pa.concat_arrays([pa.array([], pa.string()), *joined.chunks])


def child(parent: Any, name: str, kind: pa.DataType | None = None) -> Any:
    """Return one field of an array of structs, cast to ``kind`` unless ``kind`` is None.

    If the field does not exist, the result is an array of nulls, or None if ``kind`` is None.
    """
    if not pa.types.is_struct(parent.type) or parent.type.get_field_index(name) < 0:
        return None if kind is None else pa.nulls(len(parent), kind)
    found = pc.struct_field(parent, [name])
    return found if kind is None else found.cast(kind)


def absolute(paths: pa.StringArray, root: str) -> pa.StringArray:
    """Convert URL-encoded paths from the log, usually relative to ``root``, to absolute paths."""
    plain = _decoded(paths)
    scheme, _, rest = root.partition("://")
    host = f"{scheme}://{rest.partition('/')[0]}" if rest else ""
    prefix = pc.if_else(pc.starts_with(plain, "/"), host, f"{root.rstrip('/')}/")
    if not pc.any(pc.match_substring(paths, ":")).as_py():
        return pc.binary_join_element_wise(prefix, plain, "")
    prefix = pc.if_else(pc.match_substring_regex(paths, _SCHEME), "", prefix)
    full = pc.binary_join_element_wise(prefix, plain, "")
    return pa.array([None if path is None else local_path(path) for path in full.to_pylist()])


def _decoded(paths: pa.StringArray) -> pa.StringArray:
    """URL-decode paths. Many files share a directory, so each directory is decoded only once."""
    if not pc.any(pc.match_substring(paths, "%")).as_py():
        return paths
    name = pc.replace_substring_regex(paths, "(?s)^.*/", "")
    directory = pc.replace_substring_regex(paths, "[^/]*$", "").dictionary_encode()
    plain = pa.array([unquote(each, errors="strict") for each in directory.dictionary.to_pylist()])
    if pc.any(pc.match_substring(name, "%")).as_py():
        name = pa.array([unquote(each, errors="strict") for each in name.to_pylist()], pa.string())
    return pc.binary_join_element_wise(plain.cast(pa.string()).take(directory.indices), name, "")


def _texts(values: Any, key: str) -> pa.StringArray:
    """Return the values of a partition column as strings. An empty string becomes null."""
    if pa.types.is_map(values.type):
        found = pc.map_lookup(values, pa.scalar(key), "first")
    else:
        found = child(values, key, pa.string())
    return pc.if_else(pc.equal(found, ""), None, found)


def _vectors(files: pa.StructArray) -> pa.StructArray:
    given = child(files, "deletionVector")
    if given is None:
        return pa.nulls(len(files), VECTOR)
    fields = [child(given, field.name, field.type) for field in VECTOR]
    return pa.StructArray.from_arrays(fields, fields=list(VECTOR))


def _present(column: pa.ChunkedArray) -> pa.StructArray:
    """Drop rows without a path. They belong to log entries of another kind."""
    found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    path = pc.struct_field(found, ["path"])
    return found.filter(pc.is_valid(path))


def decoding(name: str) -> AbstractContextManager[None]:
    """Convert exceptions in a ``with`` block that decodes a part of the log.

    Args:
        name: Name of the log file or entry, for the error message.

    Raises:
        CorruptMetadata: for any exception except :class:`SplitlibError` and :class:`OSError`.
    """
    return errors.decoding(f"{name} in the log of the table")
