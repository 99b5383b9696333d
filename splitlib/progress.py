"""One line of progress for calls longer than a second, on a terminal or below a notebook's cell."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Self, TextIO

WAIT_SECONDS = 1.0
_EVERY_SECONDS = 0.2
_showing = threading.Lock()
"""Held by the progress that is shown, because several would overwrite each other."""


class Progress:
    """Shows the text from ``describe`` during the ``with`` block, and erases it at the end.

    Args:
        describe: Function that returns the text to show. It is called in another thread.
        show: Function that shows a text in place of the one before. None shows nothing, and nothing
            is shown either while another progress is.
        wait: Function that waits for a number of seconds or until the block ends, and returns
            whether the block has ended.
    """

    def __init__(
        self,
        describe: Callable[[], str],
        show: Callable[[str], object] | None,
        *,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._describe = describe
        self._show = show
        self._lock = threading.Lock()
        self._shown = False
        self._done = threading.Event()
        self._wait = wait or self._done.wait
        self._thread: threading.Thread | None = None

    @property
    def is_enabled(self) -> bool:
        """Whether anything would be shown."""
        return self._show is not None

    def print(self, line: str) -> None:
        """Print a line of output above the progress line."""
        with self._lock:
            self._erase()
            print(line)

    def __enter__(self) -> Self:
        if self._show is not None and _showing.acquire(blocking=False):
            self._thread = threading.Thread(target=self._run, args=(self._show,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
            self._erase()
            _showing.release()

    def _run(self, show: Callable[[str], object]) -> None:
        pause = WAIT_SECONDS
        while not self._wait(pause):
            with self._lock:
                show(self._describe())
                self._shown = True
            pause = _EVERY_SECONDS

    def _erase(self) -> None:
        if self._shown and self._show is not None:
            self._show("")
            self._shown = False


def progress_of(describe: Callable[[], str], *, enabled: bool) -> Progress:
    """Return the progress of a function that was called from Python.

    It is silent if standard error is no terminal and the program is no notebook.

    Args:
        describe: As for :class:`Progress`.
        enabled: The setting ``show_progress``.
    """
    show: Callable[[str], object] | None = None
    if enabled and sys.stderr is not None and sys.stderr.isatty():
        show = on_terminal(sys.stderr)
    elif enabled and _is_notebook():
        show = _below_the_cell()
    return Progress(describe, show)


def on_terminal(stream: TextIO) -> Callable[[str], None]:
    """Return a function that replaces the current line of a terminal."""

    def show(text: str) -> None:
        stream.write(f"\r\x1b[K{text}")
        stream.flush()

    return show


def _is_notebook() -> bool:
    """Whether the program runs in a kernel of Jupyter. Nothing is imported to find out."""
    running = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(running, "kernel", None) is not None


def _below_the_cell() -> Callable[[str], None]:
    """Return a function that shows a text below the running cell, in one output that changes."""
    shown: list[Any] = []

    def show(text: str) -> None:
        from IPython.display import display

        data = {"text/plain": text}
        if shown:
            shown[0].update(data, raw=True)
        else:
            shown.append(display(data, raw=True, display_id=True))  # type: ignore[no-untyped-call]

    return show
