"""Another try for what is only unavailable now."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from splitlib.config import SplitConfig
from splitlib.errors import SourceUnavailable

T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.1


def retrying(call: Callable[[], T], config: SplitConfig) -> T:
    """The result of ``call``, made again while it raises :class:`SourceUnavailable`.

    Pauses double and are drawn at random between zero and their bound ("full jitter"), so that many
    clients of one restarted server do not return together.
    """
    started = time.monotonic()
    attempt = 1
    while True:
        try:
            return call()
        except SourceUnavailable:
            pause = random.uniform(0, _FIRST_PAUSE_SECONDS * 2**attempt)
            late = time.monotonic() - started + pause > config.retry_max_seconds
            if attempt >= config.retry_attempts or late:
                raise
        time.sleep(pause)
        attempt += 1
