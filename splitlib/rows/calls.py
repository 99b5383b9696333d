"""Stop Arrow's threads before the interpreter finalizes."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakSet

from splitlib.errors import SourceError
from splitlib.storage import in_forks_of_this

# When a program ends, Arrow's threads count as idle if four checks in a row, 5 ms apart, find them
# all idle.
_IDLE_TIMES, _IDLE_SECONDS = 4, 0.005
# Maximum time to wait until Arrow's threads are idle: during a call into Python, which may wait for
# storage for some seconds, and otherwise. Without a maximum, the program might never end, because
# threads of other libraries look like Arrow's, and may never become idle.
_CALL_SECONDS, _WORK_SECONDS = 10.0, 2.0


class Calls:
    """The calls from Arrow's threads into Python. When the program ends, they are refused.

    Arrow reads ahead, even if the program reads only a part of a scan. A thread that calls Python
    while the interpreter finalizes never returns, or aborts the process. So :meth:`end` runs before
    the interpreter finalizes. From then on, every call fails at once, so each scan stops at its
    next file. ``end`` waits until Arrow's threads are idle.
    """

    def __init__(self) -> None:
        self._ended = False
        self._renew()
        in_forks_of_this(self, Calls._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        # The objects that Arrow may still call. The set is empty in a new forked process, because
        # Arrow's threads do not exist there.
        self._called: WeakSet[Any] = WeakSet()

    def refuse_at_exit(self) -> None:
        """Reject calls after :meth:`end`.

        Raises:
            SourceError: if the program ends.
        """
        if self._ended:
            raise SourceError(
                "No file can be read any more, because the program ends.",
                hint="read the rows before the main thread ends.",
            )

    @contextmanager
    def counted(self, called: object) -> Iterator[None]:
        """In the ``with`` block, count a call. If the program ends, raise an error instead.

        Args:
            called: The object that Arrow calls. Arrow holds a reference to it until no more calls
                can follow, so :meth:`end` knows whether Arrow may still call.
        """
        with self._lock:
            self.refuse_at_exit()
            self._inside += 1
            self._called.add(called)
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1

    def end(self) -> None:
        """Refuse further calls, and wait for a limited time until Arrow's threads are idle."""
        with self._lock:
            self._ended = True
        idle, begun = 0, time.monotonic()
        while self._called and idle < _IDLE_TIMES:
            before = _others_seconds()
            time.sleep(_IDLE_SECONDS)  # Meanwhile, threads that wait for Python's lock can run.
            works = self._inside or _others_work(_others_seconds() - before)
            idle = 0 if works else idle + 1
            if time.monotonic() - begun > (_CALL_SECONDS if self._inside else _WORK_SECONDS):
                break


def _others_seconds() -> float:
    """Return the processor time that other threads of this process have used."""
    return time.process_time() - time.thread_time()


def _others_work(seconds: float) -> bool:
    """Return whether threads other than Python's own do something.

    Args:
        seconds: Processor time that other threads have just spent. It is used only if the operating
            system does not show the state of threads, because a thread that waits for a disk uses
            no processor time.
    """
    # If code in a call uses threading.current_thread(), Python adds Arrow's thread to its list, as
    # a dummy thread. It is not one of Python's own threads.
    listed = threading.enumerate()
    own = {each.native_id for each in listed if not isinstance(each, threading._DummyThread)}
    # Before Python 3.13, the main thread of a forked process is listed with the number that the
    # thread had in the parent process, so its real number is added.
    own.add(threading.get_native_id())
    try:
        with os.scandir("/proc/self/task") as tasks:
            return any(_runs(task.path) for task in tasks if int(task.name) not in own)
    except FileNotFoundError:
        return seconds > _IDLE_SECONDS / 50


def _runs(task: str) -> bool:
    """Return whether a thread runs, could run (state R), or waits for a disk (state D)."""
    try:
        with open(f"{task}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "RD"
    except (FileNotFoundError, ProcessLookupError):
        return False  # This thread has ended.


CALLS: Final = Calls()
"""The calls of all datasets."""


class _AtExit:
    """A function of ``atexit`` that refuses calls after all functions of ``atexit`` have run.

    ``atexit`` runs its functions after all threads that are not daemons have ended. Functions that
    were registered before this one run after it, and may still read files. So this function only
    records that it has run. Python frees all these functions after the last one has run, and
    before the interpreter finalizes. Calls are refused then, in ``__del__``.
    """

    _runs = False

    def __call__(self) -> None:
        self._runs = True

    def __del__(self) -> None:
        if self._runs:  # A forked process may free the functions without running them.
            CALLS.end()


atexit.register(_AtExit())
