"""Rule: the docstring of a public class documents the attributes of the class.

``help()`` shows this docstring. A string below an attribute is shown only by editors.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType

import splitlib
import splitlib_conformance
from splitlib import coordination, model, report, spi, testing


def _classes(module: ModuleType) -> list[type]:
    names = getattr(module, "__all__", None) or vars(module)
    found = [getattr(module, name) for name in names if not name.startswith("_")]
    return [each for each in found if isinstance(each, type)]


MODULES = (splitlib, coordination, model, spi, testing, splitlib_conformance, report)
PUBLIC = {
    each
    for module in MODULES
    for each in _classes(module)
    if each.__module__.startswith("splitlib") and not issubclass(each, Exception)
}


def _attributes(kind: type) -> list[str]:
    return [name for name in inspect.get_annotations(kind) if not name.startswith("_")]


def problems() -> Iterator[str]:
    """Yield public classes with attributes that are not documented in the class docstring."""
    assert sum(len(_attributes(each)) for each in PUBLIC) > 80
    for kind in sorted(PUBLIC, key=str):
        section = (inspect.getdoc(kind) or "").partition("\nAttributes:\n")[2]
        documented = re.findall(r"^    (\w+): ", section.partition("\n\n")[0], re.MULTILINE)
        missing = [name for name in _attributes(kind) if name not in documented]
        twice = [name for name in set(documented) if documented.count(name) > 1]
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
        assert isinstance(body, ast.ClassDef)
        texts = [node.value for node in body.body[1:] if isinstance(node, ast.Expr)]
        below = [ast.unparse(text) for text in texts if isinstance(text, ast.Constant)]
        for kinds, found in (("missing", missing), ("twice", twice), ("not", below)):
            if found:
                yield f"{kind.__qualname__}: {kinds} in 'Attributes:': {', '.join(found)}"
