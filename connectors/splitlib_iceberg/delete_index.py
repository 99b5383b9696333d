"""Find the delete files that apply to a data file, by the rules of Iceberg's specification.

A file with a greater sequence number is newer. Position deletes and deletion vectors apply to data
files that are older or have the same sequence number. Equality deletes apply only to older data
files. Deletes apply only to data files in their own partition, with two exceptions: equality
deletes of an unpartitioned specification apply to the whole table, and position deletes may name
the data file that they apply to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from itertools import takewhile
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFileContent

from splitlib.errors import CorruptMetadata, UnsupportedTable
from splitlib.model import DeleteFile
from splitlib.storage import local_path
from splitlib_iceberg.manifest_contents import refusal
from splitlib_iceberg.manifests import Entries
from splitlib_iceberg.partition_specs import Spec

# Reserved field id of the column ``file_path`` in position delete files.
_FILE_PATH = 2147483546


class Delete(NamedTuple):
    """A delete file and the data files that it may apply to."""

    file: DeleteFile
    sequence: int
    """Data sequence number of the delete file."""
    partition: Hashable
    """Partition key from :func:`partition_key`, or None if the deletes apply to all partitions."""
    data_file: str | None
    """Path of the only data file that the deletes apply to; None if the manifest has no path."""
    first_file: str | None
    """Lower bound for the paths of the data files, in string order, or None if unknown."""
    last_file: str | None
    """Upper bound for the paths of the data files, in string order, or None if unknown."""

    def may_name(self, path: str) -> bool:
        """Return whether ``path`` lies between ``first_file`` and ``last_file``."""
        low, high = self.first_file, self.last_file
        return (low is None or low <= path) and (high is None or path <= high)


class DeleteIndex:
    """Delete files, indexed by the data files that they may apply to. Immutable."""

    def __init__(self, deletes: Iterable[Delete]) -> None:
        self._vectors: dict[str, Delete] = {}
        self._by_path: defaultdict[str, list[Delete]] = defaultdict(list)
        self._positions: defaultdict[Hashable, list[Delete]] = defaultdict(list)
        self._equalities: defaultdict[Hashable, list[Delete]] = defaultdict(list)
        self._everywhere: list[Delete] = []
        for delete in deletes:
            self._add(delete)

    def __bool__(self) -> bool:
        kinds = (self._vectors, self._by_path, self._positions, self._equalities, self._everywhere)
        return any(kinds)

    def of(self, path: str, sequence: int, partition: Hashable) -> tuple[DeleteFile, ...]:
        """Return the delete files that apply to one data file, sorted by path and offset.

        Args:
            path: Path of the data file.
            sequence: Data sequence number of the data file.
            partition: Key of the data file's partition, from :func:`partition_key`.
        """
        found = [
            delete.file
            for delete in (*self._everywhere, *self._equalities.get(partition, ()))
            if sequence < delete.sequence
        ]
        vector = self._vectors.get(path)
        if vector is not None and sequence <= vector.sequence:
            # A vector also contains all positions from the data file's older position delete files.
            # So these files need not be applied.
            found.append(vector.file)
        else:
            found += [
                delete.file
                for delete in (*self._by_path.get(path, ()), *self._positions.get(partition, ()))
                if sequence <= delete.sequence and delete.may_name(path)
            ]
        return tuple(sorted(found, key=lambda file: (file.path, file.offset)))

    def _add(self, delete: Delete) -> None:
        if delete.file.kind == "vector":
            assert delete.data_file is not None
            if delete.data_file in self._vectors:
                raise CorruptMetadata(f"Two deletion vectors apply to {delete.data_file}.")
            self._vectors[delete.data_file] = delete
        elif delete.file.kind == "position":
            if delete.data_file is not None:
                self._by_path[delete.data_file].append(delete)
            else:
                self._positions[delete.partition].append(delete)
        elif delete.partition is None:
            self._everywhere.append(delete)
        else:
            self._equalities[delete.partition].append(delete)


def deletes_of(entries: Entries, spec: Spec) -> Iterator[Delete]:
    """Yield the delete files of one manifest.

    Raises:
        UnsupportedTable: for a delete file that cannot be applied.
        CorruptMetadata: if a manifest entry lacks required metadata.
        ValueError: if a manifest entry lacks a partition value.
    """
    columns = spec.partitions(entries.partition, entries.partition_ids)
    values = [key_values(column) for column in columns]
    lower, upper = entries.bounds[3], entries.bounds[4]
    for row, path in enumerate(entries.path):
        kind = _kind(entries, row)
        if kind != "vector":
            reason = refusal(entries.format[row], entries.encrypted[row])
            if reason is not None:
                raise UnsupportedTable(
                    f"Delete file {path} {reason}.",
                    hint="read the table with Spark's own Iceberg reader.",
                )
        ids = tuple(entries.equality_ids[row] or ())
        if kind == "equality" and not ids:
            raise CorruptMetadata(f"The equality delete file {path} has no columns to compare.")
        first = last = None
        data_file = entries.referenced[row]
        if kind == "position" and data_file is None:
            first, last = _path_bound(lower[row]), _path_bound(upper[row])
            data_file = first if first == last else None
            first, last = _local_bounds(first, last)
        yield Delete(
            DeleteFile(
                kind,
                local_path(path),
                entries.size[row],
                entries.format[row],
                entries.offset[row] or 0,
                entries.length[row] or 0,
                ids if kind == "equality" else (),
                entries.records[row],
            ),
            entries.sequence[row],
            None
            if kind == "equality" and spec.is_unpartitioned
            else partition_key(spec, [column[row] for column in values]),
            None if data_file is None else local_path(data_file),
            first,
            last,
        )


def key_values(column: pa.Array) -> list[Any]:
    """Return a column of partition values for :func:`partition_key`.

    Dates and timestamps become numbers, because Python has only the years 1 to 9999.
    """
    if pa.types.is_date32(column.type):
        column = pc.cast(column, pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def partition_key(spec: Spec, values: Iterable[Any]) -> Hashable:
    """Return a key that is equal for equal partitions. NaN equals NaN, and 0.0 is not -0.0."""
    return spec.id, tuple(value.hex() if isinstance(value, float) else value for value in values)


def _kind(entries: Entries, row: int) -> Literal["position", "vector", "equality"]:
    path = entries.path[row]
    match entries.content[row]:
        case DataFileContent.EQUALITY_DELETES:
            return "equality"
        case DataFileContent.POSITION_DELETES if entries.format[row] == "puffin":
            if None in (entries.referenced[row], entries.offset[row], entries.length[row]):
                raise CorruptMetadata(
                    f"The deletion vector in {path} has no data file, offset or length."
                )
            if min(entries.offset[row] or 0, entries.length[row] or 0) < 0:
                raise CorruptMetadata(
                    f"The deletion vector in {path} has a negative offset or length."
                )
            if entries.encrypted[row]:
                raise UnsupportedTable(f"The deletion vector {path} is encrypted.")
            return "vector"
        case DataFileContent.POSITION_DELETES:
            return "position"
    raise UnsupportedTable(f"Delete file {path} has unknown content {entries.content[row]}.")


def _path_bound(bounds: Any) -> str | None:
    """Return a bound of a position delete file's path column, or None if missing or invalid."""
    bound = None if bounds is None else bounds.get(_FILE_PATH)
    try:
        return None if bound is None else bound.decode()
    except UnicodeDecodeError:
        return None


def _local_bounds(first: str | None, last: str | None) -> tuple[str | None, str | None]:
    """Convert bounds of paths by ``local_path``, or return (None, None) if this is not safe.

    ``local_path`` shortens ``file:`` URIs, which may change the order of paths. The order stays the
    same only if all paths between the bounds begin with the same ``file:`` prefix, or if none of
    them is a ``file:`` URI. A writer may also have truncated a bound within this prefix.
    """
    if first is None or last is None:
        return None, None
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    # The common prefix of the bounds, with which all paths between them begin.
    shared = "".join(letter for letter, _ in same)
    if "file:".startswith(shared.lower()) or not local_path(shared).strip("/"):
        return None, None
    return local_path(first), local_path(last)
