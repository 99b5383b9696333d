"""The README and ``docs/``: generated pages, examples without Spark, reasons, and names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import splitlib
from splitlib import cli, errors
from splitlib.spark.planner.remedies import in_session
from tests.documents.__main__ import GENERATED
from tests.documents.examples import (
    DOCS,
    OWN_SESSION,
    ROOT,
    SHARE_A_SESSION,
    TABLES,
    TESTED_BY_PYTEST,
    WITHOUT_SPARK,
    blocks,
    follow,
    uses_tables,
)
from tests.documents.reference import advised

PAGES = ["README.md", *(str(p.relative_to(ROOT)) for p in sorted(DOCS.rglob("*.md")))]
PLANNER = ROOT / "splitlib" / "spark" / "planner"
# Their constants are no reasons: names of the JVM, patterns, hints of errors.
WITHOUT_REASONS = {
    "allowed_scans.py",
    "footer_job.py",
    "known_internals.py",
    "named_tables.py",
    "remedies.py",
    "scan.py",
}
WITH_REASONS = [
    *PLANNER.rglob("*.py"),
    *(ROOT / "splitlib" / "filtering").glob("*.py"),
    *(ROOT / "splitlib" / "enumeration").glob("*.py"),
    *(ROOT / "splitlib" / "spark").glob("*.py"),
    *(ROOT / "splitlib" / "spark" / "jvm").glob("*.py"),
    *(ROOT / "splitlib" / "spark" / "predicates").glob("*.py"),
    *(ROOT / "splitlib" / "spark" / "read").glob("*.py"),
]
CALLS = {"because", "Unusable", "left_alone"}
KEYWORDS = {"unused_because", "reasons", "notes"}
NAMES = re.compile(r"_?(reason|reasons|why|why_not|unused|notes?|unused_because)$|_REASONS|_NAMES")
CONSTANT = re.compile(r"_?[A-Z][A-Z_]+$")
FUNCTIONS = re.compile(r"_?why_|internals_unavailable|_probed|_query$|why_not_run|_name$")
RECORDED = re.compile(r"(reasons|notes)$")


@pytest.mark.parametrize("name", GENERATED)
def test_generated_pages_are_those_of_this_code(name: str) -> None:
    if name == "reference/options.md":
        pytest.importorskip("pyspark.sql.datasource", reason="this PySpark has no data sources")
    assert (DOCS / name).read_text("utf-8") == GENERATED[name](), "run python -m tests.documents"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 900


def test_the_version_is_the_same_everywhere() -> None:
    of_changelog = re.search(r"^## (\S+) - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    of_citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert of_changelog is not None
    assert of_citation is not None
    assert of_changelog[1] == of_citation[1] == splitlib.__version__


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r": ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_every_example_is_run_by_a_test() -> None:
    run_by_tests = [TABLES, *SHARE_A_SESSION, *OWN_SESSION, *WITHOUT_SPARK, TESTED_BY_PYTEST]
    assert sorted(page for page in PAGES if blocks(page)) == sorted(run_by_tests)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "py")])
def test_examples_that_need_a_service_use_existing_names(page: str) -> None:
    for block in blocks(page, "py"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert node.value.id != "splitlib" or hasattr(splitlib, node.attr)


@pytest.mark.parametrize("page", WITHOUT_SPARK)
def test_examples_without_spark(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    follow(page, {})


@pytest.mark.parametrize("page", [page for page in PAGES if uses_tables(page)])
def test_a_page_links_to_the_tables_of_its_examples(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert page == "README.md" or re.search(r"\((guides/)?tables\.md\)", text)


def test_every_command_is_on_the_page_of_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    commands = re.findall(r"^    ([a-z-]+)(?:  |$)", capsys.readouterr().out, re.MULTILINE)
    assert len(commands) >= 12
    page = (DOCS / "reference" / "command-line.md").read_text("utf-8")
    assert set(re.findall(r"^\| `splitlib ([a-z-]+)", page, re.MULTILINE)) == set(commands)


def test_every_error_has_advice() -> None:
    assert advised() == set(errors.__all__)


def test_the_audit_of_tpcds_adds_up() -> None:
    page = (DOCS / "tpcds.md").read_text("utf-8")
    rows = re.findall(r"^\| (q\d\d) \|([^|]*)\|([^|]*)\|([^|]*)\|", page, re.MULTILINE)
    assert {name for name, *_ in rows} == {f"q{number:02}" for number in range(1, 100)}
    tables = [saved.strip() for _, table, saved, _ in rows if table.strip()]
    pruned = [saved for saved in tables if saved != "not pruned"]
    assert f"**{len(pruned)} of {len(tables)}** uses" in page
    sizes = [size for *_, size in rows if " of " in size]
    assert f"In {len(sizes)} of these uses" in page
    assert "## Columns that would help" in page


def reasons_in(source: str) -> Iterator[str]:
    """Yield the fixed parts of the reasons and notes that a module can give."""
    tree = ast.parse(source)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    docstrings = {ast.get_docstring(f, clean=False) for f in functions}
    for node in ast.walk(tree):
        values: list[ast.AST] = []
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            of = ast.unparse(node.func)
            if name in CALLS or (name == "append" and RECORDED.search(of.rpartition(".")[0])):
                values += node.args
            values += [k.value for k in node.keywords if k.arg in KEYWORDS]
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value and any(_is_reason(ast.unparse(target), node) for target in targets):
                values.append(node.value)
        elif isinstance(node, ast.FunctionDef) and FUNCTIONS.match(node.name):
            returned = (n.value for n in ast.walk(node) if isinstance(n, ast.Return))
            values += [value for value in returned if value]
        for value in values:
            texts = (part.value for part in ast.walk(value) if isinstance(part, ast.Constant))
            for text in texts:
                if isinstance(text, str) and text not in docstrings and len(text.split()) >= 3:
                    yield text.strip(" .;:")


def _is_reason(target: str, node: ast.AST) -> bool:
    if NAMES.match(target):
        return True
    # sentences in constants of the module
    return bool(CONSTANT.match(target)) and ": Final" in ast.unparse(node)


def test_every_reason_of_the_page_has_an_example_or_circumstances() -> None:
    """An example is SQL or Python that a test runs. Circumstances are described in words."""
    page = (DOCS / "not-pruned.md").read_text("utf-8")
    symptoms, *tables = re.findall(r"^\| (.*) \|\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert symptoms[0] == "you see | read"
    assert [head for head, _ in tables if head.split(" | ")[1] != "example"] == []
    rows = [row for _, table in tables for row in table.splitlines()]
    assert len(rows) > 70
    assert [row for row in rows if not re.fullmatch(r"(\| [^|]+ ){3}\|", row)] == []


def test_every_reason_is_on_the_page_that_explains_them() -> None:
    page = in_session(" ".join((DOCS / "not-pruned.md").read_text("utf-8").split())) or ""
    modules = [path for path in WITH_REASONS if path.name not in WITHOUT_REASONS]
    found = {r for path in modules for r in reasons_in(path.read_text("utf-8"))}
    assert len(found) > 60
    shown = {in_session(" ".join(reason.split())) or "" for reason in found}
    assert sorted(reason for reason in shown if reason not in page) == []
