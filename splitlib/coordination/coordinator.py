"""``DynamicFileSplitEnumerator``: hands splits to readers while files are listed.

::

    listing threads ─► one enumerating thread ─► assigner ─► split request ─► acknowledgement
                                 ▲                  ▲               ▲
                                 └──── filters, which may arrive at any moment

A reader's request never waits for a listing or a filter. If no split is available, the response
tells the reader to request again later. A waiting reader could occupy the worker that has to
collect the filter.
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
from splitlib.errors import ConfigError
from splitlib.filtering.data import DynamicFilteringData, DynamicFilteringEvent
from splitlib.filtering.predicate import Predicate
from splitlib.model import FileSplit
from splitlib.remote.calls import UnforkedCondition

_FIRST_DELAY_SECONDS = 0.01
_MOST_DOUBLINGS = 4


@dataclass(frozen=True, slots=True)
class AssignedSplit:
    """Response with a split. The reader must read the split and then acknowledge it.

    Attributes:
        split: The split to read.
    """

    split: FileSplit


@dataclass(frozen=True, slots=True)
class WaitForSplits:
    """Response when no split is available yet. The reader should request again after a delay.

    Attributes:
        delay_seconds: Suggested delay before the next request, in seconds.
    """

    delay_seconds: float


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    """Response when all splits are handed out. Splits of failed readers are handed out again."""


@dataclass(frozen=True, slots=True)
class RequestIgnored:
    """Response to an ignored request. It does not mean that all splits are handed out.

    The reader is not registered or was replaced, or the coordinator is closed.

    Attributes:
        reason: Why the request was ignored.
    """

    reason: str


SplitResponse = AssignedSplit | WaitForSplits | NoMoreSplits | RequestIgnored


@dataclass(slots=True)
class _Reader:
    attempt: int
    hostname: str | None
    waits: int = 0
    """Number of consecutive requests for which no split was available."""


class DynamicFileSplitEnumerator:
    """Hands out the splits of a table, each to one reader at a time. Thread-safe.

    Nothing is listed before the first request. If a reader fails before it acknowledges a split,
    another reader gets this split. No method waits for a listing or a filter.

    Args:
        enumerator: Enumerator of the table, which may also receive filters directly. It can be used
            again after the coordinator is closed.
        assigner: Chooses which reader gets which split; by default :class:`FifoAssigner`, which
            keeps the table's order.
    """

    def __init__(
        self, enumerator: DynamicFileEnumerator, assigner: SplitAssigner | None = None
    ) -> None:
        _refuse_other_than_enumerator(enumerator)
        self.enumerator = enumerator
        self._assigner: SplitAssigner = FifoAssigner() if assigner is None else assigner
        self._lock = UnforkedCondition()
        self._readers: dict[Hashable, _Reader] = {}
        self._attempts: dict[Hashable, int] = {}
        self._waiting: dict[str, TrackedSplit] = {}
        self._assigned: dict[str, tuple[TrackedSplit, Hashable]] = {}
        self._passed = enumerator.predicate  # All waiting splits match this predicate.
        self._known_files = bytearray()
        self._received = 0
        self._prefetcher = SplitPrefetcher(enumerator)
        self._closed = False

    @classmethod
    def restore(
        cls, state: bytes, enumerator: DynamicFileEnumerator, assigner: SplitAssigner | None = None
    ) -> Self:
        """Create a coordinator that continues from ``state``, a snapshot of another coordinator.

        Readers must register again. Splits that were handed out but not acknowledged come first.
        Filters in the snapshot are added to those that ``enumerator`` already has.

        Raises:
            InvalidCheckpoint: if ``state`` is damaged, or belongs to another table or snapshot.
            InvalidFilter: if ``enumerator`` and the snapshot have different filters of the same
                producer.
            LocationNotAllowed: if a file is outside of ``allowed_locations``.
        """
        _refuse_other_than_enumerator(enumerator)
        checkpoint = decode(state, enumerator.identity(), enumerator.table.metadata)
        splits = [tracked.split for tracked in checkpoint.splits]
        paths = {split.path for split in splits}
        paths.update(file.path for split in splits for file in split.deletes)
        enumerator.table.refuse_outside(sorted(paths), enumerator.config)
        for event in checkpoint.filters:
            enumerator.set_dynamic_filtering_data(event.data, event.producer)
        restored = cls(enumerator, assigner)
        known = checkpoint.known_files
        restored._known_files += known
        restored._prefetcher = SplitPrefetcher(enumerator, known, complete=checkpoint.complete)
        restored._wait_again(checkpoint.splits)
        return restored

    def snapshot_state(self) -> bytes:
        """Serialize unacknowledged splits, filters and ids of listed files, for :meth:`restore`.

        The size is about 16 bytes per enumerated file plus 200 bytes per unacknowledged split.

        Raises:
            InvalidCheckpoint: if the state cannot be serialized; see
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
        """Announce that ``producer`` will deliver a filter.

        See :meth:`splitlib.DynamicFileEnumerator.announce_dynamic_filter`.
        """
        self.enumerator.announce_dynamic_filter(producer, fields)

    def handle_source_event(self, event: DynamicFilteringEvent | DynamicFilteringData) -> None:
        """Add a filter at any time. Later requests do not return splits that the filter excludes.

        If filtering data is passed without an event, its producer is unknown.

        Raises:
            InvalidFilter: if the same producer (not None) delivered a different filter before.
        """
        if not isinstance(event, DynamicFilteringEvent):
            event = DynamicFilteringEvent(DynamicFilteringData.of(event))
        self.enumerator.set_dynamic_filtering_data(event.data, event.producer)

    def register_reader(
        self, reader_id: Hashable, hostname: str | None = None, attempt: int = 0
    ) -> None:
        """Register a reader, or a newer attempt of a reader.

        A newer attempt replaces an older attempt: unacknowledged splits of the older attempt are
        handed out again, and its further calls are ignored. Registering an older attempt does
        nothing.
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
        """Remove a reader that ended or failed. Its unacknowledged splits go to other readers.

        Args:
            reader_id: Id of the reader; unknown ids are ignored.
            attempt: Attempt of the reader; None means the latest. Older attempts are ignored.
        """
        with self._lock:
            if self._reader(reader_id, attempt) is not None:
                self._take_back(reader_id)
                del self._readers[reader_id]

    def handle_split_request(
        self, reader_id: Hashable, hostname: str | None = None, attempt: int | None = None
    ) -> SplitResponse:
        """Return the next split for a reader, without waiting for a listing or a filter.

        Args:
            reader_id: Id of the reader.
            hostname: Host of the reader; by default the host from its registration.
            attempt: Attempt of the reader; None means the latest. Older attempts are ignored.

        Raises:
            SplitlibError: if the listing has failed; every later request raises the error again.
        """
        with self._lock:
            reader = self._reader(reader_id, attempt)
            if self._closed:
                return RequestIgnored("the coordinator is closed")
            if reader is None:
                return RequestIgnored(f"{reader_id!r} is not registered, or has a newer attempt")
            self._prefetcher.start(self)
            complete = self._receive()
            if (error := self._prefetcher.error) is not None:
                # Raise a copy, because every raise adds frames to the error's traceback.
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
        """Record that a reader has finished splits. These splits are never handed out again.

        Splits that were taken away from the reader are ignored, because another reader gets them.
        """
        with self._lock:
            if self._reader(reader_id, attempt) is not None:
                for split in splits:
                    if self._holds(reader_id, split):
                        del self._assigned[split.split_id]

    def add_splits_back(
        self, splits: Iterable[FileSplit], reader_id: Hashable, attempt: int | None = None
    ) -> None:
        """Take splits back from a failed reader. Splits that still match go to other readers.

        Splits that were already taken away from the reader are ignored.
        """
        with self._lock:
            if self._reader(reader_id, attempt) is not None:
                self._put_back([s.split_id for s in splits if self._holds(reader_id, s)])

    @property
    def waiting_splits(self) -> int:
        """Number of splits that wait for a reader. Listing pauses while there are many of them."""
        with self._lock:
            self._receive()
            return len(self._assigner)

    @property
    def unacknowledged_splits(self) -> int:
        """Number of splits that are handed out but not acknowledged."""
        with self._lock:
            return len(self._assigned)

    @property
    def finished(self) -> bool:
        """Whether every matching split was handed out and acknowledged."""
        with self._lock:
            return self._receive() and not self._assigned and not len(self._assigner)

    def close(self) -> None:
        """Stop listing, and ignore all further requests.

        Storage calls in progress are not interrupted.
        """
        with self._lock:
            self._closed = True
        self._prefetcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Callers of the methods below must hold the lock.

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
        # A condition may raise an error, so the state changes afterwards.
        keys = list(dict.fromkeys(split_ids))
        self._wait_again([self._assigned[key][0] for key in keys])
        for key in keys:
            del self._assigned[key]

    def _wait_again(self, splits: Sequence[TrackedSplit]) -> None:
        kept = self._still_wanted(splits, self._passed)
        self._waiting.update((tracked.split.split_id, tracked) for tracked in kept)
        self._assigner.add_back([tracked.split for tracked in kept])

    def _receive(self) -> bool:
        """Receive splits from the prefetcher, and drop splits that the current filters exclude.

        Returns:
            Whether the enumeration is complete.
        """
        # Read this flag before the queue. No splits arrive after the flag is set, so no split is
        # missed.
        complete = self._prefetcher.complete
        predicate = self.enumerator.predicate
        if predicate is not self._passed:
            waiting = list(self._waiting.values())
            kept = {t.split.split_id: t for t in self._still_wanted(waiting, predicate)}
            self._assigner.remove(self._waiting.keys() - kept.keys())
            self._waiting, self._passed = kept, predicate
        while self._prefetcher.arrived:
            arrival = self._prefetcher.arrived[0]
            kept_now = arrival.splits
            if arrival.predicate is not predicate:
                kept_now = self._still_wanted(kept_now, predicate)
            self._prefetcher.arrived.popleft()
            self._received += len(arrival.splits)
            self._known_files += arrival.file_ids
            self._waiting.update((tracked.split.split_id, tracked) for tracked in kept_now)
            self._assigner.add([tracked.split for tracked in kept_now])
        return complete and self._prefetcher.error is None

    def _still_wanted(
        self, tracked: Sequence[TrackedSplit], predicate: Predicate
    ) -> list[TrackedSplit]:
        if not (predicate.keys or predicate.of_learned or predicate.matches_nothing):
            return list(tracked)
        origins = {id(one.origin): one.origin for one in tracked}
        masks = self.enumerator.still_selects(list(origins.values()), predicate)
        flags = {key: mask.to_pylist() for key, mask in zip(origins, masks, strict=True)}
        return [one for one in tracked if flags[id(one.origin)][one.row]]


def _refuse_other_than_enumerator(value: object) -> None:
    if not hasattr(value, "predicate"):
        raise ConfigError(
            f"enumerator is a {type(value).__name__}, not a DynamicFileEnumerator.",
            hint="pass DynamicFileEnumerator(table).",
        )
