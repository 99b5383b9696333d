"""Calls that are made again while their source is unavailable."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from splitlib.config import SplitConfig
from splitlib.errors import SourceUnavailable, error_context
from splitlib.remote.calls import Call, current_call, working_on
from splitlib.storage import only_within

T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.1
# Of a source that throttles, which may be asked again more often.
_DOUBLED_AT_MOST = 6


def retrying(call: Callable[[], T], config: SplitConfig) -> T:
    """The result of ``call``, made again while it raises :class:`SourceUnavailable`.

    Pauses double and are drawn at random between zero and their bound ("full jitter"), so that many
    clients of one restarted server do not return together. All attempts share the deadline of
    the call that this thread works on, or else of one that begins here.

    A source that throttles is there. It is asked again, at the pace of the call, as long as it has
    answered some call of that pace within ``retry_max_seconds``, however many attempts that takes.
    """
    outer = current_call()
    current = outer or Call(config.call_deadline_seconds)
    with nullcontext() if outer else working_on(current):
        started = time.monotonic()
        attempt = 1
        while True:
            if current.abandoned.is_set():
                raise SourceUnavailable("Nobody waits for the call any more.")
            try:
                with _turn(current):
                    return call()
            except SourceUnavailable as error:
                current.failed_attempts += 1
                doubled = min(attempt, _DOUBLED_AT_MOST)
                pause = random.uniform(0, _FIRST_PAUSE_SECONDS * 2**doubled)
                paced = error.is_throttled and current.pace is not None
                since = started
                if paced and current.pace is not None:
                    since = max(started, current.pace.succeeded_at)
                late = time.monotonic() - since + pause > config.retry_max_seconds
                remaining = current.remaining_seconds()
                if not remaining:
                    raise current.overdue() from error
                too_many = attempt >= config.retry_attempts and not paced
                if too_many or late or pause > remaining:
                    raise
            current.abandoned.wait(pause)
            attempt += 1


@contextmanager
def _turn(call: Call) -> Iterator[None]:
    """A turn at the pace of a call, unless it has one: a connector may make calls in its calls."""
    pace = call.pace
    if pace is None:
        yield
        return
    call.pace = None
    try:
        with pace.turn(call.abandoned, call.remaining_seconds()):
            yield
    finally:
        call.pace = pace


def source_call(call: Callable[[], T], config: SplitConfig, *, connector: str, table: str) -> T:
    """:func:`retrying`, of a call of a connector, which may raise anything.

    Args:
        call: What is called.
        config: How often to try again, for how long, and which locations may be reached.
        connector: Name of the connector, for errors.
        table: Name of the table, for errors.

    Raises:
        SplitlibError: whatever ``call`` raises, as an error that says where it happened.
    """

    def attempt() -> T:
        # inside the retries, which tell by splitlib's own errors what is worth another try
        with error_context(connector=connector, table=table):
            return call()

    # for a deadline's error
    with error_context(connector=connector, table=table), only_within(config.allowed_locations):
        return retrying(attempt, config)
