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

import splitlib
from tests.documents import examples
from tests.documents.examples import TABLES, follow
from tests.documents.unpruned import every, of_page

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
    follow("docs/not-pruned.md", {"spark": spark})


@pytest.mark.newest_spark
def test_every_reason_has_an_example_that_shows_it(spark, tables):
    assert len(of_page()) >= 35
    missing = {}
    for reason, query in of_page():
        report = str(splitlib.explain(splitlib.sql(spark, query)))
        if not re.search(".*".join(map(re.escape, reason.split("…"))), report):
            missing[reason] = report
    assert missing == {}


@pytest.mark.newest_spark
def test_every_unpruned_query_says_why_and_what_to_do(spark, tables):
    """Each query has a reason of its own, and the reason is followed by what to do."""
    found = {(one.text, *one.settings): said for one, said in every(spark)}
    assert len(found) >= 40
    assert [query for query, said in found.items() if not said] == []
    assert len({tuple(said) for said in found.values()}) >= 40
    # a cause, and at least one sentence more
    lines = [line for said in found.values() for line in said]
    assert [line for line in lines if not re.search(r"\. [A-Z].*\.$", line)] == []
