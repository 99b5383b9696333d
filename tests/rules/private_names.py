"""Rule: tests use no private names of the library, so that private code can change freely."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_OURS = {
    # names of PySpark
    "_gateway", "_gateway_client", "_jdf", "_joinAsOf", "_jsc", "_jsparkSession", "_jvm",
    "_repr_html_",  # protocol of notebooks
    "_current_frames", "_exit", "_replace",  # public names of the standard library
}  # fmt: skip


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in NOT_OURS


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of each private name of an object other than ``self``."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("splitlib"):
                yield from ((node.lineno, a.name) for a in node.names if is_private(a.name))
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
                pass
            case ast.Attribute(attr=name) if is_private(name):
                yield node.lineno, name
            # strings that monkeypatch and mock take as targets
            case ast.Constant(value=str(text)) if re.fullmatch(r"splitlib[\w.]*\._\w+", text):
                yield node.lineno, text
            case ast.Call(func=ast.Attribute(attr="setattr" | "delattr"), args=[_, name, *_]):
                if isinstance(name, ast.Constant) and is_private(str(name.value)):
                    yield node.lineno, str(name.value)


def problems() -> Iterator[str]:
    """Yield private names that tests use."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for line, name in private_names(ast.parse(path.read_text(encoding="utf-8"))):
            yield f"{path.relative_to(ROOT)}:{line}: {name}"
