"""Format results as JSON, and show one progress line for operations longer than a second."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self, TextIO

_WAIT_SECONDS = 1.0
_EVERY_SECONDS = 0.2
_ERASE_LINE = "\r\x1b[K"


def dump(value: Mapping[str, Any]) -> str:
    """Format a mapping as JSON on one line. Values without a JSON type are written as text."""
    return json.dumps(value, default=_text, ensure_ascii=False)


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values`` with NaN and infinity, which JSON does not have, as text."""
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in values.items()
    }


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


class Progress:
    """Shows the text from ``describe`` during the ``with`` block, and erases it at the end.

    Args:
        describe: Function that returns the text to show. It is called in another thread.
        stream: Stream to write the progress line to.
        enabled: Whether to show progress. If false, only :meth:`print` has an effect.
        wait: Function that waits for a number of seconds or until the block ends, and returns
            whether the block has ended.
    """

    def __init__(
        self,
        describe: Callable[[], str],
        stream: TextIO,
        *,
        enabled: bool,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._describe = describe
        self._stream = stream
        self._lock = threading.Lock()
        self._shown = False
        self._done = threading.Event()
        self._wait = wait or self._done.wait
        self.enabled = enabled
        self._thread = threading.Thread(target=self._run, daemon=True)

    def print(self, line: str) -> None:
        """Print a line of output above the progress line."""
        with self._lock:
            self._erase()
            print(line)

    def __enter__(self) -> Self:
        if self.enabled:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self.enabled:
            self._thread.join()
        self._erase()

    def _run(self) -> None:
        pause = _WAIT_SECONDS
        while not self._wait(pause):
            with self._lock:
                self._stream.write(f"{_ERASE_LINE}{self._describe()}")
                self._stream.flush()
                self._shown = True
            pause = _EVERY_SECONDS

    def _erase(self) -> None:
        if self._shown:
            self._stream.write(_ERASE_LINE)
            self._stream.flush()
            self._shown = False


def for_command(describe: Callable[[], str], *, json: bool) -> Progress:
    """Return a progress line on stderr, for a command.

    It is enabled if stderr is a terminal, unless ``json`` is written to a file or another program.
    """
    enabled = sys.stderr.isatty() and (sys.stdout.isatty() or not json)
    return Progress(describe, sys.stderr, enabled=enabled)
