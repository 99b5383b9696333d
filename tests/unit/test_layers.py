"""Who may import whom: read from the source, imports inside functions and for types included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# From the ground up: each imports itself and what stands before it. "splitlib" is the facade.
CORE = [
    "_version",
    "redaction",
    "suggestions",
    "errors",
    "model",
    "config",
    "arrow",
    "storage",
    "hive",
    "remote",
    "filtering",
    "spi",
    "connector_checks",
    "table",
    "catalogs",
    "registry",
    "enumeration",
    "reading",
    "coordination",
    "spark",
    "loading",
    "splitlib",
    "testing",
    "demo",
    "cli",
]
SPARK = [
    "sql_text",
    "time_zones",
    "schema",
    "plan_report",
    "plan_records",
    "local_rows",
    "logical_plan",
    "file_scan",
    "jvm",
    "session",
    "session_state",
    "storage_settings",
    "arguments",
    "kept_rows",
    "keys",
    "join_condition",
    "predicates",
    "scan",
    "formats",
    "field_ids",
    "session_catalog",
    "allowed_scans",
    "read",
    "named_tables",
    "planner",
    "datasource",
    "condition",
    "freeze",
    "explain",
    "sql",
]
# What a connector may use: what the authors of others see, and pure helpers.
FOR_CONNECTORS = frozenset(
    [
        "redaction",
        "suggestions",
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
# "registry", to ask the class of a connector that is known by its name alone
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
    """The modules of this project that a module imports, wherever in it."""
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
    """How high a module of splitlib stands; within ``splitlib.spark`` the second number."""
    package, *rest = name.split(".")
    assert package == "splitlib"
    place = CORE.index(rest[0] if rest else "splitlib")
    return place, SPARK.index(rest[1]) if rest[:1] == ["spark"] and rest[1:] else -1


CORE_MODULES = sorted(name for name in MODULES if name.split(".")[0] == "splitlib")


def test_the_sources_are_found():
    assert len(CORE_MODULES) > 100
    assert {name.split(".")[0] for name in MODULES} > {"splitlib_hive", "splitlib_conformance"}


def test_every_floor_is_there():
    there = {name.split(".")[1] for name in CORE_MODULES if "." in name}
    assert there == set(CORE) - {"splitlib"}
    in_spark = {name.split(".")[2] for name in CORE_MODULES if name.startswith("splitlib.spark.")}
    assert in_spark == set(SPARK)


@pytest.mark.parametrize("name", CORE_MODULES)
def test_no_import_climbs(name):
    assert [other for other in imported(name) if floor(other) > floor(name)] == []


def test_what_others_import():
    for name in sorted(MODULES.keys() - set(CORE_MODULES)):
        package = name.split(".")[0]
        usable = FOR_THE_KIT if package == "splitlib_conformance" else FOR_CONNECTORS
        for other in imported(name):
            owner, *rest = other.split(".")
            if owner != package:
                assert owner == "splitlib", f"{name} imports {other}"
                assert (rest or ["splitlib"])[0] in usable, f"{name} imports {other}"


def test_no_module_depends_on_itself():
    try:
        TopologicalSorter({name: set(imported(name)) for name in MODULES}).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))
