"""The README and the pages of ``docs/`` are followed, and every reason has an example."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from tests.documents import examples
from tests.documents.examples import TABLES, follow
from tests.documents.unpruned import every, names_of_page, sentences

pytestmark = pytest.mark.spark
METASTORE, CONNECT = examples.OWN_SESSION


def followed(tmp_path: Path, *pages: str) -> None:
    """Follow pages in a new process, whose session has no settings of the tests."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-P", examples.__file__, *pages],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]


def test_the_examples(tmp_path: Path) -> None:
    """One test for all pages, because starting Spark takes longer than most of them."""
    pages = list(examples.SHARE_A_SESSION)
    if int(pyspark.__version__.partition(".")[0]) < 4:
        pages.remove(examples.NEEDS_DATA_SOURCES)
    followed(tmp_path, *pages)


@pytest.mark.newest_spark
def test_the_examples_on_a_metastore(tmp_path: Path) -> None:
    followed(tmp_path, METASTORE)


@pytest.mark.newest_spark
def test_over_connect(over_connect: Callable[..., None]) -> None:
    over_connect(f"from tests.documents.examples import main\nmain({CONNECT!r})")


@pytest.fixture(scope="module")
def tables(spark):
    """Create the tables of the page of reasons."""
    follow(TABLES, {})


@pytest.mark.newest_spark
def test_every_example_of_a_reason_shows_it_and_says_what_to_do(spark, tables):
    """Each example has a reason of its own, and a reason is followed by what to do."""
    found = list(every(names_of_page(spark)))
    assert len(found) >= 60
    assert {one.reason: report for one, report in found if not one.is_in(report)} == {}
    said = {one.example: sentences(report) for one, report in found}
    assert len({tuple(lines) for lines in said.values() if lines}) >= 50
    # a cause, and at least one sentence more
    lines = [line for lines in said.values() for line in lines]
    assert [line for line in lines if not re.search(r"\. [A-Z].*\.$", line)] == []
