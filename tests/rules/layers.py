"""Rule: modules import only earlier layers. Imports in functions and for type checks count too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]

# The layers in order. Each layer may import itself and the layers before it. "splitlib" is the
# facade, that is ``splitlib/__init__.py``.
CORE = [
    "_version",
    "redaction",
    "errors",
    "model",
    "config",
    "arrow",
    "storage",
    "hive",
    "remote",
    "page",
    "report",
    "telemetry",
    "filtering",
    "spi",
    "checks",
    "table",
    "statistics",
    "enumeration",
    "reading",
    "rows",
    "registry",
    "coordination",
    "spark",
    "diagnosis",
    "merge",
    "splitlib",
    "testing",
    "demo",
    "cli",
    "__main__",
]
SPARK = [
    "compat",
    "conversion",
    "logical_plan",
    "file_scan",
    "jvm",
    "session",
    "footer_job",
    "determinism",
    "keys",
    "join_condition",
    "predicates",
    "scan",
    "formats",
    "session_catalog",
    "allowed_scans",
    "dimension",
    "read",
    "named_tables",
    "planner",
    "datasource",
    "commands",
    "sql",
    "audit",
]
# Layers that connectors may import.
FOR_CONNECTORS = frozenset(
    [
        "redaction",
        "errors",
        "model",
        "config",
        "arrow",
        "hive",
        "remote",
        "storage",
        "filtering",
        "spi",
    ]
)
# The conformance kit needs "registry" to find the class of a connector by its name.
FOR_THE_KIT = FOR_CONNECTORS | {"splitlib", "registry"}


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path, root): path
    for root in (ROOT, ROOT / "connectors", ROOT / "conformance")
    for package in root.glob("splitlib*")
    for path in package.rglob("*.py")
}


def imported(name: str) -> Iterator[str]:
    """Yield the modules of this project that a module imports anywhere."""
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        found = []
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None, f"{name}: a relative import"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [full if full in MODULES else node.module for full in inside]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        yield from (module for module in found if module in MODULES and module != name)


def floor(name: str) -> tuple[int, int]:
    """Return the index of a module's layer in ``CORE``, and in ``SPARK`` (-1 outside of it)."""
    package, *rest = name.split(".")
    assert package == "splitlib"
    place = CORE.index(rest[0] if rest else "splitlib")
    return place, SPARK.index(rest[1]) if rest[:1] == ["spark"] and rest[1:] else -1


def _climbing() -> Iterator[str]:
    for name in sorted(MODULES):
        if name.split(".")[0] == "splitlib":
            for other in imported(name):
                if floor(other) > floor(name):
                    yield f"{name} imports {other}, which is in a later layer"


def _connectors() -> Iterator[str]:
    for name in sorted(MODULES):
        package = name.split(".")[0]
        usable = FOR_THE_KIT if package == "splitlib_conformance" else FOR_CONNECTORS
        for other in imported(name) if package != "splitlib" else ():
            owner, *rest = other.split(".")
            if owner != package and (owner != "splitlib" or (rest or [owner])[0] not in usable):
                yield f"{name} imports {other}, which {package} may not use"


def _order() -> Iterator[str]:
    """Yield layers of the source tree that are missing from the lists above, and the reverse."""
    names = [name.split(".") for name in MODULES if name.startswith("splitlib.")]
    there = {parts[1] for parts in names}
    in_spark = {parts[2] for parts in names if parts[1] == "spark" and parts[2:]}
    for listed, found in ((set(CORE) - {"splitlib"}, there), (set(SPARK), in_spark)):
        yield from (f"{name} has no place among the layers" for name in sorted(found - listed))
        yield from (f"the layer {name} does not exist" for name in sorted(listed - found))


def problems() -> Iterator[str]:
    """Yield imports of later layers, imports that connectors may not use, and import cycles."""
    assert len(MODULES) > 100
    in_order = list(_order())
    yield from in_order
    if in_order:
        return  # without a complete order, imports cannot be checked
    yield from _climbing()
    yield from _connectors()
    try:
        TopologicalSorter({name: set(imported(name)) for name in MODULES}).prepare()
    except CycleError as error:
        yield "modules import each other: " + " <- ".join(error.args[1])
