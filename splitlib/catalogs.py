"""Named catalogs: the connector options behind the name ``lake`` in ``lake.db.table``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from splitlib.config import ENV_CATALOG_PREFIX, ENV_CATALOGS_FILE, SPARK_CATALOG_PREFIX
from splitlib.errors import ConfigError

_MOST_PARTS = 100
_TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'")


def named_catalogs(
    spark_conf: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the options of each named catalog, by catalog name.

    If several sources set the same option, the first of these wins:

    1. the Spark configuration;
    2. environment variables: ``SPLITLIB_CATALOG__LAKE__URI`` sets option ``uri`` of catalog
       ``lake``; catalog and option names are in lower case;
    3. the TOML or JSON file named by ``SPLITLIB_CATALOGS_FILE``, with one table per catalog.

    Spark writes its configuration to its event log, so keep secrets in one of the other two.

    Raises:
        ConfigError: if the file cannot be read, or is not a valid catalogs file.
    """
    environ = os.environ if environ is None else environ
    catalogs = _catalogs_in(environ.get(ENV_CATALOGS_FILE))
    for key, value in environ.items():
        name, _, option = key.removeprefix(ENV_CATALOG_PREFIX).lower().partition("__")
        if key.startswith(ENV_CATALOG_PREFIX) and option:
            catalogs.setdefault(name, {})[option] = value
    for key, value in spark_conf.items():
        name, _, option = key.removeprefix(SPARK_CATALOG_PREFIX).partition(".")
        if key.startswith(SPARK_CATALOG_PREFIX) and option:
            catalogs.setdefault(name, {})[option] = value
    return catalogs


def _not_too_deep(text: str) -> str:
    """Return ``text`` unchanged if the TOML parser can read it in reasonable time.

    The parser takes minutes for a dotted key with very many parts.

    Raises:
        RecursionError: if a line may contain such a key.
    """
    for line in text.splitlines():
        if line.count(".") > _MOST_PARTS and _TEXT.sub("", line).count(".") > _MOST_PARTS:
            raise RecursionError
    return text


def _catalogs_in(file: str | None) -> dict[str, dict[str, Any]]:
    if not file:
        return {}
    import tomllib  # imported here because few users have such a file

    try:
        text = Path(file).read_text(encoding="utf-8")
        found = json.loads(text) if file.endswith(".json") else tomllib.loads(_not_too_deep(text))
    except (OSError, ValueError, RecursionError) as error:
        # Not chained: a parser's message may quote the file, which may hold secrets.
        why = type(error).__name__
        raise ConfigError(
            f"The catalogs file {file} ({ENV_CATALOGS_FILE}) cannot be read: {why}."
        ) from None
    if not isinstance(found, dict) or not all(isinstance(o, dict) for o in found.values()):
        raise ConfigError(
            f"The catalogs file {file} ({ENV_CATALOGS_FILE}) must map catalogs to options."
        )
    return found
