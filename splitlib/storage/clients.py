"""Parse storage client options, and reset storage clients in forked processes.

A forked process does not have the parent's threads. A lock that another thread held during the fork
is never released in the child, so objects that have locks are reset in the child.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Mapping, Set
from typing import Any, Final, TypeVar

from splitlib.errors import ConfigError

# Options of several fsspec filesystems that do not affect listings.
_WITHOUT_EFFECT: Final = frozenset(
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


# Options that only obstore reads from environment variables, such as AWS_ENDPOINT.
_OF_OBSTORE: Final = (
    "ALLOW_INVALID_CERTIFICATES",
    "BASE_URL",
    "DISABLE_SYSTEM_CERTIFICATES",
    "ENDPOINT",
    "ENDPOINT_URL",
    "ENDPOINT_URL_S3",
    "PROXY_CA_CERTIFICATE",
    "PROXY_EXCLUDES",
    "PROXY_URL",
    "S3_EXPRESS",
    "SKIP_SIGNATURE",
)

# Connector options that are mappings. In text, an entry is an option such as storage_options.key.
_MAPPINGS = ("storage_options", "read_options")


def option_value(text: Any) -> Any:
    """Parse an option that is a JSON object, list or boolean in text. Return others unchanged."""
    if isinstance(text, str) and (text[:1] in ("{", "[") or text in ("true", "false")):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
    return text


def options_of_text(flat: Mapping[str, Any], catalog: str | None = None) -> dict[str, Any]:
    """Return connector options in which names such as ``storage_options.key`` become mappings.

    ``catalog`` is the name of their catalog, for errors.

    Raises:
        ConfigError: if an option of the storage is repeated, or has both a value and nested
            options.
    """
    options: dict[str, Any] = {}
    mappings: dict[str, dict[str, Any]] = {}
    for name, value in flat.items():
        outer, _, inner = name.partition(".")
        if outer not in _MAPPINGS:
            options[name] = value
        elif inner:
            mappings.setdefault(outer, {})[inner] = value
        else:
            options[name] = option_value(value)
    if both := options.keys() & mappings:
        raise ConfigError(
            f"Option {min(both)!r}{'' if catalog is None else f' of catalog {catalog!r}'} is given "
            "both as a whole and in parts.",
            hint="leave out one.",
        )
    if storage := mappings.get("storage_options"):
        values = {name: option_value(value) for name, value in storage.items()}
        options["storage_options"] = nested_options(values)
        del mappings["storage_options"]
    return options | mappings


def joined_options(options: Mapping[str, Any], winning: Mapping[str, Any]) -> dict[str, Any]:
    """Join two sets of options. Of a mapping, such as ``storage_options``, entries are joined."""
    joined = {**options, **winning}
    for name, value in winning.items():
        if isinstance(value, Mapping) and isinstance(options.get(name), Mapping):
            joined[name] = joined_options(options[name], value)
    return joined


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
                raise ConfigError(f"Storage option {part!r} has both a value and nested options.")
        if last in inside:
            raise ConfigError(f"Storage option {name!r} is given twice.")
        inside[last] = value
    return nested


def listing_options(options: Mapping[str, Any], without_meaning: Set[str]) -> dict[str, Any]:
    """Return the options that may affect listings. Options that are None are left out.

    Args:
        options: Options for an fsspec filesystem.
        without_meaning: Names of this filesystem's options that do not affect listings.
    """
    ignored = _WITHOUT_EFFECT | without_meaning
    return {k: value for k, value in options.items() if value is not None and k not in ignored}


def variables_of_obstore(prefix: str) -> list[str]:
    """Return the names of environment variables that change the requests of obstore only.

    Args:
        prefix: First part of the names, such as ``AWS``.
    """
    names = (f"{prefix}_{option}" for option in _OF_OBSTORE)
    return [name for name in names if name in os.environ]


T = TypeVar("T")

_renewed: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


class _NativeThreads:
    """State of obstore's threads in this process. obstore does not restart them after a fork."""

    started = False
    are_lost = False
    """Whether this process was forked after obstore had started its threads."""


def native_threads_start() -> None:
    """Record that this process uses obstore, and so has obstore's threads."""
    _NativeThreads.started = True


def native_threads_are_lost() -> bool:
    """Return whether this process was forked after obstore was used. obstore calls then hang."""
    return _NativeThreads.are_lost


def in_forks_of_this(owner: T, renew: Callable[[T], None]) -> None:
    """Register ``renew(owner)`` to be called in every forked process, before other code runs."""
    _renewed[owner] = renew


def _in_child() -> None:
    _NativeThreads.are_lost |= _NativeThreads.started
    for owner, renew in list(_renewed.items()):
        renew(owner)


os.register_at_fork(after_in_child=_in_child)
