"""Ctrl-C cancels the Spark jobs that splitlib starts, even without Spark's signal handler."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession

import splitlib

pytestmark = pytest.mark.spark

JOBS: Final[dict[str, Callable[[DataFrame], object]]] = {
    "freeze": splitlib.freeze,
    "condition": lambda df: splitlib.condition(df, on="id"),
}
_POLL_SECONDS: Final = 0.01


@pytest.fixture(autouse=True)
def signals_of_a_notebook() -> Iterator[None]:
    """Install the signal handler that notebooks have: Ctrl-C only raises KeyboardInterrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("name", JOBS)
def test_ctrl_c_ends_the_job(spark: SparkSession, name: str) -> None:
    endless = spark.range(0, 10**15, 1, 1).where("id % 7 = 8")
    running = spark.sparkContext.statusTracker().getActiveJobsIds
    ended = threading.Event()

    def interrupt() -> None:
        while not running():
            if ended.wait(_POLL_SECONDS):
                return
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    waiting = threading.Thread(target=interrupt)
    waiting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            JOBS[name](endless)
    finally:
        ended.set()
        waiting.join()
    assert list(running()) == []
    assert spark.range(3).count() == 3  # This thread's JVM connection still works.
