"""Keep column bounds of many files' row groups in Arrow arrays, and match them with filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.values import of_ordinals
from splitlib.filtering.predicate import Predicate
from splitlib.model import ColumnStatistics
from splitlib.statistics.footers import GroupRow

_PARTS: Final = ("lower", "upper", "has_null", "has_value", "has_bloom_filter", "start", "end")

_PLACE: Final = ("start", "end")

Flags = npt.NDArray[np.bool_]


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type in which a column's bounds are stored. Time zones become UTC."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    return kind


def group_type(kind: pa.DataType) -> pa.ListType:
    """Return the type of the :attr:`FileGroups.columns` array for a column of type ``kind``."""
    bound = stored_type(kind)
    types = (bound, bound, *[pa.bool_()] * 3, pa.int64(), pa.int64())
    return pa.list_(pa.struct(list(zip(_PARTS, types, strict=True))))


def groups_array(files: Iterable[Sequence[GroupRow] | None], kind: pa.DataType) -> pa.ListArray:
    """Convert one column's statistics to an Arrow array with one list per file.

    Args:
        files: For each file, the column's statistics per row group, or None if unknown.
        kind: The column's type in the table.
    """
    offsets = [0]
    known: list[bool] = []
    rows: list[GroupRow] = []
    for groups in files:
        known.append(groups is not None)
        rows += groups or ()
        offsets.append(len(rows))
    of_list = group_type(kind)
    parts: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(_PARTS)
    arrays = [
        of_ordinals(part, field.type) for part, field in zip(parts, of_list.value_type, strict=True)
    ]
    values = pa.StructArray.from_arrays(arrays, fields=list(of_list.value_type))
    mask = pa.array([not is_known for is_known in known], pa.bool_())
    ends = pa.array(offsets, pa.int32())
    return pa.ListArray.from_arrays(ends, values, type=of_list, mask=mask)


@dataclass(frozen=True, slots=True)
class FileGroups:
    """Row group statistics of several files, as Arrow arrays.

    Attributes:
        columns: Arrays by column name in lower case. An array has one list per file, and a list has
            one struct per row group: ``lower``, ``upper``, ``has_null`` and ``has_value`` as in
            :class:`splitlib.model.ColumnStatistics`, and the row group's byte range in the file,
            from ``start`` to ``end`` (exclusive). A null list means that the file's row groups are
            unknown.
        keys: For some partition keys, the value in each file, by name in lower case.
    """

    columns: Mapping[str, pa.ListArray]
    keys: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    @classmethod
    def concatenated(cls, parts: Sequence[FileGroups]) -> FileGroups:
        """Return the row groups of the files of all parts, with the keys that all parts have."""
        names = set.intersection(*(set(part.keys) for part in parts))
        return cls(
            {
                name: pa.concat_arrays([part.columns[name] for part in parts])
                for name in parts[0].columns
            },
            {name: ColumnStatistics.concatenated([p.keys[name] for p in parts]) for name in names},
        )

    def take(self, rows: pa.Array) -> FileGroups:
        """Return the row groups of the files at the indexes ``rows``."""
        columns = {name: lists.take(rows) for name, lists in self.columns.items()}
        return FileGroups(columns, {name: values.take(rows) for name, values in self.keys.items()})

    def only(self, names: Iterable[str]) -> FileGroups:
        """Return a copy with only the columns ``names``. Case is ignored."""
        wanted = {name.lower() for name in names}
        columns = {name: one for name, one in self.columns.items() if name in wanted}
        return replace(self, columns=columns)

    @property
    def unknown(self) -> npt.NDArray[np.intp]:
        """Indexes of the files that lack statistics for at least one column."""
        masks = (lists.is_null() for lists in self.columns.values())
        return np.flatnonzero(np.logical_or.reduce([_flags(mask) for mask in masks]))

    def replaced(self, rows: npt.NDArray[np.intp], found: Mapping[str, pa.ListArray]) -> FileGroups:
        """Return a copy where the files at the indexes ``rows`` have the row groups ``found``."""
        columns = {}
        for name, lists in self.columns.items():
            place = np.arange(len(lists))
            place[rows] = len(lists) + np.arange(len(rows))
            columns[name] = pa.concat_arrays([lists, found[name]]).take(pa.array(place))
        return replace(self, columns=columns)

    def match(self, predicate: Predicate) -> MatchedGroups:
        """Return the row groups that may contain a row that matches a predicate."""
        lists = list(self.columns.values())
        files = len(lists[0])
        known, groups = np.zeros(files, np.int64), np.full(files, -1)
        changed = np.zeros(files, np.bool_)
        for bit, one in enumerate(lists):
            own = _numbers(pc.fill_null(pc.list_value_length(one), -1))
            changed |= (own >= 0) & (groups >= 0) & (own != groups)
            groups = np.maximum(groups, own)
            known |= (own >= 0).astype(np.int64) << bit
        known[changed] = 0  # these files changed between the reads of two columns
        keep, matched = np.ones(files, np.bool_), np.zeros(files, np.int64)
        total = np.zeros(files, np.int64)
        of_file, places = [], []
        # Files with statistics for the same columns are matched in one call.
        for pattern in np.flatnonzero(np.bincount(known)).tolist():
            names = [name for bit, name in enumerate(self.columns) if pattern >> bit & 1]
            if not names:
                continue
            rows = np.flatnonzero(known == pattern)
            parts = {name: self._parts(name, rows) for name in names}
            parents, of_groups = parts[names[0]]
            inside = rows[parents]
            keys = {name: values.take(pa.array(inside)) for name, values in self.keys.items()}
            mask = _matching(predicate, {name: part for name, (_, part) in parts.items()}, keys)
            matched += np.bincount(inside[mask], minlength=files)
            total += np.bincount(inside, minlength=files)
            keep[rows] = matched[rows] > 0
            of_file.append(inside[mask])
            places.append(of_groups.filter(pa.array(mask)))
        return MatchedGroups(keep, known > 0, matched, total, *_joined(of_file, places))

    def _parts(self, name: str, rows: npt.NDArray[np.intp]) -> tuple[Any, pa.StructArray]:
        lists = self.columns[name]
        if len(rows) < len(lists):
            lists = lists.take(pa.array(rows))
        return _numbers(pc.list_parent_indices(lists)), lists.flatten()


@dataclass(frozen=True, slots=True)
class MatchedGroups:
    """Result of matching the row groups of several files with a predicate."""

    keeps: Flags
    """For each file, whether it may have a matching row."""
    known: Flags
    """For each file, whether any of the columns has statistics."""
    matched: npt.NDArray[np.int64]
    """Number of matching row groups in each file; 0 if its row groups are unknown."""
    total: npt.NDArray[np.int64]
    """Number of row groups in each file; 0 if its row groups are unknown."""
    files: npt.NDArray[np.int64]
    """File index of each matching row group, ascending."""
    places: pa.StructArray
    """Byte range of each matching row group in its file: fields ``start`` and ``end``."""

    def places_of_each(self) -> pa.ListArray:
        """Return a list per file: byte ranges of its matching row groups, or null if unknown."""
        ends = np.searchsorted(self.files, np.arange(len(self.keeps) + 1)).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(ends), self.places, mask=pa.array(~self.known))


def _matching(
    predicate: Predicate,
    parts: Mapping[str, pa.StructArray],
    keys: Mapping[str, ColumnStatistics],
) -> Flags:
    rows = len(next(iter(parts.values())))
    if not rows:
        return np.zeros(0, np.bool_)
    unknown = pa.nulls(rows, pa.bool_())
    statistics = {
        name: ColumnStatistics(
            part.field("lower"),
            part.field("upper"),
            part.field("has_null"),
            unknown,  # footers do not count NaN
            part.field("has_value"),
        )
        for name, part in parts.items()
    }
    return _flags(predicate.match_bounds({**statistics, **keys}))


def overlap(files: FileGroups) -> float:
    """Return how much the row groups' bounds overlap, in the column where they overlap least.

    See :func:`overlap_of`. Row groups without values are ignored.
    """
    of_columns = (lists.flatten() for lists in files.columns.values())
    groups = [one.filter(pc.fill_null(one.field("has_value"), True)) for one in of_columns]
    return min((overlap_of(one.field("lower"), one.field("upper")) for one in groups), default=1.0)


def has_bounds(files: FileGroups) -> bool:
    """Return whether a row group has a bound of one of the columns."""
    groups = [lists.flatten() for lists in files.columns.values()]
    bounds = [one.field(end) for one in groups for end in ("lower", "upper")]
    return any(bound.null_count < len(bound) for bound in bounds)


def has_bloom_filters(files: FileGroups) -> bool:
    """Return whether a column has Bloom filters in all row groups. False without row groups."""
    of_columns = (lists.flatten() for lists in files.columns.values())
    flags = [one.field("has_bloom_filter") for one in of_columns if len(one)]
    return any(pc.all(flag).as_py() for flag in flags)


def overlap_of(lower: pa.Array, upper: pa.Array) -> float:
    """Return how much the bounds of n row groups overlap: 1 if all are equal, 1/n if disjoint.

    For each row group, count the row groups whose bounds include its lower bound. The result is the
    average count, which Snowflake calls "clustering depth", divided by n. Row groups with unknown
    bounds count as if they included all values.
    """
    known = pc.and_(pc.is_valid(lower), pc.is_valid(upper))
    unknown, groups = known.false_count, len(lower)
    lower, upper = lower.filter(known), upper.filter(known)
    if not len(lower):
        return 1.0
    ranks = pc.rank(pa.concat_arrays([lower, upper]), tiebreaker="dense").to_numpy()
    begins, ends = np.sort(ranks[: len(lower)]), np.sort(ranks[len(lower) :])
    begun = np.searchsorted(begins, begins, side="right")
    ended = np.searchsorted(ends, begins, side="left")
    return float(np.mean(begun - ended) + unknown) / groups


def _joined(
    of_file: Sequence[Any], groups: Sequence[pa.StructArray]
) -> tuple[npt.NDArray[np.int64], pa.StructArray]:
    """Return the file index and byte range of each row group, ordered by file."""
    files = np.concatenate([np.empty(0, np.int64), *of_file])
    order = pa.array(np.argsort(files, kind="stable"))
    places = [
        pa.chunked_array([one.field(name) for one in groups], pa.int64()).combine_chunks()
        for name in _PLACE
    ]
    return np.sort(files), pa.StructArray.from_arrays(places, _PLACE).take(order)


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = values.to_numpy(zero_copy_only=False)
    return numbers


def _flags(values: pa.BooleanArray) -> Flags:
    flags: Flags = values.to_numpy(zero_copy_only=False)
    return flags
