"""Report the steps of the demo, and redirect the JVM's output."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Steps:
    """Announces each step on stderr and records its duration in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print ``text``, and the duration after the block."""
        print(f"{text} … ", end="", file=sys.stderr, flush=True)
        started = time.perf_counter()
        try:
            yield
        except BaseException:  # start a new line for the next output, also after an interrupt
            print(file=sys.stderr)
            raise
        self.seconds[text] = spent = time.perf_counter() - started
        print(f"{spent:.1f} s", file=sys.stderr)


@contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Redirect output to ``path`` within the block. Processes started inside keep the redirect."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(fd, os.dup(fd)) for fd in (1, 2)]
    with path.open("ab") as log:
        for fd, _ in kept:
            os.dup2(log.fileno(), fd)
    try:
        yield
    finally:
        for fd, copy in kept:
            os.dup2(copy, fd)
            os.close(copy)
