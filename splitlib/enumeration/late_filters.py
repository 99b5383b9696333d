"""Apply filters that arrive after files were selected."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.enumeration.splitting import SelectedFiles
from splitlib.enumeration.tally import ScanTally
from splitlib.filtering.predicate import Predicate


def still_selected(
    selected: Iterable[SelectedFiles], predicate: Predicate, tally: ScanTally
) -> list[pa.BooleanArray]:
    """Return one mask per item of ``selected``, true for the files that may match ``predicate``."""
    # Many items have the same batch of partitions, so each batch is matched only once.
    kept: dict[int, pa.BooleanArray] = {}
    masks = []
    for some in selected:
        partitions, files = some.partitions, some.files
        if id(partitions) not in kept:
            kept[id(partitions)] = tally.match(partitions, predicate, before=predicate)
        mask = kept[id(partitions)].take(files.files["partition"])
        if files.statistics:
            mask = pc.and_kleene(mask, predicate.match_bounds(files.statistics))
        if some.learned is not None and predicate.of_learned is not None:
            matched = some.learned.match(predicate.of_learned)
            mask = pc.and_kleene(mask, pa.array(matched.keeps))
        masks.append(pc.fill_null(mask, True))
    return masks


class UnreturnedFiles:
    """The files of one batch, which are returned one by one while filters may arrive.

    Args:
        selected: The batch of files.
        matched: A predicate that the files match.
        predicate: Function that returns the conjunction of the filters received so far.
        tally: Counts the files that are not returned.
    """

    def __init__(
        self,
        selected: SelectedFiles,
        matched: Predicate,
        predicate: Callable[[], Predicate],
        tally: ScanTally,
    ) -> None:
        self._selected = selected
        self._matched = matched
        self._predicate = predicate
        self._tally = tally
        self._mask = np.ones(len(selected.files), np.bool_)
        self._returned = 0
        """Number of files that were returned or dropped; the others are after them."""

    def starts(self, row: int) -> bool:
        """Return whether to return the file at index ``row``. Call this once per file, in order."""
        is_kept = self.keeps(row)
        self._returned = row + 1
        return is_kept

    def keeps(self, row: int) -> bool:
        """Return whether the file at index ``row`` matches the filters received so far."""
        predicate = self._predicate()
        if predicate is not self._matched:
            self._matched = predicate
            [mask] = still_selected([self._selected], predicate, self._tally)
            newer = self._mask & mask.to_numpy(zero_copy_only=False)
            dropped = self._mask & ~newer
            dropped[: self._returned] = False
            self._tally.withdrawn(self._selected.take(pa.array(np.flatnonzero(dropped))))
            self._mask = newer
        return bool(self._mask[row])
