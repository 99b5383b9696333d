"""Parse filesystem options from text, as on the command line and in data source options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from splitlib.errors import ConfigError


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


def connection_parts(text: str) -> dict[str, str]:
    """Parse an Azure connection string; the names in the result are in upper case."""
    pairs = (part.partition("=") for part in text.rstrip(";").split(";"))
    return {name.upper(): value for name, _, value in pairs}
