"""Check what would be published: ``python -m tests.release dist [REQUIREMENT…]``.

Each distribution is installed into an empty environment, outside of the checkout. There each page
with examples is followed as a new user would follow it, in a process and a directory of its own:
with the source distribution the page that needs no Spark, with the wheel all pages. Requirements
such as ``pyspark==3.5.9`` choose the versions of the packages that a platform brings.

Not followed are the few blocks of ``py``. Other tests run them, or the same calls: ``DeltaTable``
needs Delta's jars, Glue and S3 a server, and Azure, Google, TLS, Kerberos and HTTP more than that.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.documents import examples
from tests.documents.examples import ROOT

_START = "docs/start.md"
# Spark 3.5 has no data sources in Python, and its PySpark no server of Spark Connect.
_NEED_SPARK_4 = (examples.NEEDS_DATA_SOURCES, "docs/guides/connect.md")


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
    """Follow the first page with the extra that it installs, then all pages with all extras."""
    python = _installed(place, f"{wheel}[spark]", *requirements)
    _follow(python, place, _START)
    others = (
        f"{wheel}[conformance,delta,duckdb,hive,iceberg,polars]",
        "deltalake",
        "pyspark[connect]",
    )
    _run(place, python, "-m", "pip", "install", "--quiet", *others, *requirements)
    is_old = any(one.startswith("pyspark==3") for one in requirements)
    every = (*examples.SHARE_A_SESSION, *examples.OWN_SESSION, *examples.WITHOUT_SPARK)
    pages = [page for page in every if not (is_old and page in _NEED_SPARK_4)]
    for page in pages:
        if page != _START:
            _follow(python, place, page)
    tests = place / "test_connector.py"
    tests.write_text("\n".join(examples.blocks(examples.TESTED_BY_PYTEST)), "utf-8")
    _run(place, python, "-m", "pytest", "--quiet", tests.name)
    print(f"the wheel and {len(pages)} pages of the documentation, without an error")


def without_spark(sdist: Path, place: Path) -> None:
    python = _installed(place, str(sdist))
    _follow(python, place, "docs/guides/without-spark.md")
    assert _run(place, python.with_name("splitlib"), "--version").split()[-1] == _version()


def _follow(python: Path, place: Path, page: str) -> None:
    """Follow a page in an empty directory."""
    directory = place / Path(page).stem
    directory.mkdir()
    print(_run(directory, python, "-P", examples.__file__, page), end="")


def _installed(place: Path, *what: str) -> Path:
    place.mkdir()
    _run(place, Path(sys.executable), "-m", "venv", "env")
    python = place / "env" / "bin" / "python"
    _run(place, python, "-m", "pip", "install", "--quiet", *what)
    _run(place, python, "-m", "pip", "check")
    return python


def _version() -> str:
    text = (ROOT / "splitlib" / "_version.py").read_text("utf-8")
    found = re.search(r'"(.+)"', text)
    assert found is not None
    return found[1]


def _run(place: Path, program: Path, *arguments: str) -> str:
    """Run a program in a directory outside of the checkout, and return its output."""
    print("+", program.name, *(a if "\n" not in a else "…" for a in arguments), flush=True)
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [str(program), *arguments]
    done = subprocess.run(
        command, cwd=place, env=env, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"failed with {done.returncode}: {shlex.join(command)}\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
