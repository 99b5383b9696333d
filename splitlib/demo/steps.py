"""Saying what is being done, and keeping the JVM's chatter out of it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Steps:
    """Announces each step on stderr and remembers its seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Say ``text``, and after the block how long it took."""
        print(f"{text} … ", end="", file=sys.stderr, flush=True)
        started = time.perf_counter()
        try:
            yield
        except BaseException:  # also when interrupted, what follows begins on a line of its own
            print(file=sys.stderr)
            raise
        self.seconds[text] = spent = time.perf_counter() - started
        print(f"{spent:.1f} s", file=sys.stderr)


@contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Processes that start inside write to ``path`` for ever; this one only inside."""
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
