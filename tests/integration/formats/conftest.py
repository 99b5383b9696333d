from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore
from tests.integration.formats.hive_reader import Hive


@pytest.fixture(scope="module")
def hive(spark: SparkSession, metastore: HiveMetastore) -> Iterator[Hive]:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    yield Hive(spark, metastore.warehouse)
    spark.conf.unset("spark.sql.session.timeZone")
