"""Rows that splitlib computes once are kept in the driver, not in executors."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import splitlib
from splitlib.spark.dimension import kept_rows
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import analyzed_plan

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("rows", [0, 100])
@pytest.mark.parametrize("is_opaque", [False, True])
def test_nothing_is_left_with_the_executors(
    spark: SparkSession, rows: int, *, is_opaque: bool
) -> None:
    before = {info.id() for info in spark.sparkContext._jsc.sc().getRDDStorageInfo()}
    given = spark.range(rows).repartition(2, "id").withColumn("r", F.rand())
    kept = kept_rows(given, is_opaque=is_opaque)
    after = {info.id() for info in spark.sparkContext._jsc.sc().getRDDStorageInfo()}
    assert after <= before
    assert sorted(kept.collect()) == sorted(kept.collect())
    assert kept.schema == given.schema
    assert kept.groupBy("id").count().where("count > 1").count() == 0
    assert kept.groupBy("id").count().count() == rows
    plan = analyzed_plan(kept)
    catalyst = Catalyst(spark)
    assert catalyst.plans.kind(plan) == ("LogicalRDD" if is_opaque else "LocalRelation")
    assert catalyst.plans.size_of(plan) < 1_000_000
    assert [c.exprId() for c in catalyst.plans.output(plan)] == [
        c.exprId() for c in catalyst.plans.output(analyzed_plan(given))
    ]


def test_a_frozen_dataframe_joins_with_what_it_was_made_of(spark: SparkSession) -> None:
    given = spark.range(5)
    frozen = splitlib.freeze(given)
    assert given.join(frozen, "id").count() == 5
