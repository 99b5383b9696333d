"""Count the files that queries read from a table of 1,000 files.

splitlib must read at most as many files as plain Spark, or as Spark with literal keys in the query.
"""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import SparkSession

import splitlib
from splitlib.report import size_text
from tests.interop.sources.conftest import FORMATS
from tests.interop.sources.files_read import files_read

FILES = 1_000


@pytest.fixture(scope="module")
def fact(spark: SparkSession, format_: str) -> str:
    """Create a table with one file per day. The column ``clustered`` grows with the day."""
    name = f"{FORMATS[format_]}.fact"
    rows = spark.range(FILES * 5).selectExpr(
        "CAST(id DIV 5 AS INT) AS day",
        "id * 10 AS clustered",
        "CAST(PMOD(HASH(id), 5000) AS BIGINT) AS anywhere",
        "id AS amount",
    )
    rows.createOrReplaceTempView("rows_of_fact")
    spark.sql(
        f"CREATE TABLE {name} (day INT, clustered BIGINT, anywhere BIGINT, amount BIGINT) "
        f"USING {format_} PARTITIONED BY (day)"
    )
    spark.sql(f"INSERT INTO {name} SELECT /*+ REPARTITION(2, day) */ * FROM rows_of_fact")
    days = "CAST(id AS INT) AS day, id * 50 AS clustered, id * 7 % 5000 AS anywhere, id % 50 AS grp"
    spark.sql(
        f"CREATE TABLE {FORMATS[format_]}.days USING {format_} AS SELECT {days} FROM RANGE(1000)"
    )
    return name


@pytest.mark.parametrize("column", ["day", "clustered", "anywhere"])
def test_a_join(spark: SparkSession, format_: str, fact: str, column: str) -> None:
    days = f"{FORMATS[format_]}.days"
    query = (
        f"SELECT f.amount, d.day FROM {fact} f JOIN {days} d ON f.{column} = d.{column} "
        "WHERE d.grp = 7"
    )
    with files_read(spark, format_, fact) as plain:
        expected = Counter(spark.sql(query).collect())
    keys = [row[0] for row in spark.sql(f"SELECT {column} FROM {days} WHERE grp = 7").collect()]
    pasted = f"{query} AND f.{column} IN ({', '.join(map(str, keys))})"
    with files_read(spark, format_, fact) as by_hand:
        assert Counter(spark.sql(pasted).collect()) == expected
    with files_read(spark, format_, fact) as ours:
        planned = splitlib.sql(spark, query)
        assert Counter(planned.collect()) == expected
    print(f"{format_} {column}: {plain[0]} files, by hand {by_hand[0]}, splitlib {ours[0]}")
    assert "added condition" in str(splitlib.explain(planned))
    (told,) = [scan for scan in splitlib.explain(planned).scans if scan.condition is not None]
    assert told.files == (ours[0], FILES)
    selected = told.nbytes.matched or 0
    assert 0 < selected <= (told.nbytes.total or 0)
    of_files = f"files {ours[0]:,} of 1,000, {size_text(selected)}"
    # ``explain`` reports the same numbers before the query is planned.
    assert of_files in str(splitlib.explain(spark.sql(query)))
    assert ours <= by_hand <= plain
    if column != "anywhere":
        assert ours == [20]
