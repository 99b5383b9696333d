"""Rule: no code compares versions of Spark or PySpark. It looks for the ability itself.

Vendors ship builds with the same version and other abilities.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.rules.internals import SOURCE

NAMES = {"version", "__version__", "version_info", "hexversion", "LooseVersion"}
PACKAGES = ("packaging", "distutils")


def compared(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that take a version apart or compare it."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                parts = ast.walk(node)
            case ast.Call(func=ast.Attribute(value=owner)):
                parts = iter([owner])  # methods of a version, such as startswith and split
            case ast.Subscript(value=owner):
                parts = iter([owner])
            case ast.Import(names=names) if any(n.name.startswith(PACKAGES) for n in names):
                yield node.lineno
                continue
            case ast.ImportFrom(module=str(module)) if module.startswith(PACKAGES):
                yield node.lineno
                continue
            case _:
                continue
        if any(_is_version(part) for part in parts):
            yield node.lineno


def _is_version(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in NAMES
    return False


def problems() -> Iterator[str]:
    """Yield uses of versions in the code for Spark."""
    for path in sorted((SOURCE / "spark").rglob("*.py")):
        for line in compared(ast.parse(path.read_text(encoding="utf-8"))):
            yield f"{path.relative_to(SOURCE)}:{line} decides by a version"
