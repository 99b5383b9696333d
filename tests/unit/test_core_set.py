"""The list of core tests contains only tests that exist."""

from __future__ import annotations

import ast

from tests.core_set import ROOT, core_functions


def test_every_listed_test_exists() -> None:
    listed = core_functions()
    assert len(listed) > 100
    functions: dict[str, set[str]] = {}
    for file in {name.partition("::")[0] for name in listed}:
        tree = ast.parse((ROOT / file).read_text())
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        functions[file] = {f"{file}::{name}" for name in names}
    assert listed - set().union(*functions.values()) == set()
