"""The page of all modules: what each is for, and its classes and functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.documents.examples import ROOT

_HEAD: Final = """# The modules

`python -m tests.documents` writes this page: for each module, the first paragraph of its docstring,
and its classes and functions, except those whose names start with an underscore. CONTRIBUTING.md
describes the packages, and the order in which they may import each other.
"""
_DEFINITIONS: Final = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def modules_page() -> str:
    """Return the page, with one table per package."""
    return "\n".join([_HEAD, *_tables()])


def _tables() -> Iterator[str]:
    packages: dict[Path, list[Path]] = {}
    for root in ("splitlib", "connectors"):
        for path in sorted((ROOT / root).rglob("*.py")):
            packages.setdefault(path.parent, []).append(path)
    for package, modules in sorted(packages.items()):
        rows = [row for path in modules if (row := _row(path)) is not None]
        if rows:
            yield f"## `{package.relative_to(ROOT)}`\n"
            yield "| module | purpose | classes and functions |\n|---|---|---|"
            yield "\n".join(rows) + "\n"


def _row(path: Path) -> str | None:
    """Return a row of the table, or None for a module without classes and functions."""
    tree = ast.parse(path.read_text("utf-8"))
    found = [node.name for node in tree.body if isinstance(node, _DEFINITIONS)]
    names = ", ".join(f"`{name}`" for name in found if not name.startswith("_"))
    purpose = " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].split())
    purpose = re.sub(r":\w+:`~?([^`]+)`|``([^`]+)``", lambda m: f"`{m[1] or m[2]}`", purpose)
    if path.name == "__init__.py" and not names:
        return None
    return f"| `{path.name}` | {purpose.replace('|', '&#124;')} | {names} |"
