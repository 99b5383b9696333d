"""Convert files that Arrow would read differently from Spark, and convert filters to expressions.

Arrow's own readers find columns by name, cast them by Arrow's rules, and do not apply delete files.
If their rows would differ from those of Spark's readers, :mod:`splitlib.reading` reads the file.
Arrow then gets the rows as a file in Arrow's IPC format.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NoReturn
from weakref import ref

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs
from pyarrow import parquet as pq

from splitlib.arrow.values import normal_floats, try_cast
from splitlib.checks import mismatches
from splitlib.errors import CorruptMetadata, InvalidFilter
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import RangeDomain
from splitlib.filtering.matchers import Matcher, RangeMatcher, ValueMatcher, are_in
from splitlib.filtering.predicate import Predicate
from splitlib.hive.partition_values import is_char
from splitlib.model import DeleteFile, FileSplit, ReadFormat, TableMetadata
from splitlib.reading.columns import Find
from splitlib.reading.formats import RowGroupFilter
from splitlib.reading.reader import open_file, read_split
from splitlib.rows.calls import CALLS
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
    """A file split that is read by :mod:`splitlib.reading`, not by Arrow's own readers."""

    split: FileSplit
    schema: pa.Schema
    """Columns to read from the file."""
    find: Find
    row_groups: RowGroupFilter
    deleted: Deleted | None


class _Counted:
    """A file object of Python that Arrow's threads read. Each call is counted."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int = -1) -> Any:
        with CALLS.counted(self):
            return self._file.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class ConvertedFiles(fs.FileSystemHandler):  # type: ignore[misc] # pyarrow has no types
    """A read-only filesystem from which Arrow reads the files of one dataset. Thread-safe.

    Args:
        storage: Storage client that opens the files.
        checked: Function that returns a context manager. In its block, only allowed locations can
            be opened, and errors name the table.
    """

    def __init__(
        self, storage: Storage, checked: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._storage = storage
        self._checked = checked
        self._plain: dict[str, FileSplit] = {}
        self._converted: dict[str, Converted] = {}
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, pa.Buffer] = OrderedDict()
        # The filesystem refers to this object from C++, where Python's garbage collector does not
        # see it. With a strong reference back, neither of the two would ever be freed.
        self._filesystem: Callable[[], fs.PyFileSystem | None] = lambda: None

    @property
    def filesystem(self) -> fs.PyFileSystem:
        """A pyarrow filesystem for these files. It calls the methods of this object.

        The same filesystem is returned as long as the caller keeps it.
        """
        made = self._filesystem()
        if made is None:
            made = fs.PyFileSystem(self)
            self._filesystem = ref(made)
        return made

    def add(self, split: FileSplit) -> str:
        """Register a file that Arrow reads unchanged, and return its path in this filesystem.

        When Arrow opens the file, it must still have the split's size and modification time.
        """
        self._plain[split.path] = split
        return split.path

    def add_converted(self, part: Converted) -> str:
        """Register a split that is to be converted, and return its path in this filesystem."""
        name = f"{part.split.path}#{part.split.split_id}.arrow"
        self._converted[name] = part
        return name

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access. A file from :meth:`add_converted` is converted here."""
        with CALLS.counted(self), self._checked():
            part = self._converted.get(path)
            if part is None:
                split = self._plain[path]
                return open_file(split, self._storage, verify=True, wrapped=_Counted)
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
                verify=True,
                find=part.find,
                deleted=deleted,
                pre_buffer=False,  # Required, because Arrow's I/O threads call this function.
            ):
                CALLS.refuse_at_exit()
                writer.write_batch(batch)
        return sink.getvalue()

    def _positions(self, deleted: Deleted) -> pa.Int64Array:
        found = [positions.to_numpy(zero_copy_only=False) for positions in deleted.positions]
        found += [self._positions_in(delete, deleted.path) for delete in deleted.files]
        return pa.array(np.unique(np.concatenate(found)), pa.int64())

    def _positions_in(self, delete: DeleteFile, path: str) -> Any:
        """Return the positions, as a NumPy array, that ``delete`` lists for data file ``path``."""
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
    """Normalize a path: drop ``file:``, use one scheme for S3, and merge repeated slashes."""
    return re.sub("(?<!:)/{2,}", "/", located(path).path)


