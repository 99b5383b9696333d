"""If planning fails, Spark runs the query as it is.

An unexpected error also logs a warning; an expected error does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import splitlib
from splitlib.spark.logical_plan import UnknownPlan
from splitlib.spark.planner import optimize
from tests.integration.planner.tables import (
    FACTS,
    INNER,
    explained,
    planner_tables,
    pruned,
    rows_of,
)
from tests.integration.planner.ways import Way

pytestmark = pytest.mark.spark
NAMED = FACTS


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    with planner_tables(spark):
        yield


def raising(error: Exception) -> Callable[..., object]:
    """Return a function that raises ``error``."""

    def function(*_: object, **__: object) -> object:
        raise error

    return function


@pytest.mark.parametrize("name", ["decide", "dead_scans", "pruned_in_waves", "scan_of_sites"])
def test_bug(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    planner_bugs: list[str],
    way: Way,
    name: str,
) -> None:
    """After an unexpected error, the rows are right, and a warning contains the traceback."""
    monkeypatch.setattr(optimize, name, raising(KeyError("planted")))
    optimized = way.sql(INNER)
    assert rows_of(optimized) == rows_of(spark.sql(INNER))
    assert pruned(optimized) == []
    assert "left to Spark: KeyError: 'planted'. This is a bug of" in str(explained(optimized))
    (warning,) = planner_bugs
    assert "Please report it" in warning
    assert "Traceback" in warning
    assert "KeyError: 'planted'" in warning
    planner_bugs.clear()


@pytest.mark.parametrize(
    "error",
    [
        Py4JError("the JVM"),
        AnalysisException("Spark"),
        splitlib.SourceError("the catalog"),
        UnknownPlan("the plan"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_bug(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, way: Way, error: Exception
) -> None:
    """After an expected error, Spark runs the query, unless it reads a table of a named catalog."""
    monkeypatch.setattr(optimize, "decide", raising(error))
    if way.is_named and isinstance(error, splitlib.SplitlibError):
        with pytest.raises(type(error)):
            way.sql(INNER)
        return
    optimized = way.sql(INNER)
    assert rows_of(optimized) == rows_of(spark.sql(INNER))
    is_known = isinstance(error, splitlib.SplitlibError)
    advice = "Correct the cause" if is_known else "Run the query without splitlib"
    reason = f"left to Spark: {type(error).__name__}: {error}. {advice}"
    assert reason in str(explained(optimized))


def test_what_java_says(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report names a Java exception and its message, even if PySpark has no class for it."""

    def decided(*_: object, **__: object) -> None:
        spark.sparkContext._jvm.java.util.Optional.empty().get()  # type: ignore[union-attr]

    monkeypatch.setattr(optimize, "decide", decided)
    reasons = splitlib.explain(splitlib.sql(spark, INNER)).to_dict()["reasons"]
    (reason,) = reasons
    assert reason.startswith("SourceError: NoSuchElementException: No value present. Run the query")
