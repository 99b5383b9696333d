"""``help()`` says what the attributes of public classes are, as the class's docstring does.

What stands as a text below an attribute is shown by nothing but editors.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from types import ModuleType

import pytest

import splitlib
import splitlib_conformance
from splitlib import model, spi, testing
from splitlib.enumeration.report import FilterReport
from splitlib.filtering.predicate import AppliedFilter
from splitlib.spark import plan_report


def _classes(module: ModuleType) -> list[type]:
    names = getattr(module, "__all__", None) or vars(module)
    found = [getattr(module, name) for name in names if not name.startswith("_")]
    return [each for each in found if isinstance(each, type)]


MODULES = (splitlib, model, spi, testing, splitlib_conformance, plan_report)
PUBLIC = {
    each
    for module in MODULES
    for each in [*_classes(module), FilterReport, AppliedFilter]
    if each.__module__.startswith("splitlib") and not issubclass(each, Exception)
}


def _attributes(kind: type) -> list[str]:
    return [name for name in inspect.get_annotations(kind) if not name.startswith("_")]


def test_there_are_some() -> None:
    assert model.FileSplit in PUBLIC
    assert spi.Connector in PUBLIC
    assert splitlib.ScanMetrics in PUBLIC
    assert sum(len(_attributes(each)) for each in PUBLIC) > 80


@pytest.mark.parametrize("kind", sorted(PUBLIC, key=str))
def test_attributes_are_in_the_docstring(kind: type) -> None:
    section = (inspect.getdoc(kind) or "").partition("\nAttributes:\n")[2]
    documented = re.findall(r"^    (\w+): ", section.partition("\n\n")[0], re.MULTILINE)
    assert set(documented) >= set(_attributes(kind))
    assert len(set(documented)) == len(documented)
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    texts = [node for node in body.body[1:] if isinstance(node, ast.Expr)]
    assert not [ast.unparse(node) for node in texts if isinstance(node.value, ast.Constant)]
