"""Checks of the calls to the connector: their errors, retries and deadlines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from splitlib.coordination.coordinator import RequestIgnored
from tests.simulation.faults import ThrottlingException
from tests.simulation.history import Event, Span
from tests.simulation.run import CALLS, EPSILON, Run
from tests.simulation.setting import CONNECTOR, TABLE

_NEVER = float("inf")
_LISTINGS = ("list_files", "hosts")
# Maximum time that splitlib waits until threads end: 0.2 seconds for each of its two thread pools.
TIDY_SECONDS = 2 * 0.2
_CLOSE_SECONDS = 0.5


@dataclass(slots=True)
class Try:
    """A call and its retries, in the same thread and with the same arguments."""

    attempts: list[Span] = field(default_factory=list)

    @property
    def last(self) -> Span:
        return self.attempts[-1]


def errors_say_where(run: Run) -> Iterator[str]:
    """Check that each error names the connector and the table."""
    for span in _failed(run):
        if (span.end.connector, span.end.table) != (CONNECTOR, TABLE):
            yield str(span.end)


def errors_have_a_cause(run: Run) -> Iterator[str]:
    """Check that no error is raised without a cause, such as a simulated fault or a deadline."""
    for span in _failed(run):
        if not _has_cause(run, span):
            yield str(span.end)


def _failed(run: Run) -> Iterator[Span]:
    """Yield the users' calls that raised an error."""
    for kind in ("next", "request", "cancel", "close", "close iterator", "snapshot", "restore"):
        yield from (span for span in run.history.of(kind) if span.get("error"))


def _has_cause(run: Run, span: Span) -> bool:
    error, message, end = span.end.error, span.end.message, span.end
    config, scan = run.setting.config, span.scan
    calls = [call for call in run.calls(scan) if call.begin.number < end.number]
    faults = [
        call for call in calls if call.end and call.end.number < end.number and call.get("error")
    ]
    if "took longer than its deadline" in message:
        tasks = [t for t in run.history.of("task") if t.begin.number < end.number]
        ends = [t.end if t.end and t.end.number < end.number else end for t in tasks]
        # The thread may have stalled after its task ended and before the history recorded the end.
        longest = max(
            at.at - t.begin.at + end.stalled - at.stalled for at, t in zip(ends, tasks, strict=True)
        )
        return bool(longest >= config.call_deadline_seconds - EPSILON)
    if "waited for catalog and storage longer" in message:
        begun = min(s.begin.at for s in run.history.of(span.begin.kind) if s.scan == scan)
        return bool(end.at - begun >= config.enumeration_deadline_seconds - EPSILON)
    if "was cancelled" in message:
        stopped = [*run.history.of("cancel"), *run.history.of("close")]
        return any(s.scan == scan and s.begin.number < end.number for s in stopped)
    match error:
        case "MissingPartition":
            return config.missing_partition == "error" and any(
                c.get("missing") is not None for c in calls
            )
        case "TableNotFound":
            return run.setting.model.recreated is not None
        case "TooManyPartitions":
            return config.max_partitions < 100
    return any(call.fault.text in message for call in faults if call.fault.error is not None)


def no_more_calls_at_once_than_threads(run: Run) -> Iterator[str]:
    """Check that a scan has at most ``listing_threads`` listings and one catalog call at once."""
    most = run.setting.config.listing_threads
    for scan in run.scans:
        begun = [event.number for event in _enumerations(run, scan)]
        for kinds, limit in ((_LISTINGS, most), (set(CALLS) - set(_LISTINGS), 1)):
            spans = [call for call in run.calls(scan) if call.begin.kind in kinds]
            for call in spans:
                # Calls that an earlier enumeration left running do not count.
                since = max((n for n in begun if n < call.begin.number), default=0)
                open_then = [
                    other
                    for other in spans
                    if other.begin.number <= call.begin.number
                    and since <= _task_of(run, other).begin.number
                    and (other.end is None or other.end.number > call.begin.number)
                ]
                if len(open_then) > limit:
                    yield f"{len(open_then)} at once, not {limit}: {call.begin}"


