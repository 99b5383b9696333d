"""A time limit for tests. If a connector loops endlessly, the test fails instead of blocking."""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeLimitExceeded(BaseException):
    """A test took too long. Not an ``Exception``, so that splitlib and the kit do not catch it."""


@contextmanager
def time_limit(seconds: float, test: str) -> Iterator[None]:
    """Raise :class:`TimeLimitExceeded` if the ``with`` block takes more than ``seconds``.

    The stacks of all threads are printed, because the connector may loop in any of them. Without
    ``SIGALRM``, as on Windows, the stacks are printed and the process ends.

    Args:
        seconds: The time limit, in seconds.
        test: Name of the test, for the message.
    """
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        faulthandler.dump_traceback_later(seconds, exit=True, file=2)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
        return

    def stop(_: int, frame: FrameType | None) -> None:
        calls = {each.f_code.co_name for each, _ in traceback.walk_stack(frame)}
        if "pytest_pyfunc_call" not in calls:
            return  # An error outside of the test function would end pytest, so try again later.
        signal.setitimer(signal.ITIMER_REAL, 0)
        for each in sys._current_frames().values():
            print("".join(traceback.format_stack(each)), file=sys.stderr)
        raise TimeLimitExceeded(
            f"The connector did not finish {test} within {seconds:g} seconds.\n"
            "Expected: list_partitions, list_files and open to end. Do they request the same page "
            "again and again? The stacks of all threads are in the captured stderr. If the source "
            "is just slow, raise time_limit_seconds in the test class."
        )

    before = signal.signal(signal.SIGALRM, stop)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, interval)  # Restore the timer of another plugin.
        signal.signal(signal.SIGALRM, before)
