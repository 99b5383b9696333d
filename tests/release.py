"""Check what would be published: ``python -m tests.release dist``.

Each distribution is installed into an empty environment, outside of the checkout. There the
examples of ``docs/start.md`` run as a new user would run them: the wheel with Spark, and the source
distribution without it, on the command line. With the wheel, the guides that need nothing but a
session run, too.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.documents.examples import ROOT, blocks

_TOUR = ROOT / "docs" / "start.md"
_GUIDES = (
    "docs/guides/queries.md",
    "docs/guides/reader.md",
    "docs/guides/from-in.md",
    "docs/guides/data-columns.md",
    "docs/guides/commands.md",
    "docs/guides/directories.md",
    "docs/guides/thresholds.md",
    "docs/guides/audit.md",
    "docs/not-pruned.md",
)
# The tables of the guides. The session has no support for Hive.
_TABLES_OF_GUIDES = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.sql("CREATE DATABASE tpcds")
sales = spark.sql(
    "SELECT CAST(id % 3 AS INT) AS ss_store_sk, CAST(id AS INT) AS ss_quantity, "
    "CAST(2451540 + id % 20 AS INT) AS ss_sold_date_sk FROM range(100)"
)
sales.write.partitionBy("ss_sold_date_sk").saveAsTable("tpcds.store_sales")
dates = spark.sql(
    "SELECT CAST(2451540 + id AS INT) AS d_date_sk, 2000 AS d_year, "
    "CAST(id / 7 AS INT) AS d_week_seq, "
    "if(id % 5 = 0, 'Y', 'N') AS d_following_holiday FROM range(40)"
)
dates.write.saveAsTable("tpcds.date_dim")
for page, examples in {pages!r}.items():
    print(page, flush=True)
    names = {{"spark": spark, "directory": {directory!r}}}
    for example in examples:
        exec(compile(example, page, "exec"), names)
    spark.conf.unset("spark.splitlib.filterMaxValues")
"""
# A directory with partitions, for commands on the source distribution, which has no Spark.
_TABLE = """
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
for day in range(1, 4):
    at = Path(f"spark-warehouse/clicks/day=2026-01-0{day}")
    at.mkdir(parents=True)
    pq.write_table(pa.table({"user_id": [day]}), at / "part.parquet")
"""


def main(directory: Path) -> None:
    (wheel,), (sdist,) = directory.glob("*.whl"), directory.glob("*.tar.gz")
    links_of_readme_are_absolute()
    with tempfile.TemporaryDirectory() as place:
        without_spark(sdist.resolve(), Path(place) / "sdist")
        with_spark(wheel.resolve(), Path(place) / "wheel")


def links_of_readme_are_absolute() -> None:
    """PyPI shows the README without the repository, so relative links lead nowhere there."""
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    relative = [link for link in links if not link.startswith("https://")]
    assert links, "the README has no links"
    assert not relative, f"relative links in the README: {relative}"


def with_spark(wheel: Path, place: Path) -> None:
    """Run the Python examples of the page, and then its commands, on the tables that it makes."""
    python = _installed(f"{wheel}[spark]", place)
    _run(place, python, "-c", "\n".join(blocks("docs/start.md")))
    _commands(python, place)
    (place / "guides").mkdir()
    _run(place / "guides", python, "-c", guides(place / "guides"), env=place)


def guides(place: Path) -> str:
    """Return a program that runs the examples of the guides, page by page."""
    pages = {page: blocks(page) for page in _GUIDES}
    return _TABLES_OF_GUIDES.format(pages=pages, directory=str(place / "data"))


def without_spark(sdist: Path, place: Path) -> None:
    """Run the commands of the page on a directory."""
    python = _installed(str(sdist), place)
    _run(place, python, "-c", _TABLE)
    _commands(python, place)


def _installed(what: str, place: Path) -> Path:
    place.mkdir()
    _run(place, Path(sys.executable), "-m", "venv", "env")
    python = place / "env" / "bin" / "python"
    _run(place, python, "-m", "pip", "install", "--quiet", what)
    _run(place, python, "-m", "pip", "check")
    return python


def _commands(python: Path, place: Path) -> None:
    """Run the commands of the page that have an expected output, and compare it."""
    found = 0
    for block in blocks("docs/start.md", "console"):
        command, *expected = block.splitlines()
        if command.startswith("$ splitlib ") and expected:
            name, *arguments = shlex.split(command.removeprefix("$ "))
            shown = _run(place, python.with_name(name), *arguments)
            assert shown.splitlines() == expected, f"{command}\n{shown}"
            found += 1
    assert found, f"{_TOUR} has no command with an output"
    assert _run(place, python.with_name("splitlib"), "--version").split()[-1] == _version()


def _version() -> str:
    text = (ROOT / "splitlib" / "_version.py").read_text("utf-8")
    found = re.search(r'"(.+)"', text)
    assert found is not None
    return found[1]


def _run(place: Path, program: Path, *arguments: str, env: Path | None = None) -> str:
    """Run a program in a directory outside of the checkout, and return its output.

    Args:
        place: The directory.
        program: The program.
        arguments: Its arguments.
        env: Directory with the environment; by default ``place``.
    """
    print("+", program.name, *(a if "\n" not in a else "…" for a in arguments), flush=True)
    variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    variables |= {"PYSPARK_PYTHON": str((env or place) / "env" / "bin" / "python")}
    command = [str(program), *arguments]
    done = subprocess.run(
        command, cwd=place, env=variables, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"failed with {done.returncode}: {shlex.join(command)}\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
