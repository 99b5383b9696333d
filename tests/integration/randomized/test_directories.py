"""For random directories written by six writers, splitlib returns the rows and types of Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore
from tests.integration.randomized.directory_runner import DirectoryRunner

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

DIRECTORIES = int(os.environ.get("RANDOM_DIRECTORIES", "16"))
SEED = int(os.environ.get("RANDOM_SEED", "20210304"))
_AT_A_TIME = 4


@pytest.fixture(scope="module")
def runner(spark: SparkSession, metastore: HiveMetastore) -> Iterator[DirectoryRunner]:
    """Return a runner with a temporary directory. At the end, print the number of each result."""
    with DirectoryRunner.in_scratch(spark, metastore) as found:
        yield found
    print("\n".join(f"{n} {name}" for name, n in found.verdicts.most_common()))
    print("\n".join(f"{n} {name}" for name, n in found.reasons.most_common()))


@pytest.mark.parametrize("start", range(0, DIRECTORIES, _AT_A_TIME))
def test_same_rows_and_types(start: int, runner: DirectoryRunner) -> None:
    """Three connectors and ``splitlib.sql`` return the rows and types of plain Spark."""
    compared = [runner.compare(SEED + start + i) for i in range(_AT_A_TIME)]
    different = [
        f"{one.directory}\n{way}: {text}"
        for one in compared
        if one is not None
        for way, text in one.different.items()
    ]
    assert not different, "\n\n".join(different)


def test_most_are_compared(runner: DirectoryRunner) -> None:
    """splitlib reads more directories than it refuses. If not, the other test proves little."""
    if not runner.verdicts:  # This test runs without the other one.
        runner.compare(SEED)
        runner.compare(SEED + 1)
    same = runner.verdicts["files: same"]
    refused = runner.verdicts["files: refused"]
    assert same > refused, runner.reasons
