"""Rule: the files that CONTRIBUTING.md lists for the path of one partition exist.

Each file must have the function that is listed here.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADING = "## One partition, from the catalog to Spark"

READ = {
    "splitlib/spark/read/reader.py": "load",
    "splitlib/spark/read/pruned_rows.py": "pruned_scan",
    "splitlib/enumeration/pipeline.py": "selected_files",
    "splitlib/spark/session_catalog/connector.py": "list_files",
    "splitlib/spark/jvm/pinned_relation.py": "pinned_leaf",
}
SQL = {"splitlib/spark/planner/prune.py": "scan_of_sites", **dict(list(READ.items())[1:])}


def functions_of(file: str) -> set[str]:
    """Return the names of all functions and methods in a file."""
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def problems() -> Iterator[str]:
    """Yield differences between the steps in CONTRIBUTING.md and the code."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    walk = text.partition(HEADING)[2].partition("Other files to know")[0]
    read, sql = walk.split("With `splitlib.sql(")
    for steps, files in ((read, list(READ)), (sql, [next(iter(SQL))])):
        found = [re.search(r"^\d\. `([^`]+)`", line) for line in steps.splitlines()]
        if [step[1] for step in found if step] != files:
            yield f"CONTRIBUTING.md: the steps are not {files}"
    for file, name in {**READ, **SQL}.items():
        if name not in functions_of(file):
            yield f"{file} has no function {name}"
