"""Rewrite errors for the command line: hints name arguments of commands, not of Python."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Final

from splitlib.config import SplitConfig

_CATALOG: Final = re.compile(r"\bspark\.splitlib\.catalog\.(\w+)\.(\w+)")
# The arguments of Python's functions that are options of connectors.
_OPTION: Final = re.compile(
    r"(?<![\w.\-])(as_of|catalog|format|partition_schema|percent_escapes|read_options|ref|schema"
    r"|snapshot_id|storage_options)=(\S*)"
)
_CONNECTOR: Final = re.compile(r"(?<![\w.\-])connector=(?:'(\w+)'|\.\.\.)")
_SETTING: Final = re.compile(
    rf"(?<![\w.\-'])({'|'.join(spec.name for spec in fields(SplitConfig))})\b(?!=)"
)


def as_typed(hint: str) -> str:
    """Return a hint with the spelling of the command line.

    Settings become ``--set NAME=VALUE``, options of connectors ``-o NAME=VALUE``, the connector
    ``-c NAME``, and settings of named catalogs environment variables.
    """
    hint = _CATALOG.sub(lambda found: f"SPLITLIB_CATALOG__{found[1]}__{found[2]}".upper(), hint)
    hint = _CONNECTOR.sub(lambda found: f"-c {found[1] or 'NAME'}", hint)
    hint = _OPTION.sub(_option, hint)
    return _SETTING.sub(lambda found: f"--set {found[1]}=VALUE", hint)


def _option(found: re.Match[str]) -> str:
    name, value = found[1], found[2]
    end = value[len(value.rstrip(".,;:")) :]
    given = value.removesuffix(end).strip("'\"") or "VALUE"
    return f"-o {name}={given}{'' if end == '...' else end}"
