"""Settings of all tests; one metastore and one Spark session for those of a process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore
from tests.core_set import select_core
from tests.spark_session import small_session

# Machines differ in speed, and shared ones from minute to minute: time proves nothing here.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--core``."""
    parser.addoption(
        "--core",
        action="store_true",
        help="only the tests of tests/core.txt, and those that need no Java",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that are not in the core set, if that is wanted."""
    if config.getoption("core"):
        items[:], others = select_core(items)
        config.hook.pytest_deselected(items=others)


_SHARED: Final = pytest.StashKey[tuple[SparkSession, dict[str, str]]]()


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
    pytestconfig: pytest.Config, metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A session on that metastore, which every module leaves as it found it."""
    with small_session(metastore, tmp_path_factory.mktemp("spark")) as session:
        defaults = {row.key: row.value for row in session.sql("SET -v").collect()}
        pytestconfig.stash[_SHARED] = session, defaults | _state_of(session)
        yield session


@pytest.fixture(scope="module", autouse=True)
def shared_session_as_found(pytestconfig: pytest.Config) -> Iterator[None]:
    """Nothing that a module leaves in the shared session changes what another one sees.

    A view, say, shadows a table of its name, and which modules share a process is chance.
    """
    yield
    if _SHARED in pytestconfig.stash:
        session, before = pytestconfig.stash[_SHARED]
        state = _state_of(session)
        left = {what: value for what, value in state.items() if before.get(what) != value}
        before |= state  # of which the next module is not guilty
        assert not left


def _state_of(session: SparkSession) -> dict[str, str]:
    """Settings that are set, and what else there is one of in a session."""
    java: Any = session._jsparkSession
    return session.conf.getAll | {
        "database": session.catalog.currentDatabase(),
        "temporary views": java.sessionState().catalog().listLocalTempViews("*").mkString(","),
        "nothing is cached": str(java.sharedState().cacheManager().isEmpty()),
    }
