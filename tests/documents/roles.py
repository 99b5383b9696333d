"""Extension of Griffe: roles of reStructuredText in docstrings become links of Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`([^`]+)`")

# The page of options has these.
_OPTIONS = re.compile(r"^Options:\n(?: .*\n|\n)*", re.MULTILINE)


class Roles(griffe.Extension):  # type: ignore[misc]  # only the environment of the site has Griffe
    """Replace ``:func:`splitlib.sql``` by a link, if the page of this name exists."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is not None:
            text = _ROLE.sub(_link, obj.docstring.value)
            obj.docstring.value = _OPTIONS.sub("", text)


def _link(role: re.Match[str]) -> str:
    name = role[1].lstrip("~")
    # Users import a class from ``splitlib``, not from the module that defines it.
    shown = re.sub(r"^splitlib\.(?:[a-z_]+\.)+(?=[A-Z])|^splitlib\.(?=[A-Z])", "", name)
    return f'<autoref optional identifier="{name}"><code>{shown}</code></autoref>'
