"""The queries in ``tests/unit/planner/shapes`` return the same rows with splitlib as in Spark.

splitlib runs each query on the session's catalog and on a named catalog. By default, a third of
the queries run. With the environment variable ``SHAPES=1``, all of them run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from benchmarks.tpcds.settings import changed
from splitlib.testing import HiveMetastore
from tests.integration.planner.shape_tables import DATABASE, FACTS, shape_tables
from tests.integration.planner.tables import rows_of
from tests.integration.planner.ways import Way, settings
from tests.unit.planner.shapes import Shape, shapes

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

EVERY = 1 if os.environ.get("SHAPES") else 3
SHAPES = list(shapes())
FILES = sorted({shape.name.partition(":")[0] for shape in SHAPES})
_BY_CHANCE = re.compile(r"\brand\(|TABLESAMPLE", re.IGNORECASE)


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, metastore: HiveMetastore) -> Iterator[None]:
    """Create the tables of the queries, and configure the named catalog."""
    with changed(spark, settings(metastore.uri)), shape_tables(spark):
        yield


def rows_of_shape(spark: SparkSession, shape: Shape) -> tuple[int, str]:
    """Return the number of rows in plain Spark, and a text about the first difference, if any."""
    try:
        expected = rows_of(spark.sql(shape.sql))
    # Plain Spark fails on invalid numeric text. A pruned query may not read it, so skip the query.
    except PySparkException:
        return 0, ""
    for is_named in (False, True):
        way = Way(spark, FACTS, is_named, DATABASE)
        where = f"{shape.name}: {way.text(shape.sql)}:"
        try:
            found = rows_of(way.sql(shape.sql))
        except Exception as error:  # The test reports every error with its query.
            return len(expected), f"{where} {type(error).__name__}: {error}"
        if found != expected and not _BY_CHANCE.search(shape.sql):
            return len(expected), f"{where} {found} instead of {expected}"
    return len(expected), ""


@pytest.mark.parametrize("file", FILES)
def test_rows_of_shapes(spark: SparkSession, file: str) -> None:
    """Several queries run at a time, because planning mostly waits for the JVM."""
    chosen = [s for s in SHAPES[::EVERY] if s.name.startswith(f"{file}:")]
    with ThreadPoolExecutor(4) as executor:
        found = list(executor.map(lambda s: rows_of_shape(spark, s), chosen))
    wrong = [what for _, what in found if what]
    assert not wrong, "\n\n".join(wrong)
    empty = [shape.name for shape, (n, _) in zip(chosen, found, strict=True) if not n]
    assert len(empty) <= len(chosen) // 2, empty
