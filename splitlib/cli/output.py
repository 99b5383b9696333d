"""Format results as JSON, and choose where commands show their progress."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from splitlib.config import SplitConfig
from splitlib.progress import Progress, on_terminal


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


def for_command(describe: Callable[[], str], config: SplitConfig, *, json: bool) -> Progress:
    """Return a progress line on stderr, for a command.

    It is shown if ``show_progress`` is set and stderr is a terminal, unless ``json`` is written to
    a file or another program.
    """
    enabled = config.show_progress and sys.stderr.isatty() and (sys.stdout.isatty() or not json)
    return Progress(describe, on_terminal(sys.stderr) if enabled else None)
