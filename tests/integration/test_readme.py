"""The examples in README.md and ``docs/`` run, on a small TPC-DS data set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

import splitlib
from tests.documents.examples import DOCS, RUN_OVER_CONNECT, RUN_WITH_SPARK, blocks, run

pytestmark = pytest.mark.spark
NEEDS_DATA_SOURCES = "docs/guides/streaming.md"  # Spark 3.5 has no data sources in Python
SET_BY_EXAMPLES = ("filterMaxValues", "plannerDimensionBytes")
PAGE = (DOCS / "not-pruned.md").read_text()
# A reason is a heading above a query, or a cell of a table next to a query.
REASONS = [
    *re.findall(r"^### ([^\n]+)\n\n```sql\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE),
    *re.findall(r"^\| ([^|]+) \| `((?:SELECT|WITH) [^`|]+)` \|", PAGE, re.MULTILINE),
]


@pytest.fixture(scope="module")
def tpcds(spark):
    """Create the tables of the examples."""
    spark.sql("CREATE DATABASE tpcds")
    spark.sql(
        "CREATE TABLE tpcds.store_sales (ss_store_sk INT, ss_quantity INT) "
        "PARTITIONED BY (ss_sold_date_sk INT) STORED AS PARQUET"
    )
    spark.sql("INSERT INTO tpcds.store_sales SELECT id % 3, id, 2451540 + id % 20 FROM range(100)")
    spark.sql(
        "CREATE TABLE tpcds.date_dim USING parquet AS "
        "SELECT CAST(2451540 + id AS INT) AS d_date_sk, 2000 AS d_year, "
        "CAST(id / 7 AS INT) AS d_week_seq, "
        "if(id % 5 = 0, 'Y', 'N') AS d_following_holiday FROM range(40)"
    )


def test_the_examples(spark, metastore, tpcds, tmp_path, capsys):
    """One test for all documents, because starting the metastore takes longer than they do."""
    names = {}
    for page in RUN_WITH_SPARK:
        if page == NEEDS_DATA_SOURCES and not hasattr(spark, "dataSource"):
            continue
        names[page] = {"spark": spark, "directory": str(tmp_path)}
        run(page, names[page], {"thrift://127.0.0.1:9083": metastore.uri})
        for key in SET_BY_EXAMPLES:
            spark.conf.unset(f"spark.splitlib.{key}")
    readme, commands = names["README.md"], names["docs/guides/commands.md"]
    assert "partitions 4 of 20" in str(splitlib.explain(readme["weekly"]))
    assert {row.ss_sold_date_sk for row in readme["sales"].collect()} == {
        2451540, 2451545, 2451550, 2451555,
    }  # fmt: skip
    assert commands["wanted"].is_exact
    assert commands["target"] == commands["wanted"].sql.replace("`ss_sold", "`t`.`ss_sold")
    assert "partitions 7 of 50" in str(splitlib.explain(names["docs/start.md"]["clicks"]))


@pytest.mark.newest_spark
def test_every_reason_has_an_example_that_shows_it(spark, tpcds):
    assert len(REASONS) >= 35
    spark.sql("DROP TABLE IF EXISTS tpcds.inventory")
    run("docs/not-pruned.md", {"spark": spark})
    missing = {}
    for reason, query in REASONS:
        try:
            report = str(splitlib.explain(splitlib.sql(spark, query)))
        except AnalysisException as error:
            report = str(error)
        if not re.search(".*".join(map(re.escape, reason.split("…"))), report):
            missing[reason] = report
    assert missing == {}


@pytest.mark.newest_spark
def test_over_connect(over_connect, tmp_path: Path):
    (page,) = RUN_OVER_CONNECT
    setup = """
spark.sql('''CREATE TABLE sales USING parquet PARTITIONED BY (day)
    AS SELECT id, CAST(id % 10 AS INT) AS day FROM range(100)''')
spark.sql('''CREATE TABLE dates USING parquet
    AS SELECT CAST(id AS INT) AS day, id < 2 AS is_holiday FROM range(10)''')
"""
    over_connect(setup + "\n".join(blocks(page)))
