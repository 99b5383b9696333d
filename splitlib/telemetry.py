"""Reports and spans of planning, for programs that monitor it.

Spans need the extra ``opentelemetry``. The module ``opentelemetry`` is never imported here: a
program that has set up tracing has imported it already.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from splitlib._version import __version__
from splitlib.redaction import get_logger, redact
from splitlib.report import Report, summary

_log = get_logger(__name__)
_callbacks: list[Callable[[Report], None]] = []


def on_report(callback: Callable[[Report], None]) -> Callable[[], None]:
    """Call a function with each report that splitlib makes while it plans.

    There is one report for each result of :func:`splitlib.sql`, :func:`splitlib.optimize`,
    :func:`splitlib.replan` and ``load()``, and one for each finished enumeration without Spark or
    by ``format("splitlib")``. The function is called in the thread that plans. If it raises an
    error, the error is logged as a warning, and planning goes on.

    Args:
        callback: Function that receives the report.

    Returns:
        A function that ends the calls. It may be called several times.
    """
    registered = partial(callback)  # another object for each call, even with the same callback
    _callbacks.append(registered)

    def remove() -> None:
        if registered in _callbacks:
            _callbacks.remove(registered)

    return remove


def reported(make: Callable[[], Report]) -> None:
    """Pass on the report of a finished plan: to the log, the current span, and the callbacks.

    Args:
        make: Function that returns the report. It is only called if something receives the report.
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
        is_current: Whether spans that start in the block become children of this span. A generator
            must not change the current span, because its consumer runs in the same context.
    """
    trace = _trace()
    if trace is None:
        yield
        return
    attributes = {} if table is None else {"splitlib.table": table}
    tracer = trace.get_tracer("splitlib", __version__)
    span = tracer.start_span(f"splitlib.{name}", attributes=attributes)
    try:
        # The message of an error may contain credentials of other libraries, so only its class is
        # recorded.
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
    """Return the current span of the program; None if nothing is recorded."""
    trace = _trace()
    span = None if trace is None else trace.get_current_span()
    return span if span is not None and span.is_recording() else None


def _attributes(report: Report) -> dict[str, int | str]:
    """Return the counts of a report and of its scans as attributes of a span."""
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
