"""Parse options of fsspec filesystems: from text, and those that affect listings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from typing import Any, Final

from splitlib.errors import ConfigError

# Options of several filesystems that do not affect listings.
_WITHOUT_MEANING: Final = frozenset(
    {
        "default_block_size",
        "default_cache_type",
        "default_fill_cache",
        "listings_expiry_time",
        "max_concurrency",
        "max_paths",
        "skip_instance_cache",
        "use_listings_cache",
    }
)


def option_value(text: str) -> Any:
    """Parse JSON objects, lists, ``true`` and ``false``. Numbers and other text stay text."""
    if text[:1] in ("{", "[") or text in ("true", "false"):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
    return text


def nested_options(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Convert dotted names, such as ``client_kwargs.endpoint_url``, to nested mappings.

    Raises:
        ConfigError: for a name that is repeated, or has both a value and nested options.
    """
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *outer, last = name.split(".")
        inside = nested
        for part in outer:
            inside = inside.setdefault(part, {})
            if not isinstance(inside, dict):
                raise ConfigError(f"Storage option {part!r} has a value and nested options.")
        if last in inside:
            raise ConfigError(f"Storage option {name!r} is given twice.")
        inside[last] = value
    return nested


def listing_options(options: Mapping[str, Any], without_meaning: Set[str]) -> dict[str, Any]:
    """Return the options that may affect listings, without those that are None.

    Args:
        options: Options of an fsspec filesystem.
        without_meaning: Names of options of this filesystem that do not affect listings.
    """
    ignored = _WITHOUT_MEANING | without_meaning
    return {k: value for k, value in options.items() if value is not None and k not in ignored}
