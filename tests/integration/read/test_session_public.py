"""Tables of the session's own catalog where no internals of Spark's may be used."""

from __future__ import annotations

import pytest

from tests.integration.read.public_session import check

pytestmark = pytest.mark.spark

OVER_CONNECT = """
    from pathlib import Path
    from tests.integration.read.public_session import check

    check(spark, Path(sys.argv[1]))
"""


def test_over_spark_connect(over_connect, tmp_path):
    place = tmp_path / "tables"
    place.mkdir()
    over_connect(OVER_CONNECT, place)


def test_on_a_metastore(spark, tmp_path):
    spark.sql("CREATE DATABASE public_session")
    spark.sql("USE public_session")
    try:
        check(spark, tmp_path)
    finally:
        spark.sql("USE default")
        spark.sql("DROP DATABASE public_session CASCADE")
