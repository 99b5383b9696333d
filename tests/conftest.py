"""Settings of all tests, and fixtures for the metastore and the Spark session that tests share."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from splitlib.spark.compat import all_settings
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.testing import HiveMetastore
from tests.core_set import select_core
from tests.spark_session import small_session

# Disable Hypothesis's time limit per example, because slow examples are no bug on a slow machine.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
# The core set tries fewer examples, except in tests that set a number of their own. Tests that need
# more examples than others multiply ``settings().max_examples``.
settings.register_profile("core", settings.get_profile("no-deadline"), max_examples=30)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--core`` to pytest."""
    parser.addoption(
        "--core",
        action="store_true",
        help="only the tests of tests/core.txt, and those that need no Java",
    )


def pytest_configure(config: pytest.Config) -> None:
    """With ``--core``, load Hypothesis's profile for the core set."""
    if config.getoption("core"):
        settings.load_profile("core")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--core``, deselect tests that are not in the core set."""
    if config.getoption("core"):
        items[:], others = select_core(items)
        config.hook.pytest_deselected(items=others)


_SHARED: Final = pytest.StashKey[tuple[SparkSession, dict[str, str]]]()


@pytest.fixture(autouse=True)
def planner_bugs() -> Iterator[list[str]]:
    """Yield the warnings that the planner logs, and fail the test if any are left at its end.

    After a bug, the planner logs a warning and leaves the query to Spark. Its rows are still right,
    so other assertions do not notice the bug. A test that plants a bug removes its warning from the
    list.
    """
    found: list[str] = []

    class Bugs(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            # These warnings are about wrong settings, not about bugs.
            if not record.getMessage().startswith("The query is left to Spark: "):
                found.append(self.format(record))

    handler = Bugs(logging.WARNING)
    logger = logging.getLogger("splitlib.spark.planner")
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)
    assert not found, "\n".join(found)


@pytest.fixture(autouse=True)
def log_level_as_found() -> Iterator[None]:
    """Restore the level of splitlib's logger, which examples of the documentation change."""
    logger = logging.getLogger("splitlib")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    """Run a metastore for all tests of the process. Each test creates its own tables."""
    with HiveMetastore(tmp_path_factory.mktemp("metastore")) as running:
        yield running


@pytest.fixture(scope="session")
def spark(
    pytestconfig: pytest.Config, metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """Run a session on the metastore for all tests of the process.

    A test module must restore every setting of the session that it changes.
    """
    with small_session(metastore, tmp_path_factory.mktemp("spark")) as session:
        # If an internal is missing, no query is pruned, and the failures of tests do not name it.
        assert internals_unavailable(session) is None
        defaults = {row.key: row.value for row in session.sql("SET -v").collect()}
        pytestconfig.stash[_SHARED] = session, defaults | _state_of(session)
        yield session


@pytest.fixture(scope="module", autouse=True)
def shared_session_as_found(pytestconfig: pytest.Config) -> Iterator[None]:
    """Check that a test module leaves no settings, views or cached tables in the shared session.

    They could change the results of later modules. For example, a temporary view hides a table of
    the same name. Which modules share a process is not fixed.
    """
    yield
    if _SHARED in pytestconfig.stash:
        session, before = pytestconfig.stash[_SHARED]
        state = _state_of(session)
        left = {what: value for what, value in state.items() if before.get(what) != value}
        before |= state  # so that the next module does not fail for the same reason
        assert not left


def _state_of(session: SparkSession) -> dict[str, str]:
    """Return the settings of a session, its current database, its views, and whether it caches."""
    java: Any = session._jsparkSession
    return all_settings(session) | {
        "database": session.catalog.currentDatabase(),
        "temporary views": java.sessionState().catalog().listLocalTempViews("*").mkString(","),
        "nothing is cached": str(java.sharedState().cacheManager().isEmpty()),
    }
