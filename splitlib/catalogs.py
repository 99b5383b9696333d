"""Named catalogs: which options stand for ``lake`` in ``lake.db.table``."""

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
    """Options by catalog name, from three places, of which the first that has an option wins.

    They are Spark's configuration; the environment, whose names and options are in lower case
    (``SPLITLIB_CATALOG__LAKE__URI`` is option ``uri`` of ``lake``); and the file that
    ``SPLITLIB_CATALOGS_FILE`` names, TOML or JSON, with a table of options for each catalog. Spark
    writes its configuration to its event log, so secrets are better off in the other two.

    Raises:
        ConfigError: if that file cannot be read, or is neither.
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
    """A text in TOML; its parser takes minutes for a key of many parts.

    Raises:
        RecursionError: if a line of it may have such a key.
    """
    for line in text.splitlines():
        if line.count(".") > _MOST_PARTS and _TEXT.sub("", line).count(".") > _MOST_PARTS:
            raise RecursionError
    return text


def _catalogs_in(file: str | None) -> dict[str, dict[str, Any]]:
    if not file:
        return {}
    import tomllib  # here, as few have such a file

    try:
        text = Path(file).read_text(encoding="utf-8")
        found = json.loads(text) if file.endswith(".json") else tomllib.loads(_not_too_deep(text))
    except (OSError, ValueError, RecursionError) as error:
        # not chained: an error of a parser may hold the text
        why = type(error).__name__
        raise ConfigError(
            f"{ENV_CATALOGS_FILE} names {file}, which has no catalogs: {why}."
        ) from None
    if not isinstance(found, dict) or not all(isinstance(o, dict) for o in found.values()):
        raise ConfigError(
            f"{ENV_CATALOGS_FILE} names {file}, which has no table of options for each catalog."
        )
    return found
