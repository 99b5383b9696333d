"""Retry calls while their source is unavailable."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from splitlib.config import SplitConfig
from splitlib.errors import SourceUnavailable, error_context
from splitlib.remote.calls import Call, current_call, working_on

T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.1
# Maximum number of times that the bound of the pause doubles, from 0.1 to 6.4 seconds. Calls to a
# throttling source may be retried many times. Without this maximum, their pauses would become long.
_DOUBLED_AT_MOST = 6


def retrying(call: Callable[[], T], config: SplitConfig) -> T:
    """Return the result of ``call``, which is retried while it raises :class:`SourceUnavailable`.

    Each pause is random between zero and a bound that doubles ("full jitter"). So the clients of a
    restarted server do not all retry at the same moment. All attempts share one deadline: that of
    the thread's current call, or a new deadline outside of a call.

    A source that throttles is still available. So throttled calls do not count as attempts, as long
    as a call with the same :class:`Pace` succeeded within the last ``retry_max_seconds``.
    """
    outer = current_call()
    current = outer or Call(config.call_deadline_seconds)
    with nullcontext() if outer else working_on(current):
        started = time.monotonic()
        attempt = 1
        while True:
            if current.abandoned.is_set():
                raise SourceUnavailable("The call was abandoned.")
            try:
                with _turn(current):
                    return call()
            except SourceUnavailable as error:
                current.failed_attempts += 1
                doubled = min(attempt, _DOUBLED_AT_MOST)
                pause = random.uniform(0, _FIRST_PAUSE_SECONDS * 2**doubled)
                pace = current.pace if error.is_throttled else None
                since = started if pace is None else max(started, pace.succeeded_at)
                late = time.monotonic() - since + pause > config.retry_max_seconds
                remaining = current.remaining_seconds()
                if not remaining:
                    raise current.overdue() from error
                too_many = attempt >= config.retry_attempts and pace is None
                if too_many or late or pause > remaining:
                    if error.hint is None and attempt > 1:
                        error.hint = _hint(attempt, config, current, too_many=too_many, late=late)
                    raise
            current.abandoned.wait(pause)
            attempt += 1


def _hint(attempts: int, config: SplitConfig, call: Call, *, too_many: bool, late: bool) -> str:
    """Return a hint that names the limit that prevents another attempt."""
    if too_many:
        limit = f"all {attempts} attempts failed (retry_attempts)"
    elif late:
        limit = f"attempts failed for {config.retry_max_seconds:g} seconds (retry_max_seconds)"
    else:
        limit = f"attempts failed for {call.seconds:g} seconds (call_deadline_seconds)"
    return f"{limit}. Try again later, or raise this limit."


@contextmanager
def _turn(call: Call) -> Iterator[None]:
    """Wait until the limit on parallel calls allows ``call`` to run. Nested calls do not wait."""
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
    """Run a connector's call with retries and error context.

    Raises:
        SplitlibError: for any exception that ``call`` raises, with the connector and table names.
    """

    def attempt() -> T:
        # `retrying` repeats the call only for SourceUnavailable.
        with error_context(connector=connector, table=table):
            return call()

    # The retry loop raises its own error after the deadline.
    with error_context(connector=connector, table=table):
        return retrying(attempt, config)
