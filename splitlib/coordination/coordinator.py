"""Hands splits to readers while the listing, and the filters, are still on their way.

::

    listing threads ─► one enumerating thread ─► assigner ─► a reader asks ─► it acknowledges
                                 ▲                  ▲               ▲
                                 └──── filters, which may arrive at any moment

A request never waits for any of this: the reader is told to come back. Otherwise a reader could
occupy the very worker that is needed to collect the filter.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from splitlib.coordination.assigners import FifoAssigner, SplitAssigner
from splitlib.coordination.checkpoint import Checkpoint, TrackedSplit, decode, encode
from splitlib.coordination.prefetch import SplitPrefetcher
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.filtering.data import DynamicFilteringEvent
from splitlib.filtering.predicate import Predicate
from splitlib.model import FileSplit
from splitlib.remote.workers import UnforkedCondition

_FIRST_DELAY_SECONDS = 0.01
_MOST_DOUBLINGS = 4


def _paths_of(split: FileSplit) -> list[str]:
    """The files that it takes to read a split."""
    return [split.path, *(delete.path for delete in split.deletes)]


@dataclass(frozen=True, slots=True)
class AssignedSplit:
    """Read this, and acknowledge it.

    Attributes:
        split: What to read.
    """

    split: FileSplit


@dataclass(frozen=True, slots=True)
class WaitForSplits:
    """There is nothing yet: ask again.

    Attributes:
        delay_seconds: After this long, or when it suits the reader.
    """

    delay_seconds: float


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    """All is handed out. What another reader fails to read may still come back."""


@dataclass(frozen=True, slots=True)
class RequestIgnored:
    """Whoever asks is not a reader, or no longer: not to be taken for the end of the table.

    Attributes:
        reason: Why it is none.
    """

    reason: str


SplitResponse = AssignedSplit | WaitForSplits | NoMoreSplits | RequestIgnored


@dataclass(slots=True)
class _Reader:
    attempt: int
    hostname: str | None
    waits: int = 0
    """Requests in a row that were told to wait."""


class DynamicFileSplitEnumerator:
    """Hands out the splits of a table, each to one reader at a time. Thread-safe.

    Nothing is listed before the first request. Every split that matches the filters is handed out
    until a reader acknowledges it; no method blocks until something else happens.

    Args:
        enumerator: What lists the table; filters may be given to it directly, too. The coordinator
            owns it from now on, and cancels it when closed.
        assigner: Who gets which split; by default in the table's order.
    """

    def __init__(
        self, enumerator: DynamicFileEnumerator, assigner: SplitAssigner | None = None
    ) -> None:
        self.enumerator = enumerator
        self._assigner: SplitAssigner = FifoAssigner() if assigner is None else assigner
        self._lock = UnforkedCondition()
        self._readers: dict[Hashable, _Reader] = {}
        self._attempts: dict[Hashable, int] = {}
        self._waiting: dict[str, TrackedSplit] = {}
        self._assigned: dict[str, tuple[TrackedSplit, Hashable]] = {}
        self._passed = enumerator.predicate  # by all that waits
        self._known_files = bytearray()
        self._received = 0
        self._prefetcher = SplitPrefetcher(enumerator)
        self._closed = False

    @classmethod
    def restore(
        cls,
        state: bytes,
        enumerator: DynamicFileEnumerator,
        assigner: SplitAssigner | None = None,
    ) -> Self:
        """A coordinator that goes on where another one has made ``state``.

        It knows no readers. What had been handed out and not acknowledged is handed out first.
        Filters that ``enumerator`` already has hold as well.

        Raises:
            InvalidCheckpoint: if ``state`` was damaged, or is of another table or snapshot.
            InvalidFilter: if a producer has given ``enumerator`` another filter than before.
            LocationNotAllowed: for a file outside of ``allowed_locations``.
        """
        checkpoint = decode(state, enumerator.identity(), enumerator.table.metadata)
        splits = [tracked.split for tracked in checkpoint.splits]
        paths = {path for split in splits for path in _paths_of(split)}
        enumerator.table.refuse_outside(sorted(paths), enumerator.config)
        for event in checkpoint.filters:
            enumerator.set_dynamic_filtering_data(event.data, event.producer)
        restored = cls(enumerator, assigner)
        known = checkpoint.known_files
        restored._known_files += known
        restored._prefetcher = SplitPrefetcher(enumerator, known, complete=checkpoint.complete)
        kept = restored._still_wanted(checkpoint.splits, restored._passed)
        restored._waiting.update((tracked.split.split_id, tracked) for tracked in kept)
        restored._assigner.add_back([tracked.split for tracked in kept])
        return restored

    def snapshot_state(self) -> bytes:
        """What :meth:`restore` needs: the splits not acknowledged, the filters, the files known.

        About 16 bytes for each file enumerated, and some 200 for each split not acknowledged.

        Raises:
            InvalidCheckpoint: for what cannot be written; see
                :func:`splitlib.coordination.checkpoint.encode`.
        """
        with self._lock:
            complete = self._receive()
            waiting = [self._waiting[split.split_id] for split in self._assigner]
            checkpoint = Checkpoint(
                self.enumerator.identity(),
                complete,
                self.enumerator.received_filters(),
                [tracked for tracked, _ in self._assigned.values()] + waiting,
                bytes(self._known_files),
            )
        return encode(checkpoint)

    def announce_dynamic_filter(
        self, producer: Hashable, fields: Iterable[str] | None = None
    ) -> None:
        """See :meth:`splitlib.DynamicFileEnumerator.announce_dynamic_filter`."""
        self.enumerator.announce_dynamic_filter(producer, fields)

    def handle_source_event(self, event: DynamicFilteringEvent) -> None:
        """Take a filter, at any time: no request after it gets a split that it drops.

        Raises:
            InvalidFilter: if the same producer (not None) has given a different filter.
        """
        self.enumerator.set_dynamic_filtering_data(event.data, event.producer)

    def register_reader(
        self, reader_id: Hashable, hostname: str | None = None, attempt: int = 0
    ) -> None:
        """Make a reader known, or a newer attempt of one.

        A newer attempt takes over: what the older one had not acknowledged goes to others, and
        the older one is ignored from now on. An older attempt is ignored.
        """
        with self._lock:
            latest = self._attempts.get(reader_id, attempt)
            if attempt < latest:
                return
            if attempt > latest:
                self._take_back(reader_id)
            self._attempts[reader_id] = attempt
            self._readers[reader_id] = _Reader(attempt, hostname)

    def remove_reader(self, reader_id: Hashable, attempt: int | None = None) -> None:
        """Forget a reader that has ended or failed; what it had not acknowledged goes to others.

        Args:
            reader_id: Whom; unknown ones are ignored.
            attempt: Which attempt of it; ignored if that is not its latest. None = the latest.
        """
        with self._lock:
            if self._reader(reader_id, attempt) is not None:
                self._take_back(reader_id)
                del self._readers[reader_id]

    def handle_split_request(
        self, reader_id: Hashable, hostname: str | None = None, attempt: int | None = None
    ) -> SplitResponse:
        """The next split for a reader. Never waits for a listing or a filter.

        Args:
            reader_id: Who asks.
            hostname: Where from, if not from where it was registered.
            attempt: Which attempt of it asks; None = the latest.

        Raises:
            SplitlibError: why the listing has failed; from then on at every request.
        """
        with self._lock:
            reader = self._reader(reader_id, attempt)
            if self._closed:
                return RequestIgnored("the coordinator is closed")
            if reader is None:
                return RequestIgnored(f"{reader_id!r} is not registered, or a newer attempt is")
            self._prefetcher.start(self)
            complete = self._receive()
            if (error := self._prefetcher.error) is not None:
                # a copy: every raise adds its frames to the error's traceback
                raise copy.copy(error) from error
            split = self._assigner.take(hostname or reader.hostname)
            self._prefetcher.taken(self._received, len(self._assigner))
            if split is not None:
                reader.waits = 0
                tracked = self._waiting.pop(split.split_id)
                self._assigned[split.split_id] = (tracked, reader_id)
                return AssignedSplit(split)
            if complete:
                return NoMoreSplits()
            delay = _FIRST_DELAY_SECONDS * 2 ** min(reader.waits, _MOST_DOUBLINGS)
            reader.waits += 1
            return WaitForSplits(delay)

    def acknowledge(
        self, splits: Iterable[FileSplit], reader_id: Hashable, attempt: int | None = None
    ) -> None:
        """Note that a reader has finished splits: they are never handed out again.

        Splits that it no longer holds are ignored: another reader has them, or will have.
        """
        with self._lock:
            if self._reader(reader_id, attempt) is not None:
                for split in splits:
                    if self._holds(reader_id, split):
                        del self._assigned[split.split_id]

    def add_splits_back(
        self, splits: Iterable[FileSplit], reader_id: Hashable, attempt: int | None = None
    ) -> None:
        """Take splits from a reader that has failed; those that still match go to others.

        Splits that it no longer holds are ignored.
        """
        with self._lock:
            if self._reader(reader_id, attempt) is not None:
                self._put_back([s.split_id for s in splits if self._holds(reader_id, s)])

    @property
    def waiting_splits(self) -> int:
        """How many are enumerated and not handed out; bounded, however large the table is."""
        with self._lock:
            self._receive()
            return len(self._assigner)

    @property
    def unacknowledged_splits(self) -> int:
        """How many are handed out and not acknowledged."""
        with self._lock:
            return len(self._assigned)

    @property
    def finished(self) -> bool:
        """Whether every split that matches was handed out and acknowledged."""
        with self._lock:
            return self._receive() and not self._assigned and not len(self._assigner)

    def close(self) -> None:
        """Stop listing, at once; requests are ignored from now on.

        Calls of the storage under way end by themselves.
        """
        with self._lock:
            self._closed = True
        self._prefetcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Below: with the lock held.

    def _reader(self, reader_id: Hashable, attempt: int | None) -> _Reader | None:
        reader = self._readers.get(reader_id)
        if reader is None or attempt not in (None, reader.attempt):
            return None
        return reader

    def _holds(self, reader_id: Hashable, split: FileSplit) -> bool:
        held = self._assigned.get(split.split_id)
        return held is not None and held[1] == reader_id

    def _take_back(self, reader_id: Hashable) -> None:
        self._put_back([key for key, (_, holder) in self._assigned.items() if holder == reader_id])

    def _put_back(self, split_ids: Iterable[str]) -> None:
        self._receive()
        returned = [self._assigned.pop(split_id)[0] for split_id in dict.fromkeys(split_ids)]
        kept = self._still_wanted(returned, self._passed)
        self._waiting.update((tracked.split.split_id, tracked) for tracked in kept)
        self._assigner.add_back([tracked.split for tracked in kept])

    def _receive(self) -> bool:
        """Take in what has been enumerated, and drop what the filters known by now drop.

        Returns:
            Whether that was all there is.
        """
        complete = self._prefetcher.complete  # read first: nothing arrives after it is set
        predicate = self.enumerator.predicate
        if predicate is not self._passed:
            self._passed = predicate
            waiting = list(self._waiting.values())
            kept = {t.split.split_id: t for t in self._still_wanted(waiting, predicate)}
            self._assigner.remove(self._waiting.keys() - kept.keys())
            self._waiting = kept
        while self._prefetcher.arrived:
            arrival = self._prefetcher.arrived.popleft()
            self._received += len(arrival.splits)
            self._known_files += arrival.file_ids
            kept_now = arrival.splits
            if arrival.predicate is not predicate:
                kept_now = self._still_wanted(kept_now, predicate)
            self._waiting.update((tracked.split.split_id, tracked) for tracked in kept_now)
            self._assigner.add([tracked.split for tracked in kept_now])
        return complete and self._prefetcher.error is None

    def _still_wanted(
        self, tracked: Sequence[TrackedSplit], predicate: Predicate
    ) -> list[TrackedSplit]:
        if not predicate.keys and not predicate.matches_nothing:
            return list(tracked)
        origins = {id(one.origin): one.origin for one in tracked}
        masks = self.enumerator.still_selects(list(origins.values()), predicate)
        flags = {key: mask.to_pylist() for key, mask in zip(origins, masks, strict=True)}
        return [one for one in tracked if flags[id(one.origin)][one.row]]
