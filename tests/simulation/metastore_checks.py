"""Checks of the metastore client: its requests, answers and connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.simulation.history import Event, Span
from tests.simulation.network import GONE, REFUSED
from tests.simulation.run import EPSILON, Run

# A thread that waits for an answer checks at this interval whether its call was abandoned.
_POLL_SECONDS = 0.25


def answers_are_those_of_their_questions(run: Run) -> Iterator[str]:
    """Check that no request gets the answer of another one, or only a part of its own."""
    for ask in run.history.of("ask"):
        if ask.end and not ask.get("error") and ask.answer != ask.expected:
            yield f"{ask.answer}, not {ask.expected}: {ask.begin}"
        if ask.end and not ask.get("error") and ask.expected and ask.of in (GONE, REFUSED):
            yield f"no error: {ask.begin}"


def errors_of_a_metastore_have_a_cause(run: Run) -> Iterator[str]:
    """Check that each error comes from a missing table, denied access or a fault."""
    for ask in run.history.of("ask"):
        if not ask.get("error"):
            continue
        struck = [event for event in _of(run, ask) if event.data.get("fault")]
        match ask.end.error:
            case "TableNotFound":
                right = ask.of == GONE
            case "AccessDenied":
                right = ask.of == REFUSED
            case "KeyboardInterrupt":
                right = any(event.fault == "interrupt" for event in struck)
            case "SourceError":
                right = any(event.fault == "garbage" for event in struck)
            case _:
                late = ask.end.at - ask.begin.at >= ask.deadline - EPSILON
                stalled = ask.end.stalled > ask.begin.stalled  # beyond the client's own timeout
                right = bool(struck) or late or stalled or _abandoned_at(run, ask) is not None
        if not right:
            yield f"{ask.end} after {ask.begin}"


def questions_end_at_their_deadline(run: Run) -> Iterator[str]:
    """Check that a request ends by its deadline, even if it tries several addresses."""
    for ask in run.history.of("ask"):
        if ask.end and ask.seconds > ask.deadline + EPSILON:
            yield f"{ask.seconds} seconds, not {ask.deadline}: {ask.begin}"


def nothing_begins_for_nobody(run: Run) -> Iterator[str]:
    """Check that an abandoned call stops reading, and opens no connection or request."""
    for ask in run.history.of("ask"):
        since = _abandoned_at(run, ask)
        if since is None:
            continue
        begun = [each for each in _of(run, ask) if each.kind in ("connect", "question")]
        for event in begun:
            if event.at - event.stalled > since.at - since.stalled + EPSILON:
                yield f"{event} after {since}"
        if ask.end and begun and begun[-1].kind == "question":
            after = (ask.end.at - ask.end.stalled) - (since.at - since.stalled)
            if after > _POLL_SECONDS + EPSILON:
                yield f"went on for {after} seconds: {ask.end} after {since}"


def one_question_at_a_time(run: Run) -> Iterator[str]:
    """Check that no request is sent on a connection with an unread answer."""
    for event in run.history.noted("question"):
        if event.unread:
            yield str(event)


def each_address_is_tried_once(run: Run) -> Iterator[str]:
    """Check that a request connects to each address at most once.

    A request that is split in halves may connect once more for each half.
    """
    for ask in run.history.of("ask"):
        connects = [event for event in _of(run, ask) if event.kind == "connect"]
        hosts = [event.host for event in connects]
        # A request for more than three names is split in halves.
        questions = 1 + 2 * (len(ask.expected) > 3)
        if any(hosts.count(host) > questions for host in hosts):
            yield f"{hosts}: {ask.begin}"


def healthy_addresses_answer(run: Run) -> Iterator[str]:
    """Check that a request succeeds if one address is healthy, even if others hang."""
    for event in run.history.noted("metastore"):
        for ask in run.history.of("ask"):
            events = _of(run, ask)
            # Skip requests that were delayed by other callers' requests or by a stalled machine.
            prompt = events and events[0].at - ask.begin.at < 0.1 * ask.deadline
            stalled = ask.end and ask.end.stalled - ask.begin.stalled
            interrupted = {"KeyboardInterrupt", "SourceError"} & {ask.get("error")}
            if not prompt or stalled or interrupted or _abandoned_at(run, ask):
                continue
            unavailable = ask.get("error") == "SourceUnavailable"
            if unavailable and event.behaviour.healthy and ask.deadline >= 2:
                yield f"{ask.end} although {set(event.behaviour.healthy)} is healthy"


def no_socket_is_left(run: Run) -> Iterator[str]:
    """Check that closing the client closes all sockets."""
    for event in run.history.noted("closed"):
        if event.sockets:
            yield f"{event.sockets} are open"


def _of(run: Run, ask: Span) -> list[Event]:
    """Return the connection events of a request."""
    return [
        event
        for event in run.history.events
        if event.kind in ("connect", "question") and event.ask == ask.begin.number
    ]


def _abandoned_at(run: Run, ask: Span) -> Event | None:
    """Return the event at which a request was abandoned before its end, or None."""
    for event in run.history.noted("abandoned"):
        if event.ask == ask.begin.number and (ask.end is None or event.number < ask.end.number):
            return event
    return None


CHECKS: list[Callable[[Run], Iterator[str]]] = [
    answers_are_those_of_their_questions,
    errors_of_a_metastore_have_a_cause,
    questions_end_at_their_deadline,
    nothing_begins_for_nobody,
    one_question_at_a_time,
    each_address_is_tried_once,
    healthy_addresses_answer,
    no_socket_is_left,
]
