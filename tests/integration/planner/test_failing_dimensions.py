"""A dimension or a key that raises an error costs only its own filter.

In ANSI mode, a cast may fail for a row for which the query never evaluates it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from tests.integration.planner.tables import (
    FACTS,
    explained,
    planner_tables,
    pruned,
    rows_of,
)
from tests.integration.planner.ways import Way

pytestmark = pytest.mark.spark
NAMED = FACTS
# The days 3, 8, 13 and 18.
_OTHER = "JOIN p_days e ON f.day = e.id AND e.week = 3"


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    with planner_tables(spark), changed(spark, {"spark.sql.ansi.enabled": "true"}):
        spark.sql("""CREATE TABLE p_odd USING parquet AS
            SELECT id, text FROM VALUES (3, '3'), (100, 'x') AS odd(id, text)""")
        rdd = spark.sparkContext.parallelize([(3, "3"), (100, "x")])
        spark.createDataFrame(rdd, "id int, text string").createOrReplaceTempView("p_rdd")
        yield
        spark.sql("DROP TABLE p_odd")
        spark.catalog.dropTempView("p_rdd")


def test_a_row_without_a_match_in_the_query(spark: SparkSession, way: Way) -> None:
    """Spark casts only the text of a row with a match. The keys of the table need all casts."""
    query = f"""SELECT f.v FROM p_sales f JOIN p_odd o ON f.day = o.id
        JOIN p_weeks w ON CAST(o.text AS int) < w.no AND w.week > 1 {_OTHER}"""
    optimized = way.sql(query)
    assert rows_of(optimized) == rows_of(spark.sql(query)) != []
    assert explained(optimized).reasons == ()
    assert pruned(optimized) == [("p_sales", 4)]
    assert "the keys cannot be collected: CAST_INVALID_INPUT" in str(explained(optimized))


_ODD = "p_sales f JOIN p_odd o ON f.day = o.id AND o.id > 0"
_NONE = "(SELECT * FROM p_days WHERE name = 'no')"
_BY_TEXT = "d.id = CAST(o.text AS int)"
EMPTY = {
    "inner": f"SELECT f.v FROM {_ODD} JOIN {_NONE} d ON {_BY_TEXT}",
    "left": f"SELECT f.v, d.name FROM {_ODD} LEFT JOIN {_NONE} d ON {_BY_TEXT}",
    "right": f"SELECT f.v, d.name FROM {_NONE} d RIGHT JOIN ({_ODD}) ON {_BY_TEXT}",
    "semi": f"SELECT f.v FROM {_ODD} LEFT SEMI JOIN {_NONE} d ON {_BY_TEXT}",
    "anti": f"SELECT f.v FROM {_ODD} LEFT ANTI JOIN {_NONE} d ON {_BY_TEXT}",
    "scalar": f"SELECT f.v, (SELECT max(name) FROM {_NONE} d WHERE {_BY_TEXT}) AS name FROM {_ODD}",
    "unused": """SELECT f.v FROM p_sales f JOIN (SELECT id, CAST(text AS int) FROM p_odd) o
        ON f.day = o.id AND o.id > 0 JOIN p_weeks w ON w.week = f.s""",
    "limit": f"SELECT f.v, CAST(o.text AS int) FROM {_ODD} LIMIT 0",
}


@pytest.mark.parametrize("query", EMPTY.values(), ids=EMPTY)
def test_rows_in_the_plan_beside_an_empty_dimension(
    spark: SparkSession, way: Way, query: str
) -> None:
    """Spark's optimizer computes no expression that plain Spark does not compute."""
    expected = spark.sql(query)
    if "LEFT JOIN" in query or "RIGHT JOIN" in query:
        assert len(rows_of(expected)) > 0
    optimized = way.sql(query)
    assert explained(optimized).reasons == ()
    assert rows_of(optimized) == rows_of(expected)


LATER = {
    "table": "SELECT f.v, o.text FROM p_sales f JOIN p_odd o ON f.day = o.id",
    "RDD": "SELECT f.v, o.text FROM p_sales f JOIN p_rdd o ON f.day = o.id",
    "limit": """SELECT f.v, o.text FROM p_sales f
        JOIN (SELECT * FROM p_odd LIMIT 5) o ON f.day = o.id""",
}


@pytest.mark.parametrize("query", LATER.values(), ids=LATER)
@pytest.mark.parametrize("again", [False, True], ids=["by Spark", "planned again"])
def test_a_further_query_on_rows_in_the_plan(
    spark: SparkSession, query: str, *, again: bool
) -> None:
    """Spark's optimizer computes no expressions on the rows of a planned query."""
    numbers = spark.sql("SELECT 0 AS n FROM p_weeks")

    def further(df: DataFrame) -> DataFrame:
        return df.join(numbers, F.col("n") == F.col("text").cast("int")).where("n = 2")

    assert rows_of(further(spark.sql(query))) == []
    planned = splitlib.sql(spark, query)
    assert pruned(planned) != []
    found = further(planned)
    assert rows_of(splitlib.optimize(found) if again else found) == []


DIMENSIONS = {
    "key": "SELECT CAST(text AS int) AS id FROM p_odd WHERE id > 0",
    "filter": "SELECT id FROM p_odd WHERE CAST(text AS int) > 0",
    "subquery": "SELECT id FROM p_days WHERE week <= (SELECT max(CAST(text AS int)) FROM p_odd)",
    "filter in a subquery": "SELECT id FROM p_days WHERE week IN"
    " (SELECT id FROM p_odd WHERE CAST(text AS int) > 0)",
    "scalar subquery": "SELECT id FROM p_days WHERE week = 1 AND"
    " week <= (SELECT max(id) FROM p_odd WHERE CAST(text AS int) > 0)",
    "other rows each time": "SELECT id FROM p_odd WHERE CAST(text AS int) > 0 LIMIT 1",
}


@pytest.mark.parametrize("dimension", DIMENSIONS.values(), ids=DIMENSIONS)
def test_a_dimension_that_fails(way: Way, dimension: str) -> None:
    """The query is planned with the other dimension. It does not run: Spark may fail as well."""
    optimized = way.sql(f"SELECT f.v FROM p_sales f JOIN ({dimension}) o ON f.day = o.id {_OTHER}")
    assert explained(optimized).reasons == ()
    assert pruned(optimized) == [("p_sales", 4)]


def test_last_rows_that_cannot_be_found(way: Way) -> None:
    """The filter of a table fails while the planner looks for the greatest value."""
    optimized = way.sql(f"""SELECT f.v, r.last FROM p_sales f {_OTHER} CROSS JOIN
        (SELECT max(day) AS last FROM p_returns WHERE CAST(concat('x', v) AS int) > 0) r""")
    assert explained(optimized).reasons == ()
    assert pruned(optimized) == [("p_sales", 4)]
