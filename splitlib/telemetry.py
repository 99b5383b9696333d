"""Show progress, and pass reports and tracing spans to users and monitoring programs.

Calls longer than a second show a progress line, on a terminal or below a notebook's cell. Spans
need the extra ``opentelemetry``. OpenTelemetry is never imported here, because a program that has
set up tracing has already imported it.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Self, TextIO

from splitlib._version import __version__
from splitlib.errors import ConfigError
from splitlib.redaction import get_logger, redact
from splitlib.report import Report, summary

_log = get_logger(__name__)
_callbacks: list[Callable[[Report], None]] = []


def on_report(callback: Callable[[Report], None]) -> Callable[[], None]:
    """Call ``callback`` with each planning report.

    There is one report for each result of :func:`splitlib.sql`, :func:`splitlib.optimize`,
    :func:`splitlib.replan` and ``load()``. Without Spark, there is one for each finished
    enumeration of files. There is none for ``format("splitlib")``, because Spark plans Python data
    sources in other processes. The callback runs in the planning thread. If it raises an error, the
    error is logged as a warning, and planning continues.

    Args:
        callback: Function that receives the report.

    Returns:
        A function that removes the callback. It may be called several times.

    Raises:
        ConfigError: if ``callback`` cannot be called.
    """
    if not callable(callback):
        raise ConfigError(
            f"A {type(callback).__name__} cannot be called.",
            hint="pass a function that takes a report.",
        )
    registered = partial(callback)  # A new object, so the same callback can be registered twice.
    _callbacks.append(registered)

    def remove() -> None:
        if registered in _callbacks:
            _callbacks.remove(registered)

    return remove


def reported(make: Callable[[], Report]) -> None:
    """Pass the report on a finished plan to the log, the current span and the callbacks.

    Args:
        make: Function that returns the report. It is called only if something receives the report.
    """
    span = _current_span()
    if not (_callbacks or span is not None or _log.isEnabledFor(logging.INFO)):
        return
    report = make()
    _log.info("%s", summary(report))
    _log.debug("%s", report)
    if span is not None:
        span.set_attributes(_attributes(report))
    for callback in tuple(_callbacks):
        try:
            callback(report)
        except Exception:
            _log.warning("A callback of splitlib.on_report failed.", exc_info=True)


@contextmanager
def traced(name: str, *, table: str | None = None, is_current: bool = True) -> Iterator[None]:
    """Record a span around the block, if the program has set up OpenTelemetry.

    Args:
        name: Name of the stage.
        table: Name of the table, without credentials.
        is_current: Whether spans that start in the block become children of this span. Pass False
            in a generator: spans that its consumer starts are not a part of this stage.
    """
    trace = _trace()
    if trace is None:
        yield
        return
    attributes = {} if table is None else {"splitlib.table": table}
    tracer = trace.get_tracer("splitlib", __version__)
    span = tracer.start_span(f"splitlib.{name}", attributes=attributes)
    try:
        # Another library's error message may contain credentials, so record only the error's class.
        quiet = {"record_exception": False, "set_status_on_exception": False}
        with trace.use_span(span, **quiet) if is_current else nullcontext():
            yield
    except Exception as error:
        span.set_status(trace.StatusCode.ERROR, type(error).__name__)
        raise
    finally:
        span.end()


def _trace() -> Any:
    module = sys.modules.get("opentelemetry.trace")
    return module if hasattr(module, "get_tracer") else None


def _current_span() -> Any:
    """Return the program's current span, or None if spans are not recorded."""
    trace = _trace()
    span = None if trace is None else trace.get_current_span()
    return span if span is not None and span.is_recording() else None


def _attributes(report: Report) -> dict[str, int | str]:
    """Return the counts in a report and in its scans as span attributes."""
    scans = report.scans or (report,)
    found: dict[str, int | str] = {
        "splitlib.tables": redact(", ".join(scan.table for scan in scans)),
        "splitlib.catalog_requests": report.catalog_requests,
        "splitlib.storage_requests": report.storage_requests,
    }
    for name in ("partitions", "files", "nbytes"):
        for part in ("matched", "total"):
            numbers = [getattr(getattr(scan, name), part) for scan in scans]
            known = [number for number in numbers if number is not None]
            if known:
                found[f"splitlib.{name}.{part}"] = sum(known)
    return found


WAIT_SECONDS = 1.0
_EVERY_SECONDS = 0.2
_showing = threading.Lock()
"""Lock that is held while a progress line is shown. Several lines would overwrite each other."""


class Progress:
    """Shows the text from ``describe`` during the ``with`` block, and erases it at the end.

    Args:
        describe: Function that returns the text to show. It is called in another thread.
        show: Function that shows a text in place of the previous one. If it is None, or while
            another progress line is shown, nothing is shown.
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
        """Whether progress can be shown."""
        return self._show is not None

    def print(self, line: str) -> None:
        """Print a line of output above the progress line."""
        with self._lock:
            self._erase()
            print(line)

    def __enter__(self) -> Self:
        if self._show is not None and _showing.acquire(blocking=False):
            thread = threading.Thread(target=self._run, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # The system allows no further thread, so show nothing.
                _showing.release()
            else:
                self._thread = thread
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread is not None:
            try:
                self._thread.join()
                self._erase()
            finally:
                _showing.release()

    def _run(self) -> None:
        pause = WAIT_SECONDS
        while not self._wait(pause):
            with self._lock:
                self._replace(self._describe())
                self._shown = True
            pause = _EVERY_SECONDS

    def _erase(self) -> None:
        if self._shown:
            self._replace("")
            self._shown = False

    def _replace(self, text: str) -> None:
        # The call must not fail if the terminal is gone or its stream is closed.
        if self._show is not None:
            with suppress(OSError, ValueError):
                self._show(text)


def progress_of(describe: Callable[[], str], *, enabled: bool) -> Progress:
    """Return a :class:`Progress` for a splitlib function that Python code calls.

    Progress is shown only if standard error is a terminal, or in a Jupyter notebook.

    Args:
        describe: Function that returns the text to show. It is called in another thread.
        enabled: The setting ``show_progress``.
    """
    show: Callable[[str], object] | None = None
    if enabled and sys.stderr is not None and sys.stderr.isatty():
        show = on_terminal(sys.stderr)
    elif enabled and _is_notebook():
        show = _below_the_cell()
    return Progress(describe, show)


def on_terminal(stream: TextIO) -> Callable[[str], None]:
    """Return a function that replaces the terminal's current line with a text."""

    def show(text: str) -> None:
        stream.write(f"\r\x1b[K{text}")
        stream.flush()

    return show


def _is_notebook() -> bool:
    """Return whether the program runs in a Jupyter kernel, without importing IPython."""
    running = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(running, "kernel", None) is not None


def _below_the_cell() -> Callable[[str], None]:
    """Return a function that shows text below the running cell, in place of its previous text."""
    shown: list[Any] = []

    def show(text: str) -> None:
        from IPython.display import display

        data = {"text/plain": text}
        if shown:
            shown[0].update(data, raw=True)
        else:
            shown.append(display(data, raw=True, display_id=True))  # type: ignore[no-untyped-call]

    return show