def condition_of(
    filters: Sequence[DynamicFilteringData], metadata: TableMetadata
) -> pc.Expression | None:
    """Return an Arrow expression that is true for the rows that match all filters.

    Null equals null, NaN equals NaN, and -0.0 equals 0.0. CHAR columns are compared without
    trailing spaces. Keys of another type are converted as Spark converts them for ``=``. A filter
    that had too many keys, and so has neither values nor ranges, matches all rows.

    Returns:
        The expression, or None if every row matches.

    Raises:
        InvalidFilter: if a filter cannot be compared with the table's columns exactly.
    """
    columns = pa.schema([f for f in metadata.schema if not pa.types.is_nested(f.type)])
    comparable = replace(metadata, filter_schema=columns, has_statistics=True)
    by_name = {field.name.lower(): field for field in columns}
    conditions: list[pc.Expression] = []
    for data in filters:
        predicate = Predicate(columns, [data])
        for mismatch in mismatches(data, comparable):
            raise InvalidFilter(mismatch.message, hint=mismatch.hint)
        (used,) = predicate.filters
        if inside := [name for name in data.fields if name.lower() not in by_name]:
            raise InvalidFilter(f"Rows cannot be filtered by {inside[0]!r}, which is nested.")
        if data.domains and used.unused_because is not None:
            raise InvalidFilter(f"Rows cannot be compared with a filter: {used.unused_because}")
        _refuse_ambiguous(used.used_fields, metadata.schema.names)
        _refuse_ambiguous(data.fields, data.fields)
        _refuse_ends_out_of_range(data, by_name)
        if data.is_empty:
            conditions.append(pc.scalar(False))
        conditions += (_condition(matcher, by_name) for matcher in predicate.matchers)
    return reduce(_and, conditions) if conditions else None


def _refuse_ambiguous(used: Iterable[str], names: Sequence[str]) -> None:
    lower = [name.lower() for name in names]
    for name in used:
        if lower.count(name.lower()) > 1:
            raise InvalidFilter(f"Several columns are named {name!r}, ignoring case.")


def _refuse_ends_out_of_range(data: DynamicFilteringData, columns: Mapping[str, pa.Field]) -> None:
    """Reject ranges with an end that is not a value of the column's type.

    Pruning ignores such an end, and may keep too much. A condition on rows must be exact: without
    the end, it would match too many rows.
    """
    for domain in data.domains:
        if isinstance(domain, RangeDomain):
            kind, ends = columns[domain.field.name.lower()].type, domain.ranges.ends
            if try_cast(ends, kind).null_count > ends.null_count:
                raise InvalidFilter(
                    f"The range {domain.describe()} has an end that is not a value of {kind}.",
                    hint=f"use ends that are values of {kind}.",
                )


def _condition(matcher: Matcher, columns: Mapping[str, pa.Field]) -> pc.Expression:
    if isinstance(matcher, RangeMatcher):
        return _in_ranges(matcher, columns[matcher.keys[0]])
    assert isinstance(matcher, ValueMatcher)
    return are_in([_comparable(columns[key]) for key in matcher.keys], matcher.rows)


def _comparable(column: pa.Field) -> pc.Expression:
    """Return an expression that normalizes a column's values in the same way as the join keys."""
    field = normal_floats(pc.field(column.name), column.type)
    return pc.ascii_rtrim(field, characters=" ") if is_char(column) else field


def _in_ranges(matcher: RangeMatcher, column: pa.Field) -> pc.Expression:
    field, ranges = pc.field(column.name), matcher.ranges
    begun = pc.greater_equal if ranges.brackets[0] == "[" else pc.greater
    not_ended = pc.less_equal if ranges.brackets[1] == "]" else pc.less

    def conditions() -> Iterator[pc.Expression]:
        if matcher.includes_null:
            yield pc.is_null(field)
        for low, high in ranges:
            ends = [begun(field, low)] if low.is_valid else []
            ends += [not_ended(field, high)] if high.is_valid else []
            yield reduce(_and, ends) if ends else pc.is_valid(field)

    return _any(list(conditions()))


def _any(conditions: Sequence[pc.Expression]) -> pc.Expression:
    """Combine conditions with OR, as a balanced tree, because Arrow evaluates them recursively."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return _any(conditions[:middle]) | _any(conditions[middle:])


def _and(one: pc.Expression, other: pc.Expression) -> pc.Expression:
    return one & other
