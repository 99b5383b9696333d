"""Call a function for several arguments at once, for connectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from functools import partial
from typing import TypeVar

from splitlib.errors import SourceUnavailable
from splitlib.remote.calls import Workers, current_call

A = TypeVar("A")
T = TypeVar("T")

_POLL_SECONDS = 0.1


def in_parallel(call: Callable[[A], T], arguments: Sequence[A], threads: int = 16) -> list[T]:
    """Call a function for each argument in threads, and return the results in argument order.

    If this thread itself runs a call, the new calls have the same deadline, and are abandoned
    together with it.

    Raises:
        SourceUnavailable: if the deadline has passed, or the current call was abandoned.
    """
    if len(arguments) < 2:
        return [call(argument) for argument in arguments]
    outer = current_call()
    seconds = 0.0 if outer is None else outer.remaining_seconds()
    with Workers(threads, "splitlib-parallel") as workers:
        tasks = [workers.submit(partial(call, argument), seconds) for argument in arguments]
        pending = {task.outcome for task in tasks}
        while pending:
            done, pending = wait(pending, _POLL_SECONDS, FIRST_EXCEPTION)
            for outcome in done:
                outcome.result()  # raises the error of a call
            if outer and (outer.abandoned.is_set() or not outer.remaining_seconds()):
                raise SourceUnavailable("Parallel calls did not end in time.")
        return [task.outcome.result() for task in tasks]
