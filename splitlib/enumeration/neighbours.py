"""Partitions that one request probably lists together, on a storage that lists in pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from splitlib.enumeration.matched_partitions import MatchedPartitions


class Neighbours:
    """Partitions in their order, put together as they are to be listed.

    Partitions go together if all files from the first to the last of them, those of partitions in
    between too, fit in a page. One that has no such neighbour stays alone. Where it is not known
    how many files they have, or what lies in between, as many stay together as a page can tell:
    how many it does is known when it has come.

    Args:
        batches: What matched, of any number of partitions.
        files_per_page: How many files one request tells.
        files_each: About how many files a partition has, asked before each group; 0 = not known.
    """

    def __init__(
        self,
        batches: Iterator[MatchedPartitions],
        files_per_page: int,
        files_each: Callable[[], float],
    ) -> None:
        self._batches = batches
        self._files_per_page = files_per_page
        self._files_each = files_each
        self._rest: MatchedPartitions | None = None

    def __iter__(self) -> Iterator[MatchedPartitions]:
        for batch in self._batches:
            if batch.partitions.has_gaps:
                yield from self._groups(to_end=True)
                yield batch
                continue
            self._rest = batch if self._rest is None else self._rest.joined(batch)
            yield from self._groups(to_end=False)
        yield from self._groups(to_end=True)

    def put_back(self, untold: MatchedPartitions) -> None:
        """Take those of the last group that it turned out not to tell, before any other is made."""
        self._rest = untold if self._rest is None else untold.joined(self._rest)

    def _groups(self, *, to_end: bool) -> Iterator[MatchedPartitions]:
        while (rest := self._rest) is not None:
            files_each = self._files_each()
            length = self._together(rest, files_each)
            if length == len(rest) and files_each and not to_end:
                return  # the next batch may have more that go with them
            self._rest = rest.slice(length) if length < len(rest) else None
            yield rest.slice(0, length)

    def _together(self, matched: MatchedPartitions, files_each: float) -> int:
        """How many of the first partitions go together."""
        if not files_each:
            return min(self._files_per_page, len(matched))
        # of a full page it is not known that it was the last
        span = int((self._files_per_page - 1) / files_each)
        end = matched.places[0] + max(span, 1)
        return int(matched.places.searchsorted(end))
