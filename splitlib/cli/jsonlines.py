"""Format results as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


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
