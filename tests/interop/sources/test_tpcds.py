"""TPC-DS queries over Delta tables, Iceberg tables, a database and files return the right rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import pytest
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.answers import difference
from benchmarks.tpcds.data import Data, prepare
from benchmarks.tpcds.queries import Query, load_queries
from benchmarks.tpcds.settings import changed
from benchmarks.tpcds.tables import FACTS
from tests.interop.sources.conftest import FORMATS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ONE_OF: Final = int(os.environ.get("TPCDS_ONE_OF", "7"))
"""Divisor of the number of queries: with 1, all 99 queries run, and with 10 every tenth."""
NUMBERS: Final = range(1, 100, ONE_OF)
SCALE, ONE_WEEK_OF = 0.05, 16
# Each format has a partitioned fact table, an unpartitioned fact table and dimensions.
DELTA: Final = {"store_sales", "web_sales", "customer_demographics", "item", "promotion", "store"}
ICEBERG: Final = {"catalog_sales", "inventory", "date_dim", "customer_address", "warehouse"}
DATABASE: Final = {"web_returns", "household_demographics", "time_dim", "call_center"}
PARTITIONED: Final = {"store_sales", "catalog_sales"}
URL, DRIVER = "jdbc:derby:memory:tpcds;create=true", "org.apache.derby.jdbc.EmbeddedDriver"
SETTINGS: Final = {
    # Generated code for these long queries takes longer to compile than to interpret.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # The small test tables have few partitions. By default, the planner would not prune them.
    "spark.splitlib.plannerSmallFactPartitions": "0",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """Write the TPC-DS tables as Parquet files, and return them."""
    return prepare(tmp_path_factory.mktemp("tpcds"), SCALE, ONE_WEEK_OF)


@pytest.fixture(scope="module")
def duckdb(data: Data) -> Iterator[DuckDBPyConnection]:
    """Yield a DuckDB connection that computes the expected rows."""
    with data.duckdb() as connection:
        yield connection


@pytest.fixture(scope="module")
def queries(duckdb: DuckDBPyConnection) -> Mapping[int, Query]:
    """Return all TPC-DS queries by number."""
    return load_queries(duckdb)


@pytest.fixture(scope="module")
def session(spark: SparkSession, data: Data) -> Iterator[SparkSession]:
    """Create each table in its format, and a view of it. Yield the session."""
    for name, table in data.tables.items():
        columns = ", ".join(f"{column} {kind}" for column, kind in table.columns.items())
        rows = spark.read.schema(columns).parquet(str(data.directory / name))
        if name in DATABASE:
            # By default, Spark writes strings as CLOB. Derby cannot compare CLOB values.
            texts = [f"{column} VARCHAR(200)" for column, kind in rows.dtypes if kind == "string"]
            types = {"createTableColumnTypes": ", ".join(texts)} if texts else {}
            rows.write.options(**types).jdbc(URL, name, "overwrite", {"driver": DRIVER})
            rows = spark.read.jdbc(URL, name, properties={"driver": DRIVER})
        elif name in DELTA | ICEBERG:
            format_ = "delta" if name in DELTA else "iceberg"
            table_name = f"{FORMATS[format_]}.{name}"
            if name in PARTITIONED:
                rows = rows.repartition(2, FACTS[name]).sortWithinPartitions(FACTS[name])
                by = f"PARTITIONED BY ({FACTS[name]})"
            else:
                rows, by = rows.orderBy(FACTS.get(name, rows.columns[0])), ""
            rows.createOrReplaceTempView("rows_of_table")
            spark.sql(f"CREATE TABLE {table_name} USING {format_} {by} AS TABLE rows_of_table")
            spark.catalog.dropTempView("rows_of_table")
            rows = spark.table(table_name)
        rows.createOrReplaceTempView(name)
    with changed(spark, SETTINGS):
        yield spark
    for name in data.tables:
        spark.catalog.dropTempView(name)


@pytest.fixture(scope="module")
def reached() -> Counter[str]:
    """Return a counter of the scans that were pruned or received a condition, by table."""
    return Counter()


@pytest.mark.parametrize("number", NUMBERS)
def test_rows_are_those_of_duckdb(
    session: SparkSession,
    duckdb: DuckDBPyConnection,
    queries: Mapping[int, Query],
    reached: Counter[str],
    number: int,
) -> None:
    """Each query returns the same rows as DuckDB, in the same order."""
    expected = duckdb.execute(queries[number].duckdb).fetchall()
    planned = splitlib.sql(session, queries[number].spark)
    assert difference(planned.collect(), expected) == ""
    report = splitlib.explain(planned)
    assert [reason for reason in report.reasons if "Error" in reason] == []
    reached.update(scan.table.rpartition(".")[2] for scan in report.scans if scan.is_pruned)


def test_tables_of_every_kind_were_reached(reached: Counter[str]) -> None:
    """Every kind of table was pruned. Otherwise equal rows would prove nothing for that kind."""
    assert reached.keys() & DELTA
    assert reached.keys() & ICEBERG
    assert any(table.startswith("JDBCRelation(") for table in reached)
