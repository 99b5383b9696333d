"""Following one partition takes few files, of which `read` and `sql` share most."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADING = "## One partition, from the catalog to Spark"

# What of each file the walk is about.
READ = {
    "splitlib/spark/read/reader.py": "load",
    "splitlib/spark/read/pruned_rows.py": "pruned_scan",
    "splitlib/enumeration/pipeline.py": "selected_files",
    "splitlib/spark/session_catalog/catalog_table.py": "list_files",
    "splitlib/spark/jvm/pinned_relation.py": "pinned_leaf",
}
SQL = {"splitlib/spark/planner/prune.py": "scan_of_sites", **dict(list(READ.items())[1:])}
MOST_FILES = 5


def functions_of(file: str) -> set[str]:
    """The names of all functions and methods in a file."""
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_walk_in_contributing_names_these_files():
    walk = (
        (ROOT / "CONTRIBUTING.md").read_text().partition(HEADING)[2].partition("What is beside")[0]
    )
    read, sql = walk.split("With `splitlib.sql(")
    steps = [re.search(r"^\d\. `([^`]+)`", line) for line in read.splitlines()]
    assert [step[1] for step in steps if step] == list(READ)
    steps = [re.search(r"^\d\. `([^`]+)`", line) for line in sql.splitlines()]
    assert [step[1] for step in steps if step] == [next(iter(SQL))]


def test_few_files_and_nearly_the_same():
    assert len(READ) <= MOST_FILES
    assert len(SQL) <= MOST_FILES
    assert len(READ.keys() ^ SQL.keys()) <= 2


def test_what_they_are_named_for_is_in_them():
    assert {
        file: name for file, name in {**READ, **SQL}.items() if name not in functions_of(file)
    } == {}
