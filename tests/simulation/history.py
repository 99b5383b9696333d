"""The history of a run: its events in order, and the spans from one event to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.scheduler import Scheduler


@dataclass(slots=True)
class Event:
    """One event of a run."""

    number: int
    """Position in the history. All events have an order, because only one thread runs at a time."""
    at: float
    stalled: float
    """Value of :attr:`tests.simulation.scheduler.Scheduler.stalled` at the event."""
    thread: str
    kind: str
    data: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(f"{self.kind} has no {name}") from None

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in self.data.items())
        return f"{self.number:5} {self.at:10.3f} {self.thread:22} {self.kind} {shown}"


@dataclass(slots=True)
class Span:
    """An activity from one event to another, such as a call."""

    begin: Event
    end: Any = None
    """Event of the end. None if the activity never ended."""
    data: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        for known in (self.data, self.end and self.end.data, self.begin.data):
            if known and name in known:
                return known[name]
        raise AttributeError(f"{self.begin.kind} has no {name}")

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value with this name, or the default if the span does not have it."""
        return getattr(self, name, default)

    @property
    def seconds(self) -> float:
        """Duration without stalls. In a stall, no thread runs although at least one could."""
        assert self.end is not None
        stalled = self.end.stalled - self.begin.stalled
        return float(self.end.at - self.begin.at - stalled)

    def before(self, other: Span) -> bool:
        """Return whether this span ended before another one began."""
        return self.end is not None and bool(self.end.number < other.begin.number)


class History:
    """The events of a run, and the spans between them.

    Args:
        scheduler: Scheduler that runs the threads and has the clock.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.events: list[Event] = []
        self.spans: list[Span] = []
        self.progressed_at = 0.0
        """Time of the last event that counts as progress."""
        self._scheduler = scheduler

    def note(self, kind: str, *, progress: bool = True, **data: Any) -> Event:
        """Record an event."""
        scheduler = self._scheduler
        thread = str(scheduler.running or "-")
        event = Event(len(self.events), scheduler.now, scheduler.stalled, thread, kind, data)
        self.events.append(event)
        if progress:
            self.progressed_at = scheduler.now
        return event

    def begin(self, kind: str, *, progress: bool = True, **data: Any) -> Span:
        """Record the beginning of a span."""
        span = Span(self.note(kind, progress=progress, **data))
        self.spans.append(span)
        return span

    def end(self, span: Span, *, progress: bool = True, **data: Any) -> None:
        """Record the end of a span."""
        span.end = self.note(f"… {span.begin.kind}", progress=progress, **data)

    def of(self, kind: str) -> Iterator[Span]:
        """Return the spans of a kind, in the order in which they began."""
        return (span for span in self.spans if span.begin.kind == kind)

    def noted(self, kind: str) -> list[Event]:
        """Return the events of a kind."""
        return [event for event in self.events if event.kind == kind]

    def __str__(self) -> str:
        return "\n".join(map(str, self.events))


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) < 120 else f"{text[:117]}…"
