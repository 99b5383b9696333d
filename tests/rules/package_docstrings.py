"""Rule: the docstring of a package that introduces its modules names all of them, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.rules.layers import MODULES, ROOT

# Words in double backticks that are no modules, but a connector or a setting.
_OTHERS = {
    "splitlib.spark.datasource": {"splitlib"},
    "splitlib.spark.session_catalog": {"session"},
    "splitlib_iceberg": {"allowed_locations"},
}


def problems() -> Iterator[str]:
    """Yield packages whose docstrings name missing modules, or leave modules out."""
    for name, path in sorted(MODULES.items()):
        if path.name != "__init__.py" or name == "splitlib":
            continue
        doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        named = set(re.findall(r"``([a-z_]+)``", doc)) - _OTHERS.get(name, set())
        modules = {
            module.removeprefix(f"{name}.")
            for module in MODULES
            if module.rpartition(".")[0] == name and not module.endswith("__main__")
        }
        if named and (wrong := named ^ modules):
            yield f"{path.relative_to(ROOT)}: missing or left out: {', '.join(sorted(wrong))}"
