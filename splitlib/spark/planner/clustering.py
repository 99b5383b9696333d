"""Measure in a few Parquet footers whether conditions on a column would skip row groups.

If each row group has nearly all values of a column, no condition on the column skips any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.filtering.domains import Ranges
from splitlib.statistics.footers import Footer, rows_of_groups
from splitlib.statistics.row_groups import groups_array, overlap_of
from splitlib.storage import StoredFile

SAMPLED_FILES: Final = 16
"""Maximal number of files whose footers are read to measure one scan."""
MOST_KEPT: Final = 0.5
"""Maximal share of row groups that may be left. With more, a condition hardly saves anything."""


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

    An instance reads each footer at most once. It is used for one query, as it keeps the footers.

    Args:
        read_footer: Function that reads the footer of a file; None if it cannot be read.
        map_: Function that applies a function to many items, as ``Executor.map``.
    """

    # Bounds by file and column, for all queries of the process. A file that is written again has
    # another size or time.
    _kept: Final[dict[tuple[StoredFile, str, pa.DataType], GroupBounds | None]] = {}
    _MOST_KEPT: Final = 10_000

    def __init__(
        self,
        read_footer: Callable[[StoredFile], Footer | None],
        map_: Callable[[Callable[[StoredFile], None], Iterable[StoredFile]], Iterable[None]] = map,
    ) -> None:
        self._read_footer = cache(read_footer)
        self._map = map_

    def bounds(self, files: Sequence[StoredFile], column: pa.Field) -> GroupBounds | None:
        """Return the bounds of a column in some files; None if no row group has bounds.

        Args:
            files: The files.
            column: The column, with its type in the table.
        """
        key = column.name, column.type
        missing = [file for file in files if (file, *key) not in self._kept]
        for _ in self._map(lambda file: self._learn(file, column), missing):
            pass
        known = [found for file in files if (found := self._kept.get((file, *key))) is not None]
        if all(found.lower.null_count == len(found.lower) for found in known):
            return None
        return GroupBounds(*map(pa.concat_arrays, zip(*known, strict=True)))

    def _learn(self, file: StoredFile, column: pa.Field) -> None:
        footer = self._read_footer(file)
        found = None if footer is None else bounds_in(footer, column)
        if len(self._kept) >= self._MOST_KEPT:
            self._kept.clear()  # one step, because other threads use the bounds too
        self._kept[file, column.name, column.type] = found


def bounds_in(footer: Footer, column: pa.Field) -> GroupBounds | None:
    """Return the bounds of a column in the row groups of a file that may have values.

    A row group without the column, or with values of another type, has unknown bounds. The result
    is None if the footer is damaged.
    """
    try:
        (rows,) = rows_of_groups(footer, [column])
    except (pa.ArrowException, ValueError, OverflowError):
        return None
    groups = groups_array([[row for row in rows if row.has_value is not False]], column.type)
    return GroupBounds(*(groups.flatten().field(end) for end in ("lower", "upper")))
