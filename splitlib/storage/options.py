"""Options of a filesystem as text: on the command line, and as options of the data source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from splitlib.errors import ConfigError


def option_value(text: str) -> Any:
    """JSON objects, lists and true or false as such; everything else, numbers too, as text."""
    if text[:1] in ("{", "[") or text in ("true", "false"):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
    return text


def nested_options(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Options whose names have points as mappings: ``client_kwargs.endpoint_url``.

    Raises:
        ConfigError: for a name that has both a value and options of its own.
    """
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *outer, last = name.split(".")
        inside = nested
        for part in outer:
            inside = inside.setdefault(part, {})
            if not isinstance(inside, dict):
                raise ConfigError(f"Option {part!r} of the storage has a value and options.")
        if last in inside:
            raise ConfigError(f"Option {name!r} of the storage is given twice.")
        inside[last] = value
    return nested


def connection_parts(text: str) -> dict[str, str]:
    """What a connection string of Azure says, by names in upper case."""
    pairs = (part.partition("=") for part in text.rstrip(";").split(";"))
    return {name.upper(): value for name, _, value in pairs}
