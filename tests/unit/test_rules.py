"""The rules in ``tests/rules`` detect violations in the source code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.rules import (
    documents,
    internals,
    layers,
    limits,
    package_docstrings,
    private_names,
    versions,
)


@pytest.mark.parametrize(
    "source",
    [
        "from splitlib.registry import _registered",
        "found = splitlib.registry._registered",
        "coordinator._feed.complete",
        "monkeypatch.setattr('splitlib.registry._registered', {})",
        "monkeypatch.setattr(matchers, '_TUPLE_BUDGET', 1)",
    ],
)
def test_private_names(source: str) -> None:
    assert len(list(private_names.private_names(ast.parse(source)))) == 1


def test_lengths() -> None:
    body = "\n".join("    x = 1" for _ in range(60))
    assert list(limits.too_long(f"def f():\n{body}")) == ["function f: 61 lines"]
    assert list(limits.too_long("x = 1\n" * 450)) == ["450 lines"]


def test_layers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    climbing = tmp_path / "model.py"
    climbing.write_text("def f():\n    from splitlib.enumeration import report")
    monkeypatch.setitem(layers.MODULES, "splitlib.model", climbing)
    assert any("splitlib.model imports" in problem for problem in layers.problems())
    monkeypatch.setitem(layers.MODULES, "splitlib.unheard_of", climbing)
    assert "unheard_of has no place among the layers" in list(layers.problems())


def test_docstrings_of_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "__init__.py"
    package.write_text('"""Keys: ``data`` holds them, and ``report`` counts them."""')
    monkeypatch.setattr(package_docstrings, "ROOT", tmp_path)
    monkeypatch.setattr(
        package_docstrings,
        "MODULES",
        {"splitlib.k": package, "splitlib.k.data": Path(), "splitlib.k.matchers": Path()},
    )
    assert list(package_docstrings.problems()) == [
        "__init__.py: missing or left out: matchers, report"
    ]


def test_internals_of_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text('"""Uses _jdf."""\n# _jvm\nplan = df._jdf.queryExecution()')
    monkeypatch.setattr(internals, "SOURCE", tmp_path)
    assert list(internals.problems()) == ["reader.py uses _jdf"]


@pytest.mark.parametrize(
    "source",
    [
        "if spark.version >= '4.0': pass",
        "is_old = spark.version.startswith('3.5')",
        "major = pyspark.__version__.split('.')[0]",
        "major = sys.version_info[0]",
        "from packaging.version import Version",
    ],
)
def test_versions(source: str) -> None:
    assert list(versions.compared(ast.parse(source)))


def test_a_version_in_a_message() -> None:
    assert not list(versions.compared(ast.parse("text = f'Spark {spark.version} differs'")))


def test_links(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Other\n\n## What `a(b)` is\n\n```sh\n# no heading\n```\n")
    page = tmp_path / "page.md"
    wrong = ["none.md", "other.md#missing", "other.md#no-heading", "#missing"]
    links = ["other.md", "other.md#what-ab-is", "#page", "https://host/none.md", *wrong]
    page.write_text("# Page\n\n" + "\n".join(f"[a]({link})" for link in links))
    assert list(documents.broken_links(page)) == wrong
