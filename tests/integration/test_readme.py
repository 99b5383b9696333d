"""The examples in README.md and ``docs/`` run, on a small TPC-DS data set."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from tests.documents.examples import RUN_OVER_CONNECT, RUN_WITH_SPARK, blocks, run
from tests.documents.unpruned import TABLES, every, of_page
from tests.support.glue_server import GlueServer, stored

pytestmark = pytest.mark.spark
NEEDS_DATA_SOURCES = "docs/guides/streaming.md"  # Spark 3.5 has no data sources in Python
SET_BY_EXAMPLES = (
    "catalog.lake.connector",
    "catalog.lake.uri",
    "filterMaxValues",
    "plannerDimensionBytes",
)


@pytest.fixture(scope="module")
def tpcds(spark):
    """Create the tables of the examples."""
    for statement in TABLES:
        spark.sql(statement)


@contextmanager
def glue_with_events(root):
    """Run a server of Glue with the table ``db.events``, which has a row for each of five days."""
    with GlueServer().running() as server:
        server.add_table(
            "db",
            "events",
            StorageDescriptor=stored(root.as_uri(), [{"Name": "id", "Type": "bigint"}]),
            PartitionKeys=[{"Name": "day", "Type": "string"}],
            TableType="EXTERNAL_TABLE",
            Parameters={},
        )
        for number in range(1, 6):
            day = f"2026-01-0{number}"
            where = root / f"day={day}"
            where.mkdir(parents=True)
            pq.write_table(pa.table({"id": [number]}), where / "0.parquet")
            server.partitions("db", "events")[day,] = {
                "Values": [day],
                "StorageDescriptor": stored(where.as_uri()),
            }
        yield server


def test_the_examples(spark, metastore, tpcds, tmp_path, capsys):
    """One test for all documents, because starting the metastore takes longer than they do."""
    names = {}
    with glue_with_events(tmp_path / "glue") as glue:
        for page in RUN_WITH_SPARK:
            if page == NEEDS_DATA_SOURCES and not hasattr(spark, "dataSource"):
                continue
            names[page] = {"spark": spark, "directory": str(tmp_path)}
            servers = {
                "thrift://127.0.0.1:9083": metastore.uri,
                'region="eu-central-1"': ", ".join(f"{k}={v!r}" for k, v in glue.options.items()),
            }
            run(page, names[page], servers)
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
    assert len({tuple(said) for said in found.values()}) == len(found)
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
