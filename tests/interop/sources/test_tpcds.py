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
"""Run one of this many queries; 1 runs all 99."""
NUMBERS: Final = range(1, 100, ONE_OF)
SCALE, ONE_WEEK_OF = 0.05, 16
# Delta and Iceberg each have a partitioned fact, an unpartitioned fact and dimensions.
DELTA: Final = {"store_sales", "web_sales", "customer_demographics", "item", "promotion", "store"}
ICEBERG: Final = {"catalog_sales", "inventory", "date_dim", "customer_address", "warehouse"}
DATABASE: Final = {"web_returns", "household_demographics", "time_dim", "call_center"}
PARTITIONED: Final = {"store_sales", "catalog_sales"}
URL, DRIVER = "jdbc:derby:memory:tpcds;create=true", "org.apache.derby.jdbc.EmbeddedDriver"
SETTINGS: Final = {
    # Compiling such long queries takes longer than interpreting them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Facts with few partitions are pruned too.
    "spark.splitlib.plannerSmallFactPartitions": "0",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """The TPC-DS tables as files."""
    return prepare(tmp_path_factory.mktemp("tpcds"), SCALE, ONE_WEEK_OF)


@pytest.fixture(scope="module")
def duckdb(data: Data) -> Iterator[DuckDBPyConnection]:
    """A DuckDB connection that computes the expected rows."""
    with data.duckdb() as connection:
        yield connection


@pytest.fixture(scope="module")
def queries(duckdb: DuckDBPyConnection) -> Mapping[int, Query]:
    """All queries by number."""
    return load_queries(duckdb)


@pytest.fixture(scope="module")
def session(spark: SparkSession, data: Data) -> Iterator[SparkSession]:
    """Create each table in its format, and a view of it. Yield the session."""
    for name, table in data.tables.items():
        columns = ", ".join(f"{column} {kind}" for column, kind in table.columns.items())
        rows = spark.read.schema(columns).parquet(str(data.directory / name))
        if name in DATABASE:
            # Spark would write text as CLOB, which Derby cannot compare.
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
    """How often each table was pruned or received a condition."""
    return Counter()


@pytest.mark.parametrize("number", NUMBERS)
def test_rows_are_those_of_duckdb(
    session: SparkSession,
    duckdb: DuckDBPyConnection,
    queries: Mapping[int, Query],
    reached: Counter[str],
    number: int,
) -> None:
    """The rows must also have the same order."""
    expected = duckdb.execute(queries[number].duckdb).fetchall()
    planned = splitlib.sql(session, queries[number].spark)
    assert difference(planned.collect(), expected) == ""
    report = splitlib.explain(planned)
    assert [reason for reason in report.reasons if "Error" in reason] == []
    reached.update(scan.table.rpartition(".")[2] for scan in report.scans if scan.is_pruned)


def test_tables_of_every_kind_were_reached(reached: Counter[str]) -> None:
    """If a kind of table were not reached, equal rows would prove nothing for it."""
    assert reached.keys() & DELTA
    assert reached.keys() & ICEBERG
    assert any(table.startswith("JDBCRelation(") for table in reached)
