"""The guide's connector passes the kit unchanged, and the names in the guide exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import splitlib_conformance
from splitlib import spi
from splitlib_conformance import Harness

GUIDE = (Path(__file__).parents[2] / "docs" / "connectors.md").read_text("utf-8")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider")
# Skip slow property tests and the many cases of string keys. Other connectors run them.
CHOSEN = "not no_match_is_lost and not string"


def test_the_connector_of_the_guide_passes(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) == 2
    (tmp_path / "test_ledger.py").write_text("\n".join(blocks))
    run = subprocess.run(
        [*PYTEST, "test_ledger.py", "-k", CHOSEN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr


def test_authors_import_from_public_modules() -> None:
    """All that a connector needs is in ``splitlib.spi``."""
    templates = (Path(spi.__file__).parent / "cli" / "templates").glob("*.py.txt")
    texts = [GUIDE, str(splitlib_conformance.__doc__), *(p.read_text("utf-8") for p in templates)]
    assert len(texts) == 5
    names = re.findall(r"^ *(?:from|import) (splitlib[\w.]*)", "\n".join(texts), re.MULTILINE)
    assert set(names) == {"splitlib", "splitlib.spi", "splitlib_conformance", "splitlib_"}


def test_all_abilities_are_in_the_guide() -> None:
    abilities = {name for name in spi.__all__ if name.startswith("Supports")}
    assert set(re.findall(r"^\| `(Supports\w+)`", GUIDE, re.MULTILINE)) == abilities


def test_all_that_a_harness_may_do_is_in_the_guide() -> None:
    every = {name for name in vars(Harness) if not name.startswith("_")}
    table = GUIDE.partition("| method |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)(?:\([^)]*\))?`", table)) & every
    assert named == every - set(Harness.__abstractmethods__)
