"""Check what would be published: ``python -m tests.release dist [REQUIREMENT…]``.

Each distribution is installed into an empty environment, outside of the checkout. There the
examples of ``docs/start.md`` run as a new user would run them: the wheel with Spark, and the source
distribution without it, on the command line. Then the examples of all guides run, with the wheel.
Requirements such as ``pyspark==3.5.9`` choose the versions of the packages that a platform brings.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.documents.examples import (
    NEEDS_DATA_SOURCES,
    ROOT,
    RUN_WITH_SPARK,
    RUN_WITHOUT_SPARK,
    TABLES,
    blocks,
)

_TOUR = ROOT / "docs" / "start.md"
# A directory with partitions, for commands on the source distribution, which has no Spark.
_TABLE = """
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
for day in range(1, 4):
    at = Path(f"spark-warehouse/clicks/day=2026-01-0{day}")
    at.mkdir(parents=True)
    pq.write_table(pa.table({"user_id": [day]}), at / "part.parquet")
"""
# Runs the examples of each page in a session of its own. Only the metastore's address is replaced.
_GUIDES = """
import json, os, sys, tempfile
from pyspark.sql import SparkSession
from splitlib.testing import HiveMetastore
pages, statements = json.loads(sys.stdin.read())
with HiveMetastore() as metastore:
    builder = SparkSession.builder.master("local[2]").enableHiveSupport()
    builder = builder.config("spark.hadoop.hive.metastore.uris", metastore.uri)
    spark = builder.config("spark.sql.shuffle.partitions", 4).getOrCreate()
    for statement in statements:
        spark.sql(statement)
    for page, examples in pages.items():
        directory = tempfile.mkdtemp()
        os.chdir(directory)
        names = {"spark": spark.newSession(), "directory": directory}
        for number, text in enumerate(examples, 1):
            text = text.replace("thrift://127.0.0.1:9083", metastore.uri)
            exec(compile(text, f"{page}, example {number}", "exec"), names)
        print(page, number, "examples", file=sys.stderr)
    spark.stop()
"""


def main(directory: Path, *requirements: str) -> None:
    (wheel,), (sdist,) = directory.glob("*.whl"), directory.glob("*.tar.gz")
    links_of_readme_are_absolute()
    with tempfile.TemporaryDirectory() as place:
        without_spark(sdist.resolve(), Path(place) / "sdist")
        with_spark(wheel.resolve(), Path(place) / "wheel", *requirements)


def links_of_readme_are_absolute() -> None:
    """PyPI shows the README without the repository, so relative links lead nowhere there."""
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    relative = [link for link in links if not link.startswith("https://")]
    assert links, "the README has no links"
    assert not relative, f"relative links in the README: {relative}"


def with_spark(wheel: Path, place: Path, *requirements: str) -> None:
    """Run the Python examples of the page, and then its commands, on the tables that it makes.

    After that, install the extras that the guides name, and run the examples of the guides.
    """
    python = _installed(place, f"{wheel}[spark]", *requirements)
    _run(place, python, "-c", "\n".join(blocks("docs/start.md")))
    _commands(python, place)
    extras = f"{wheel}[hive,polars,duckdb]"
    _run(place, python, "-m", "pip", "install", "--quiet", extras, *requirements)
    pages = dict.fromkeys((*RUN_WITH_SPARK, *RUN_WITHOUT_SPARK))
    if any(one.startswith("pyspark==3") for one in requirements):
        del pages[NEEDS_DATA_SOURCES]
    guides = {page: blocks(page) for page in pages}
    _run(place, python, "-c", _GUIDES, given=json.dumps([guides, TABLES]))


def without_spark(sdist: Path, place: Path) -> None:
    """Run the commands of the page on a directory."""
    python = _installed(place, str(sdist))
    _run(place, python, "-c", _TABLE)
    _commands(python, place)


def _installed(place: Path, *what: str) -> Path:
    place.mkdir()
    _run(place, Path(sys.executable), "-m", "venv", "env")
    python = place / "env" / "bin" / "python"
    _run(place, python, "-m", "pip", "install", "--quiet", *what)
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


def _run(place: Path, program: Path, *arguments: str, given: str | None = None) -> str:
    """Run a program outside of the checkout, and return its output."""
    print("+", program.name, *(a if "\n" not in a else "…" for a in arguments), flush=True)
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env |= {"PYSPARK_PYTHON": str(place / "env" / "bin" / "python")}
    command = [str(program), *arguments]
    done = subprocess.run(
        command, cwd=place, env=env, input=given, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"failed with {done.returncode}: {shlex.join(command)}\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
