"""Settings of all tests; one metastore and one Spark session for those of a process."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore
from tests.spark_session import small_session

# Machines differ in speed, and shared ones from minute to minute: time proves nothing here.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


@pytest.fixture(autouse=True)
def planner_bugs() -> Iterator[list[str]]:
    """What the planner has logged as bugs while it left queries to Spark.

    Their rows are right, so that only this fails the test; one that plants a bug takes it out.
    """
    found: list[str] = []

    class Bugs(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(self.format(record))

    handler = Bugs(logging.WARNING)
    logger = logging.getLogger("splitlib.spark.planner.optimize")
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)
    assert not found, "\n".join(found)


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    """A metastore that all tests of the process share; each makes tables of its own."""
    with HiveMetastore(tmp_path_factory.mktemp("metastore")) as running:
        yield running


@pytest.fixture(scope="session")
def spark(
    metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A session on that metastore; settings that a test changes, it changes back."""
    with small_session(metastore, tmp_path_factory.mktemp("spark")) as session:
        yield session
