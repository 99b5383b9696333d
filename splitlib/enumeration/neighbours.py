"""Group neighbouring partitions that one page of a storage listing probably covers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from splitlib.enumeration.matched_partitions import MatchedPartitions


class Neighbours:
    """Groups partitions for storage that lists in pages across directories.

    A group contains partitions whose files, including those of partitions in between, fit in one
    page. A partition without such neighbours is a group of its own. If the number of files or the
    partitions in between are unknown, groups are as large as a page could cover, and the response
    shows how many it did cover.

    Args:
        batches: Batches of matched partitions.
        files_per_page: Number of files in one page.
        files_each: Returns the average number of files of a partition; 0 = unknown. Called before
            each group.
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
        """Take back partitions that the last group's page did not cover, before the next group."""
        self._rest = untold if self._rest is None else untold.joined(self._rest)

    def _groups(self, *, to_end: bool) -> Iterator[MatchedPartitions]:
        while (rest := self._rest) is not None:
            files_each = self._files_each()
            length = self._together(rest, files_each)
            if length == len(rest) and files_each and not to_end:
                return  # the next batch may contain more partitions of this group
            self._rest = rest.slice(length) if length < len(rest) else None
            yield rest.slice(0, length)

    def _together(self, matched: MatchedPartitions, files_each: float) -> int:
        """Return the number of leading partitions that form a group."""
        if not files_each:
            return min(self._files_per_page, len(matched))
        # A completely full page does not show whether more follows, so leave one entry free.
        span = int((self._files_per_page - 1) / files_each)
        end = matched.places[0] + max(span, 1)
        return int(matched.places.searchsorted(end))