def _enumerations(run: Run, scan: int) -> Iterator[Event]:
    """Yield the events at which a scan's enumerations begin."""
    yield from (s.begin for s in run.history.of("enumerate") if s.scan == scan)


def _tries(run: Run) -> Iterator[Try]:
    latest: dict[str, Try] = {}
    for call in run.calls():
        known = latest.get(call.begin.thread)
        if known is not None and _again(known.last, call):
            known.attempts.append(call)
            continue
        if known is not None:
            yield known
        latest[call.begin.thread] = Try([call])
    yield from latest.values()


def _again(before: Span, call: Span) -> bool:
    """Return whether a call repeats the one before it, after an error."""
    what = ("scan", "ks", "paths", "after")
    same = before.begin.kind == call.begin.kind and all(
        before.begin.data.get(name) == call.begin.data.get(name) for name in what
    )
    # If a directory is missing, each directory of the call is listed again separately. That is not
    # a retry. A call without a recorded answer may have failed for the same reason.
    error = before.get("error") or "MissingPartition"
    return same and not error.startswith("MissingPartition")


def retries_end(run: Run) -> Iterator[str]:
    """Check that a call is not repeated beyond ``retry_attempts`` or ``retry_max_seconds``.

    Throttled listings are exempt: they are repeated while other listings of the source succeed.
    """
    config = run.setting.config
    for one in _tries(run):
        first, last = one.attempts[0].begin, one.last.begin
        throttled = [
            last.kind in _LISTINGS and isinstance(each.fault.error, ThrottlingException)
            for each in one.attempts[:-1]
        ]
        if not all(throttled[config.retry_attempts - 1 :]):
            yield f"{len(one.attempts)} attempts, not {config.retry_attempts}: {last}"
        took = last.at - first.at - (last.stalled - first.stalled)
        if throttled and not throttled[-1] and took > config.retry_max_seconds + EPSILON:
            yield f"{took} seconds after the first: {last}"


def nothing_final_is_tried_again(run: Run) -> Iterator[str]:
    """Check that only transient errors are retried."""
    for one in _tries(run):
        for attempt in one.attempts[:-1]:
            if not attempt.fault.transient:
                yield f"tried again after {attempt.end}"


def what_is_unavailable_is_tried_again(run: Run) -> Iterator[str]:
    """Check that transient errors are retried as often as configured before they are raised.

    Fewer retries are correct if the time limit for retries has passed.
    """
    config = run.setting.config
    deadline = config.call_deadline_seconds or float("inf")
    shown = "\n".join(span.end.message for span in _failed(run))
    for one in _tries(run):
        last, number = one.last, len(one.attempts)
        if not last.get("error") or not last.fault.transient or last.fault.text not in shown:
            continue
        if last.begin.kind == "list_partitions" and last.begin.after >= 0:
            continue  # after its first batch, a partition listing is not retried
        pause = 0.1 * 2**number
        task = _task_of(run, last)
        # The thread may have stalled before the first attempt or after the last one.
        ended = task.end or run.history.events[-1]
        stalled = ended.stalled - task.begin.stalled
        spent = last.end.at - task.begin.at + pause + stalled
        took = last.end.at - one.attempts[0].begin.at + pause + stalled
        over = took > config.retry_max_seconds or spent > deadline
        if number < config.retry_attempts and not over:
            yield f"after {number} attempts: {last.end}"


def _task_of(run: Run, call: Span) -> Span:
    before = [t for t in run.history.of("task") if t.begin.number < call.begin.number]
    return next(t for t in reversed(before) if t.begin.thread == call.begin.thread)


def no_batch_of_partitions_comes_twice(run: Run) -> Iterator[str]:
    """Check that a partition listing is retried only if it has not returned a batch yet."""
    answered: dict[str, Event] = {}
    for event in run.history.events:
        if event.kind == "… list_partitions" and event.data.get("answer"):
            answered[event.thread] = event
        elif event.kind == "listing begins" and event.thread in answered:
            yield f"{event} after {answered[event.thread]}"


