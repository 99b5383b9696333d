"""splitlib reads long texts from the JVM in several parts, and joins these without loss."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from splitlib.spark.jvm.scala import scala_of

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

# Without a partner, a UTF-16 surrogate is not a character, so the texts do not contain any.
TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=8)


@given(TEXTS, st.sampled_from([1, 400, 3000, 200_000]))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_whole(spark: SparkSession, texts: list[str], times: int) -> None:
    scala = scala_of(spark)
    repeated = [text * times for text in texts if len(text) * times < 3_000_000]
    assert scala.text(scala.seq(repeated), "|") == "|".join(repeated)


def test_characters_of_two_code_units_at_every_offset(spark: SparkSession) -> None:
    scala = scala_of(spark)
    for ahead in range(3):
        text = "x" * ahead + "𝄞é\\\n" * 9_000
        assert scala.text(scala.seq([text])) == text
