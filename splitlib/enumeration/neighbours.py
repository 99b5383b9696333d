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
) -> Iterator[MatchedPartitions]:
    """The same partitions in the same order, put together as they are to be listed.

    Partitions go together if all files from the first to the last of them, those of partitions in
    between too, fit in a page. One that has no such neighbour stays alone. Where it is not known
    what lies in between, those of a batch stay together: how many of them a page tells is known
    when the first has come.

    Args:
        batches: What matched, of any number of partitions.
        files_per_page: How many files one request tells.
        files_each: About how many files a partition has, asked before each group; 0 = not known.
    """
    rest: MatchedPartitions | None = None
    for batch in batches:
        if batch.partitions.has_gaps:
            yield from _in_groups(rest, files_per_page, files_each)
            rest = None
            yield batch
            continue
        rest = batch if rest is None else rest.joined(batch)
        while rest is not None and (length := _together(rest, files_per_page, files_each())):
            if length == len(rest):
                break  # the next batch may have more that go with them
            yield rest.slice(0, length)
            rest = rest.slice(length)
    yield from _in_groups(rest, files_per_page, files_each)


def _in_groups(
    rest: MatchedPartitions | None, files_per_page: int, files_each: Callable[[], float]
) -> Iterator[MatchedPartitions]:
    """What is left of all that are neighbours."""
    while rest is not None and len(rest):
        length = _together(rest, files_per_page, files_each())
        yield rest.slice(0, length)
        rest = rest.slice(length)


def _together(matched: MatchedPartitions, files_per_page: int, files_each: float) -> int:
    """How many of the first partitions go together."""
    # of a full page it is not known that it was the last
    span = int((files_per_page - 1) / files_each) if files_each else _FIRST
    places = matched.places
    end = places[0] + max(span, 1)
    return int(places.searchsorted(end))
