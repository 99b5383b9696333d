"""One pruned query runs code in only a limited number of splitlib's source files."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.support.trace import trace_queries

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

# Maximum number of source files. These limits are a little higher than the numbers in
# CONTRIBUTING.md. Lower them when the code gets simpler.
MOST_FILES = {"read": 58, "sql": 79}


def test_few_files_are_entered(spark: SparkSession) -> None:
    traces = trace_queries(spark, "traced_files")
    entered = {way: len(trace.files) for way, trace in traces.items()}
    assert {way: number for way, number in entered.items() if number > MOST_FILES[way]} == {}
    assert min(entered.values()) > 20
