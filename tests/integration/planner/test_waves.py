"""The remaining partitions of a pruned table give the keys that prune the next table."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from urllib.parse import urlparse

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from tests.integration.planner.tables import pruned, rows_of

pytestmark = pytest.mark.spark

# ``w_orders`` joins ``w_items`` on ``line``, and ``w_items`` joins ``w_stock`` on ``kind``.
_SETUP = """
CREATE TABLE w_days USING parquet AS SELECT CAST(id AS int) AS id, id DIV 2 AS week FROM range(16);
CREATE TABLE w_orders USING parquet PARTITIONED BY (day) AS
  SELECT CAST(id % 30 AS int) AS line, sha(CAST(id AS string)) AS text,
         CAST(id % 30 DIV 2 AS int) AS day FROM range(3000);
CREATE TABLE w_items USING parquet PARTITIONED BY (line) AS
  SELECT CAST(id % 10 AS int) AS kind, sha(CAST(id AS string)) AS text,
         CAST(id % 30 AS int) AS line FROM range(3000);
CREATE TABLE w_stock USING parquet PARTITIONED BY (kind) AS
  SELECT id AS amount, CAST(id % 7 AS int) AS line, CAST(id % 10 AS int) AS kind FROM range(100)
"""
_TABLES = ("w_days", "w_orders", "w_items", "w_stock")
ORDERS = "w_orders o JOIN w_days d ON o.day = d.id"
ITEMS = f"{ORDERS} JOIN w_items i ON i.line = o.line"
STOCK = f"{ITEMS} JOIN w_stock s ON s.kind = i.kind"


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    for statement in _SETUP.split(";"):
        spark.sql(statement)
    for table in _TABLES[1:]:
        spark.sql(f"ANALYZE TABLE {table} COMPUTE STATISTICS")
    limits = {
        # The planner may read up to 60,000 bytes for keys: a few partitions, not a whole table.
        "spark.splitlib.plannerDimensionBytes": "60000",
        "spark.splitlib.plannerSmallFactPartitions": "5",
    }
    with changed(spark, limits):
        yield
    for table in _TABLES:
        spark.sql(f"DROP TABLE {table}")


def kept(spark: SparkSession, query: str) -> dict[str, int]:
    """Assert that the rows equal Spark's. Return the number of kept partitions by table."""
    planned = splitlib.sql(spark, query)
    assert rows_of(planned) == rows_of(spark.sql(query))
    return dict(pruned(planned))


def test_keys_come_from_what_is_left_of_a_large_table(spark: SparkSession) -> None:
    found = kept(spark, f"SELECT i.kind FROM {ITEMS} WHERE d.week = 3")
    assert found == {"w_orders": 2, "w_items": 4}


def test_one_table_after_the_other(spark: SparkSession) -> None:
    found = kept(spark, f"SELECT s.amount FROM {STOCK} WHERE d.week = 3")
    assert found == {"w_orders": 2, "w_items": 4, "w_stock": 4}


def test_a_large_table_of_which_nothing_is_known_gives_no_keys(spark: SparkSession) -> None:
    query = "SELECT s.amount FROM w_items i JOIN w_stock s ON s.kind = i.kind WHERE i.text = 'y'"
    assert kept(spark, query) == {}


def test_keys_of_which_only_some_are_partition_values(spark: SparkSession) -> None:
    """The partitions that are left of one child of a union are not all values of the union."""
    days = f"SELECT o.day AS k FROM {ORDERS} WHERE d.week = 3"
    lines = "SELECT CAST(id % 30 AS int) AS k FROM range(10000) WHERE id % 3 = 1"
    for union in (f"{days} UNION ALL {lines}", f"{lines} UNION {days}"):
        query = f"SELECT u.k, count(*) FROM ({union}) u JOIN w_items i ON i.line = u.k GROUP BY u.k"
        assert "w_items" not in kept(spark, query)


def test_no_partition_is_read_for_keys_that_does_not_matter(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE w_gone USING parquet PARTITIONED BY (day) AS SELECT * FROM w_orders")
    try:
        location = spark.sql("DESC EXTENDED w_gone").where("col_name = 'Location'").first()
        assert location is not None
        for file in Path(urlparse(location.data_type).path).glob("day=1*/*.parquet"):
            file.write_bytes(b"whoever reads this fails")
        # With this limit, the planner could also read the whole table.
        with changed(spark, {"spark.splitlib.plannerDimensionBytes": "1000000"}):
            query = f"SELECT i.kind FROM {ITEMS} WHERE d.week = 3".replace("w_orders", "w_gone")
            planned = splitlib.sql(spark, query)
            assert dict(pruned(planned)) == {"w_gone": 2, "w_items": 4}
            # Each of the two days has 200 orders, and each order has the 100 items of its line.
            assert planned.count() == 2 * 200 * 100
    finally:
        spark.sql("DROP TABLE w_gone")


def test_tables_that_wait_for_each_other(spark: SparkSession) -> None:
    query = """SELECT i.kind FROM w_items i JOIN w_stock s ON s.kind = i.kind AND s.line = i.line
        JOIN w_days d ON d.id = i.line JOIN w_days e ON e.id = s.kind
        WHERE d.week < 3 AND e.week < 2"""
    with changed(spark, {"spark.splitlib.plannerDimensionBytes": "1000000"}):
        found = kept(spark, query)
    assert found["w_items"] <= 6
    assert found["w_stock"] <= 4


_EDGES = ("i.line = o.line", "s.kind = i.kind", "s.line = o.line", "o.day = d.id", "s.kind = d.id")
_COLUMN = {"d": "id", "o": "line", "i": "kind", "s": "amount"}
_CONDITIONS = {"d": "d.week IN (2, 3)", "i": "i.text < '4'", "o": "o.day < 5", "s": "s.amount > 9"}
_KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


def _is_between(edge: str, name: str, others: Collection[str]) -> bool:
    one, other = (side[0] for side in edge.split(" = "))
    return (one == name and other in others) or (other == name and one in others)


@pytest.mark.newest_spark
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_rows_of_random_joins(spark: SparkSession, data: st.DataObject) -> None:
    names = data.draw(st.permutations(["w_days d", "w_orders o", "w_items i", "w_stock s"]))
    source, shown = names[0], [names[0][-1]]
    for name in names[1:]:
        near = [edge for edge in _EDGES if _is_between(edge, name[-1], shown)]
        if not near:
            continue
        on = data.draw(st.lists(st.sampled_from(near), min_size=1, max_size=2, unique=True))
        kind = data.draw(st.sampled_from(_KINDS[:1] * 5 + _KINDS))
        source += f" {kind} {name} ON {' AND '.join(on)}"
        shown += [] if kind in _KINDS[4:] else [name[-1]]
    where = data.draw(st.sets(st.sampled_from(shown), min_size=1, max_size=2))
    limit = data.draw(st.sampled_from(["60000", "1000000"]))
    query = f"""SELECT {", ".join(f"count({name}.{_COLUMN[name]})" for name in shown)}, count(*)
        FROM {source} WHERE {" AND ".join(_CONDITIONS[name] for name in sorted(where))}"""
    with changed(spark, {"spark.splitlib.plannerDimensionBytes": limit}):
        planned = splitlib.sql(spark, query)
        assert rows_of(planned) == rows_of(spark.sql(query))
