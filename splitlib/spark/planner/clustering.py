"""Measure in a few Parquet footers whether conditions on a column would skip row groups.

If each row group has nearly all values of a column, no condition on the column skips any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from splitlib.filtering.domains import Ranges
from splitlib.statistics.row_groups import overlap_of

SAMPLED_FILES: Final = 16
"""Maximal number of files whose footers are read to measure one scan."""
MOST_KEPT: Final = 0.5
"""Maximal share of row groups that may be left. With more, a condition hardly saves anything."""


class StoredFile(NamedTuple):
    """A file, with properties that change if it is written again."""

    path: str
    size: int
    """Size in bytes."""
    modified: int
    """Modification time in milliseconds since the epoch."""


class GroupBounds(NamedTuple):
    """Least and greatest value of a column in each of some row groups; null means unknown."""

    lower: pa.Array
    upper: pa.Array

    @property
    def overlap(self) -> float:
        """Average share of row groups whose bounds include the least value of a row group."""
        return overlap_of(self.lower, self.upper)

    def share_in(self, ranges: Ranges) -> float:
        """Return the share of row groups that may have values in some ranges of the same type."""
        met = ranges.meet(self.lower, self.upper)
        return (pc.sum(met, min_count=0).as_py() or 0) / max(1, len(met))


class Clustering:
    """Bounds of columns in row groups of sampled files. Bounds of unchanged files are kept.

    Args:
        read_footer: Function that reads the footer of a file; None if it cannot be read.
        map_: Function that applies a function to many items, as ``Executor.map``.
    """

    # Bounds by file and column, for all queries of the process. A file that is written again has
    # another size or time.
    _kept: Final[dict[tuple[StoredFile, str], GroupBounds | None]] = {}
    _MOST_KEPT: Final = 10_000

    def __init__(
        self,
        read_footer: Callable[[StoredFile], pq.FileMetaData | None],
        map_: Callable[[Callable[[StoredFile], None], Iterable[StoredFile]], Iterable[None]] = map,
    ) -> None:
        self._read_footer = read_footer
        self._map = map_

    def bounds(self, files: Sequence[StoredFile], column: str) -> GroupBounds | None:
        """Return the bounds of a column in some files; None if any file lacks statistics."""
        missing = [file for file in files if (file, column) not in self._kept]
        for _ in self._map(lambda file: self._learn(file, column), missing):
            pass
        found = [self._kept.get((file, column)) for file in files]
        known = [bounds for bounds in found if bounds is not None]
        if not known or len(known) < len(found):
            return None
        kind = known[0].lower.type
        if any(bounds.lower.type != kind for bounds in known):
            return None  # the column's type has changed over time
        return GroupBounds(
            pa.concat_arrays([bounds.lower for bounds in known]),
            pa.concat_arrays([bounds.upper for bounds in known]),
        )

    def _learn(self, file: StoredFile, column: str) -> None:
        footer = self._read_footer(file)
        found = None if footer is None else bounds_in(footer, column)
        if len(self._kept) >= self._MOST_KEPT:
            self._kept.clear()  # one step, because other threads use the bounds too
        self._kept[file, column] = found


def bounds_in(metadata: pq.FileMetaData, column: str) -> GroupBounds | None:
    """Return the bounds of a column in the row groups of a file that have values.

    The result is None if the file does not have the column, or its type has no statistics.
    """
    stored = metadata.schema.to_arrow_schema()
    names = [name for name in stored.names if name.lower() == column.lower()]
    paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    if len(names) != 1 or paths.count(names[0]) != 1:
        return None
    kind, position = stored.field(names[0]).type, paths.index(names[0])
    pairs = list(_pairs(metadata, position))
    try:
        lower, upper = (pa.array([pair[end] for pair in pairs], kind) for end in (0, 1))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return GroupBounds(lower, upper) if pc.count(lower).as_py() or not pairs else None


def _pairs(metadata: pq.FileMetaData, position: int) -> Iterator[tuple[object, object]]:
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        found = group.column(position).statistics
        if found is not None and found.has_min_max:
            yield found.min, found.max
        elif found is None or not found.has_null_count or found.null_count < group.num_rows:
            yield None, None
