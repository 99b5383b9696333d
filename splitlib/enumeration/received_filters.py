"""The filters of a scan, which may be announced and received at any time, from any thread."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future

from splitlib.errors import InvalidFilter
from splitlib.filtering.data import DynamicFilteringData, DynamicFilteringEvent
from splitlib.filtering.mismatches import Mismatch
from splitlib.filtering.predicate import Predicate
from splitlib.remote.calls import FOREVER_SECONDS
from splitlib.remote.workers import UnforkedCondition


class ReceivedFilters:
    """Filters by producer, and the predicate that combines them. Thread-safe.

    Args:
        build: Makes the predicate of some filters.
    """

    def __init__(self, build: Callable[[Sequence[DynamicFilteringData]], Predicate]) -> None:
        self._build = build
        self._changed = UnforkedCondition()
        self._announced: set[Hashable] = set()
        self._by_producer: dict[Hashable, DynamicFilteringData] = {}
        self._filters: list[DynamicFilteringData] = []
        self._mismatches: dict[Mismatch, None] = {}
        self._predicate = build([])
        self.cancelled: Future[None] = Future()
        """Done when the scan is cancelled."""

    def announce(self, producer: Hashable) -> None:
        """Note that ``producer`` will send a filter, unless it already did."""
        with self._changed:
            if producer not in self._by_producer:
                self._announced.add(producer)

    def add(
        self, data: DynamicFilteringData, producer: Hashable, mismatches: Sequence[Mismatch]
    ) -> None:
        """Add a filter; all filters must match.

        Args:
            data: The filter.
            producer: Id of the sender; None = unknown.
            mismatches: Reasons why the filter cannot prune the table.

        Raises:
            InvalidFilter: if ``producer`` has sent a different filter.
        """
        with self._changed:
            self._mismatches |= dict.fromkeys(mismatches)
            if producer is not None:
                known = self._by_producer.setdefault(producer, data)
                if known != data:
                    raise InvalidFilter(
                        f"Producer {producer!r} has sent a second, different filter."
                    )
                self._announced.discard(producer)
            if data not in self._filters:
                self._filters.append(data)
                self._predicate = self._build(self._filters)
            self._changed.notify_all()

    def await_announced(self, seconds: float) -> None:
        """Wait until every announced filter has arrived, or the scan is cancelled.

        Args:
            seconds: Maximum wait in seconds.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: not self._announced or self.cancelled.done(), min(seconds, FOREVER_SECONDS)
            )

    def cancel(self) -> None:
        """Cancel the scan: complete :attr:`cancelled`, and wake threads that wait for filters."""
        with self._changed:
            if not self.cancelled.done():
                self.cancelled.set_result(None)
            self._changed.notify_all()

    @property
    def predicate(self) -> Predicate:
        """The conjunction of all filters received so far. A new filter gives a new object."""
        with self._changed:
            return self._predicate

    @property
    def mismatches(self) -> list[Mismatch]:
        """Reasons why some filters cannot prune, each once."""
        with self._changed:
            return list(self._mismatches)

    @property
    def announced(self) -> frozenset[Hashable]:
        """The producers whose filters have not arrived yet."""
        with self._changed:
            return frozenset(self._announced)

    def events(self) -> list[DynamicFilteringEvent]:
        """Return the filters received so far, in no particular order."""
        with self._changed:
            named = [DynamicFilteringEvent(d, name) for name, d in self._by_producer.items()]
            known = self._by_producer.values()
            return named + [DynamicFilteringEvent(d) for d in self._filters if d not in known]
