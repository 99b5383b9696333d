"""Follow pages of the documentation: ``python tests/documents/examples.py PAGE…``.

Each page is followed from top to bottom, as a reader would follow it:

- A block of ``python`` is run. A page whose examples use the database ``tpcds`` is followed after
  the page that makes it.
- In a block of ``console``, each command of splitlib is run, and its output compared if the block
  shows one. Other commands install packages or need a checkout.
- A block of ``text`` below a block of Python is compared with the last lines that this block
  printed or logged. Times and sizes may differ.

Blocks of ``py`` need a server that the page cannot start. They are not run here.

The program is also run in empty environments, so it imports the standard library only.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
TABLES: Final = "docs/guides/tables.md"
"""Page that makes the tables ``tpcds.…`` of the other pages."""
SHARE_A_SESSION: Final = (
    "docs/start.md",  # makes its tables in the directory of a new session
    "README.md",
    "docs/clusters.md",
    "docs/guides/audit.md",
    "docs/guides/commands.md",
    "docs/guides/data-columns.md",
    "docs/guides/directories.md",
    "docs/guides/from-in.md",
    "docs/guides/iceberg.md",
    "docs/guides/monitoring.md",
    "docs/guides/queries.md",
    "docs/guides/reader.md",
    "docs/guides/streaming.md",
    "docs/guides/thresholds.md",
    "docs/not-pruned.md",
)
"""Pages with examples on Spark that can run one after the other in one session."""
NEEDS_DATA_SOURCES: Final = "docs/guides/streaming.md"
"""Page with examples of the data source in Python, which Spark 3.5 does not have."""
OWN_SESSION: Final = ("docs/guides/catalogs.md", "docs/guides/connect.md")
"""Pages that make a session with settings of its own: a metastore, Spark Connect."""
WITHOUT_SPARK: Final = ("docs/guides/delta.md", "docs/guides/without-spark.md", "docs/rows.md")
"""Pages with examples that need no Spark."""
TESTED_BY_PYTEST: Final = "docs/connectors.md"
"""Page whose blocks of Python are one file of tests."""

_FENCED: Final = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_MEASURE: Final = re.compile(r"\d[\d.,]* (?:m?s|[KMG]?i?B)\b")


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str


def fenced(document: str) -> list[Block]:
    """Return all fenced blocks of a page, in their order."""
    return [Block(*found) for found in _FENCED.findall((ROOT / document).read_text("utf-8"))]


def blocks(document: str, language: str = "python") -> list[str]:
    """Return the fenced blocks of a language."""
    return [block.text for block in fenced(document) if block.language == language]


def uses_tables(document: str) -> bool:
    """Return whether the examples of a page use the tables of :data:`TABLES`."""
    return document != TABLES and any("tpcds." in text for text in blocks(document))


def follow(document: str, names: dict[str, Any]) -> None:
    """Follow a page, in the current directory.

    Args:
        document: Path of the page in the repository.
        names: Namespace of the blocks of Python.
    """
    printed, shown = io.StringIO(), ""
    for number, block in enumerate(fenced(document), 1):
        where = f"{document}, block {number}"
        if block.language == "python":
            start = printed.tell()
            with redirect_stdout(printed), redirect_stderr(printed):
                exec(compile(block.text, where, "exec"), names)
            shown = printed.getvalue()[start:]
        elif block.language == "text":
            expected = _without_measures(block.text)
            found = _without_measures(shown)[-len(expected) :]
            assert found == expected, f"{where} is not what was printed:\n{shown}"
        elif block.language == "console":
            for command, lines in _commands(block.text):
                output = _run(command)
                if lines:
                    assert output.splitlines() == lines, f"{where}: {command}\n{output}"


def _without_measures(text: str) -> list[str]:
    return [_MEASURE.sub("…", line.rstrip()) for line in text.splitlines() if line.strip()]


def _commands(console: str) -> list[tuple[list[str], list[str]]]:
    """Return the arguments of each command of splitlib, and the lines of output below it."""
    parts = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)
    return [
        (shlex.split(command), output.splitlines())
        for command, output in parts
        if command.startswith("splitlib ")
    ]


def _run(command: list[str]) -> str:
    program, *arguments = command
    print("  $", shlex.join(command), flush=True)
    installed = Path(sys.executable).with_name(program)
    done = subprocess.run(
        [installed, *arguments], stdout=subprocess.PIPE, encoding="utf-8", check=False
    )
    assert done.returncode == 0, f"{command} exits with {done.returncode}:\n{done.stdout}"
    return done.stdout


def main(*documents: str) -> None:
    # Spark then writes the same files on each machine, and small tables take less time.
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--master local[2] --conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false "
        "--conf spark.sql.shuffle.partitions=2 pyspark-shell"
    )
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    tables: dict[str, Any] = {}
    for document in documents:
        print(document, flush=True)
        if uses_tables(document) and not tables:
            follow(TABLES, tables)
        follow(document, dict(tables) if uses_tables(document) else {})


if __name__ == "__main__":
    main(*sys.argv[1:])