def nothing_begins_after_the_end(run: Run) -> Iterator[str]:
    """Check that no call begins after a scan was cancelled or its coordinator closed."""
    for kind in ("cancel", "close"):
        for span in run.history.of(kind):
            if span.end is None:
                continue
            # A thread may make one more call if it checked for the end just before.
            seen: set[str] = set()
            for call in run.calls(span.scan):
                if call.begin.number < span.end.number:
                    continue
                late = call.begin.at - span.end.at - (call.begin.stalled - span.end.stalled)
                if late > EPSILON or call.begin.thread in seen:
                    yield f"{call.begin} after {span.end}"
                seen.add(call.begin.thread)


def what_should_not_wait_does_not(run: Run) -> Iterator[str]:
    """Check that requests return immediately and that closing takes only the documented time."""
    most = {"close": _CLOSE_SECONDS, "close iterator": TIDY_SECONDS}
    most |= dict.fromkeys(("request", "register", "remove", "acknowledge", "give back"), 0.0)
    most |= dict.fromkeys(("snapshot", "restore", "deliver", "announce", "cancel"), 0.0)
    for kind, seconds in most.items():
        for span in run.history.of(kind):
            if span.end is None or span.seconds > seconds + EPSILON:
                yield f"{span.begin} … {span.end}"


def filters_are_waited_for(run: Run) -> Iterator[str]:
    """Check that the first call waits for all announced filters or for ``filter_wait_seconds``."""
    most = run.setting.config.filter_wait_seconds
    for scan in run.scans:
        first = next(run.calls(scan), None)
        start = first and _asked_before(run, first)
        if start is None or first is None:
            continue
        announced = [s for s in run.history.of("announce") if s.scan == scan and not s.useless]
        sent = [_delivered(run, scan, s.producer) for s in announced]
        # A filter takes effect at an unknown time during the call that delivers it.
        begun = max((s.begin.at if s else _NEVER for s in sent), default=start.at)
        here = max((s.end.at if s and s.end else _NEVER for s in sent), default=start.at)
        end = start.at + most
        earliest, latest = (max(start.at, min(at, end)) for at in (begun, here))
        stalled = first.begin.stalled - start.stalled
        if not earliest - EPSILON <= first.begin.at <= latest + stalled + EPSILON:
            yield f"begins at {first.begin.at}, not from {earliest} to {latest}: {first.begin}"


def _asked_before(run: Run, first: Span) -> Event | None:
    """Return the beginning of the user's call that leads to a scan's first connector call."""
    asked = [s for s in run.history.of("next") if s.begin.number < first.begin.number]
    # An earlier enumeration with an empty filter makes no connector calls.
    asked = [s for s in asked if s.of == asked[-1].of]
    if not asked:
        requests = (s for s in run.history.of("request") if s.scan == first.scan)
        asked = [s for s in requests if not isinstance(s.get("answer"), RequestIgnored)]
    return asked[0].begin if asked else None


def _delivered(run: Run, scan: int, producer: str) -> Span | None:
    sent = (s for s in run.history.of("deliver") if s.scan == scan and not s.get("error"))
    return next((s for s in sent if s.producer == producer), None)


def a_producer_has_one_filter(run: Run) -> Iterator[str]:
    """Check that a producer's second filter is rejected only if it differs from the first."""
    sent = list(run.history.of("deliver"))
    for span in sent:
        # Filters of earlier scans count too, because checkpoints contain them.
        mine = [s for s in sent if s.producer == span.producer is not None]
        others = [s for s in mine if s.filter != span.filter and s.scan <= span.scan]
        known = (s for s in others if s.scan == span.scan and not s.get("error"))
        must = any(s.before(span) for s in known)
        may = any(not span.before(s) for s in others)
        refused = span.get("error") == "InvalidFilter"
        if (must and not refused) or (span.get("error") and not may):
            yield str(span.end)


CHECKS: list[Callable[[Run], Iterator[str]]] = [
    errors_say_where,
    errors_have_a_cause,
    no_more_calls_at_once_than_threads,
    retries_end,
    nothing_final_is_tried_again,
    what_is_unavailable_is_tried_again,
    no_batch_of_partitions_comes_twice,
    nothing_begins_after_the_end,
    what_should_not_wait_does_not,
    filters_are_waited_for,
    a_producer_has_one_filter,
]
