"""Partitions that one request probably lists together, on a storage that lists in pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from splitlib.enumeration.matched_partitions import MatchedPartitions

# How many neighbours are listed first where nothing is known of how many files they have.
_FIRST = 50


def neighbours(
    batches: Iterator[MatchedPartitions],
    files_per_page: int,
    files_each: Callable[[], float],
    threads: int,
) -> Iterator[MatchedPartitions]:
    """The same partitions in the same order, put together as they are to be listed.

    Partitions go together if all files from the first to the last of them, those of partitions in
    between too, fit in a page. One that has no such neighbour stays alone. Where it is not known
    which lie in between, each thread gets its share: that is one request for each thread if there
    are none, and no more than one for each partition if there are many.

    Args:
        batches: What matched, of any number of partitions.
        files_per_page: How many files one request tells.
        files_each: About how many files a partition has, asked before each group; 0 = not known.
        threads: How many listings run at once.
    """
    share = 0
    rest: MatchedPartitions | None = None
    for batch in batches:
        rest = batch if rest is None else rest.joined(batch)
        share = -(-len(rest) // threads) if rest.partitions.has_gaps else len(rest)
        while rest is not None and (length := _together(rest, files_per_page, files_each())):
            length = min(length, share)
            if length == len(rest):
                break  # the next batch may have more that go with them
            yield rest.slice(0, length)
            rest = rest.slice(length)
    while rest is not None and len(rest):
        length = min(share, _together(rest, files_per_page, files_each()))
        yield rest.slice(0, length)
        rest = rest.slice(length)


def _together(matched: MatchedPartitions, files_per_page: int, files_each: float) -> int:
    """How many of the first partitions go together."""
    # of a full page it is not known that it was the last
    span = int((files_per_page - 1) / files_each) if files_each else _FIRST
    places = matched.places
    end = places[0] + max(span, 1)
    return int(places.searchsorted(end))
