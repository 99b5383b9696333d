"""The examples in README.md and ``docs/`` run, on a small TPC-DS data set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import splitlib
from tests.documents.examples import (
    NEEDS_DATA_SOURCES,
    RUN_OVER_CONNECT,
    RUN_WITH_SPARK,
    TABLES,
    blocks,
    run,
)
from tests.documents.unpruned import every, of_page

pytestmark = pytest.mark.spark
SET_BY_EXAMPLES = ("filterMaxValues", "plannerDimensionBytes")


@pytest.fixture(scope="module")
def tpcds(spark):
    """Create the tables of the examples."""
    for statement in TABLES:
        spark.sql(statement)


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
    assert len(of_page()) >= 35
    spark.sql("DROP TABLE IF EXISTS tpcds.inventory")
    run("docs/not-pruned.md", {"spark": spark})
    missing = {}
    for reason, query in of_page():
        report = str(splitlib.explain(splitlib.sql(spark, query)))
        if not re.search(".*".join(map(re.escape, reason.split("…"))), report):
            missing[reason] = report
    assert missing == {}


@pytest.mark.newest_spark
def test_every_unpruned_query_says_why_and_what_to_do(spark, tpcds):
    """Each query has a reason of its own, and the reason is followed by what to do."""
    spark.sql("DROP TABLE IF EXISTS tpcds.inventory")
    run("docs/not-pruned.md", {"spark": spark})
    found = {(one.text, *one.settings): said for one, said in every(spark)}
    assert len(found) >= 40
    assert [query for query, said in found.items() if not said] == []
    assert len({tuple(said) for said in found.values()}) >= 40
    # a cause, and at least one sentence more
    lines = [line for said in found.values() for line in said]
    assert [line for line in lines if not re.search(r"\. [A-Z].*\.$", line)] == []


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
