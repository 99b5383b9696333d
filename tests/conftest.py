"""Settings of all tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import settings

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
