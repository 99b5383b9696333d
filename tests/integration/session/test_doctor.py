"""``splitlib.doctor`` in a classic session with real catalogs."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import splitlib

pytestmark = pytest.mark.spark


def test_a_session(spark: SparkSession) -> None:
    name = "spark.sql.catalog.doctor_test"
    spark.conf.set(name, "example.NoSuchCatalog")
    try:
        diagnosis = splitlib.doctor(spark)
    finally:
        spark.conf.unset(name)
    found = {finding.check: finding for finding in diagnosis.findings}
    assert found["session"].text == f"The session runs Spark {spark.version}."
    assert "pinned to the matching files" in found["path"].text
    assert found["catalog session"].status == "good"
    broken = found["catalog doctor_test"]
    assert broken.status == "problem"
    assert "example.NoSuchCatalog" in broken.text
    assert "An error occurred" not in broken.text
