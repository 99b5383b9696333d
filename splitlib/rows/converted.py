"""An Arrow filesystem that converts some files when it opens them.

Arrow's own readers find columns by name, cast them by Arrow's rules, and ignore deleted rows. A
file that they would read differently from Spark is read by :mod:`splitlib.reading`, and appears to
Arrow as a file in Arrow's IPC format.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs
from pyarrow import parquet as pq

from splitlib.errors import CorruptMetadata
from splitlib.model import DeleteFile, FileSplit, ReadFormat
from splitlib.reading.columns import Find
from splitlib.reading.formats import RowGroupFilter
from splitlib.reading.reader import open_file, read_split
from splitlib.storage import Storage, located

# Maximum number of converted files in memory. They are kept because Arrow opens each file twice:
# first for its columns, then for its rows.
_KEPT = 8
# Names of the columns in position delete files, from the Iceberg specification.
_PATH, _POSITION = "file_path", "pos"
_PARQUET = ReadFormat("parquet")


@dataclass(frozen=True)
class Deleted:
    """The deleted rows of one data file."""

    path: str
    """Path of the data file."""
    files: tuple[DeleteFile, ...]
    """Position delete files. They may also contain positions in other data files."""
    positions: tuple[pa.Int64Array, ...]
    """Positions from deletion vectors."""


@dataclass(frozen=True)
class Converted:
    """A part of a file to be read by :mod:`splitlib.reading`."""

    split: FileSplit
    schema: pa.Schema
    """Columns to read from the file."""
    find: Find
    row_groups: RowGroupFilter
    deleted: Deleted | None


class ConvertedFiles(fs.FileSystemHandler):  # type: ignore[misc] # pyarrow has no types
    """The files of one dataset, read-only. Thread-safe.

    Args:
        storage: Storage client that opens the files.
        checked: Function that returns a context in which only allowed locations can be opened, and
            errors name the table.
        verify: Whether to compare the modification time of a file with the listing.
    """

    def __init__(
        self, storage: Storage, checked: Callable[[], AbstractContextManager[None]], *, verify: bool
    ) -> None:
        self._storage = storage
        self._checked = checked
        self._verify = verify
        self._plain: dict[str, FileSplit] = {}
        self._converted: dict[str, Converted] = {}
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, pa.Buffer] = OrderedDict()

    @cached_property
    def filesystem(self) -> fs.PyFileSystem:
        """The same files as a pyarrow filesystem."""
        return fs.PyFileSystem(self)

    def add(self, split: FileSplit) -> str:
        """Add a file that Arrow reads unchanged, and return its path in the filesystem."""
        self._plain[split.path] = split
        return split.path

    def add_converted(self, part: Converted) -> str:
        """Add a part of a file to convert, and return its path in the filesystem."""
        name = f"{part.split.path}#{part.split.split_id}.arrow"
        self._converted[name] = part
        return name

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        with self._checked():
            part = self._converted.get(path)
            if part is None:
                return open_file(self._plain[path], self._storage, verify=self._verify)
            with self._lock:
                buffer = self._kept.pop(path, None)
            if buffer is None:
                buffer = self._read(part)
                with self._lock:
                    self._kept[path] = buffer
                    if len(self._kept) > _KEPT:
                        self._kept.popitem(last=False)
            return pa.BufferReader(buffer)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file to read it from its start."""
        return self.open_input_file(path)

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        """Return the type and size of files. The size of a converted file is unknown."""
        found = []
        for path in paths:
            size = self._plain[path].file_size if path in self._plain else None
            exists = size is not None or path in self._converted
            kind = fs.FileType.File if exists else fs.FileType.NotFound
            found.append(fs.FileInfo(path, kind, size=size))
        return found

    def get_type_name(self) -> str:
        """Return the name of the filesystem."""
        return "splitlib"

    def normalize_path(self, path: str) -> str:
        """Return the path unchanged."""
        return path

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def _read(self, part: Converted) -> pa.Buffer:
        sink = pa.BufferOutputStream()
        deleted = None if part.deleted is None else self._positions(part.deleted)
        schema = pa.schema([field.remove_metadata() for field in part.schema])
        with pa.ipc.new_file(sink, schema) as writer:
            for batch in read_split(
                part.split,
                part.schema,
                self._storage,
                row_groups=part.row_groups,
                verify=self._verify,
                find=part.find,
                deleted=deleted,
                pre_buffer=False,  # Because one of Arrow's I/O threads calls this function.
            ):
                writer.write_batch(batch)
        return sink.getvalue()

    def _positions(self, deleted: Deleted) -> pa.Int64Array:
        found = [positions.to_numpy(zero_copy_only=False) for positions in deleted.positions]
        found += [self._positions_in(delete, deleted.path) for delete in deleted.files]
        return pa.array(np.unique(np.concatenate(found)), pa.int64())

    def _positions_in(self, delete: DeleteFile, path: str) -> Any:
        """Return the positions in ``path``, a data file, that a position delete file contains."""
        split = FileSplit("", delete.path, 0, delete.size, delete.size, 0, {}, _PARQUET)
        with open_file(split, self._storage) as file:
            parquet = pq.ParquetFile(file)
            if not {_PATH, _POSITION} <= set(parquet.schema_arrow.names):
                raise CorruptMetadata(f"Delete file {delete.path!r} lacks {_PATH} or {_POSITION}.")
            rows = parquet.read([_PATH, _POSITION], use_threads=False)
        if rows[_PATH].null_count or rows[_POSITION].null_count:
            # A null matches no row, so a deleted row would be read again.
            raise CorruptMetadata(f"Delete file {delete.path!r} has a null path or position.")
        paths = rows[_PATH].combine_chunks().dictionary_encode()
        spellings = [_spelling(text) == _spelling(path) for text in paths.dictionary.to_pylist()]
        mine = pa.array(spellings, pa.bool_()).take(paths.indices)
        return pc.filter(rows[_POSITION].combine_chunks(), mine).to_numpy(zero_copy_only=False)

    def _refuse_writing(self, *_: object) -> NoReturn:
        raise NotImplementedError("The files of a splitlib table are read-only.")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse_writing
    delete_file = move = copy_file = get_file_info_selector = _refuse_writing
    open_output_stream = open_append_stream = _refuse_writing


def _spelling(path: str) -> str:
    """Normalize a path for comparison: ``file:`` and the various S3 schemes make no difference."""
    return re.sub("(?<!:)/{2,}", "/", located(path).path)
