"""All TPC-DS queries return the same rows with ``splitlib.sql`` as in DuckDB."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

import splitlib
from benchmarks.tpcds.answers import difference
from benchmarks.tpcds.catalog import create_tables
from benchmarks.tpcds.chart import draw
from benchmarks.tpcds.data import prepare
from benchmarks.tpcds.explained import is_pruned
from benchmarks.tpcds.left_alone import count_left_alone
from benchmarks.tpcds.modes import BASELINE, MODES, SHIPPED, SPLITLIB, TUNED
from benchmarks.tpcds.overhead import measure_overhead
from benchmarks.tpcds.pruning import PruningBenchmark
from benchmarks.tpcds.queries import load_queries
from benchmarks.tpcds.results import Results
from benchmarks.tpcds.settings import changed
from splitlib.report import Count, Report

pytestmark = pytest.mark.spark

SCALE, ONE_WEEK_OF = 0.05, 4
NUMBERS = range(1, 100)
SETTINGS = {
    # Few tasks save time. Scheduling more tasks would take longer than the queries.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # Spark interprets the queries, because compiling such long queries takes longer.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# On so little data, the queries with these numbers return no rows or only nulls.
WITHOUT_ROWS = frozenset(
    {4, 6, 8, 10, 11, 13, 17, 23, 24, 25, 29, 31, 32, 37, 39, 41, 44, 49, 54, 64, 65}
    | {73, 74, 82, 83, 84, 85, 90, 91, 92, 93}
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("tpcds"), SCALE, ONE_WEEK_OF)


@pytest.fixture(scope="module")
def duckdb(data):
    with data.duckdb() as connection:
        yield connection


@pytest.fixture(scope="module")
def queries(duckdb):
    return load_queries(duckdb)


@pytest.fixture(scope="module")
def tpcds(spark, metastore, data):
    create_tables(spark, metastore, data, "tpcds_99")
    before = spark.catalog.currentDatabase()
    spark.catalog.setCurrentDatabase("tpcds_99")
    with changed(spark, SETTINGS):
        yield spark
    spark.catalog.setCurrentDatabase(before)


def test_there_are_99(queries):
    assert sorted(queries) == list(NUMBERS)


@pytest.mark.newest_spark
@pytest.mark.parametrize("number", NUMBERS)
def test_rows_are_those_of_duckdb(tpcds, duckdb, queries, number):
    expected = duckdb.execute(queries[number].duckdb).fetchall()
    found = any(value is not None for row in expected for value in row)
    assert found == (number not in WITHOUT_ROWS)
    planned = splitlib.sql(tpcds, queries[number].spark)
    assert difference(planned.collect(), expected) == ""
    # If splitlib could not parse the plan, the report would contain an error as a reason.
    assert not any("Error" in reason for reason in splitlib.explain(planned).reasons)


@pytest.mark.newest_spark
@pytest.mark.parametrize("number", [3, 7, 19, 42, 52, 55, 98])
def test_stars_of_few_days_are_pruned(tpcds, queries, number):
    report = splitlib.explain(splitlib.sql(tpcds, queries[number].spark))
    assert is_pruned(report), str(report)


@pytest.fixture(scope="module")
def results(tpcds, data, queries):
    partitions = len(data.tables["store_sales"].keys)
    benchmark = PruningBenchmark(tpcds, list(data.tables))
    runs = [benchmark.run(queries[7], rounds=1)]
    joins = count_left_alone(tpcds, partitions)
    return Results(SCALE, 1, {}, runs, joins, measure_overhead(tpcds))


def test_the_benchmark_counts_what_each_mode_does(results, data):
    [query] = results.queries
    stored = len(data.tables["store_sales"].keys)
    by_mode = {mode.name: query.costs(mode, warm=False)[0] for mode in MODES}
    # With empty caches, Spark fetches and lists all partitions except the null partition.
    for mode in (BASELINE, SHIPPED, TUNED):
        assert by_mode[mode.name].partitions_fetched >= stored - 1
        assert by_mode[mode.name].files_discovered >= stored - 1
    ours = by_mode[SPLITLIB.name]
    assert 0 < ours.partitions_fetched + ours.files_discovered < stored
    assert 0 < ours.bytes_read < by_mode[BASELINE.name].bytes_read
    assert is_pruned(query.report)


def test_joins_read_the_partitions_of_their_days(results, data):
    """Each join makes two requests to the metastore, and lists each partition that it reads."""
    keys = [int(key) for key in data.tables["store_sales"].keys if key]
    january, july = range(2451545, 2451576), range(2451727, 2451758)
    wanted = {
        "a local dimension (pruned by Spark 4)": january[:3],
        "two intervals with half a year between them": {*january, *july},
        "the latest day (one more is looked at for the plan)": [max(keys)],
    }
    for join in results.joins:
        days = sum(key in wanted.get(join.title, january) for key in keys)
        assert 0 < days < join.partitions / 10
        found = (join.read_by_splitlib, join.listings, join.metastore_requests)
        assert found == (days, days, 2), join
        assert join.rows > 0, join
        if "(pruned by Spark)" in join.title:
            assert join.read_by_spark == days, join
        elif "(pruned by Spark 4)" not in join.title:
            # Spark skips only the null partition. If a query reads the table twice, all partitions
            # count twice.
            assert join.read_by_spark >= join.partitions - 1, join


def test_results_are_written(results, tmp_path):
    document = json.loads(json.dumps(results.to_dict()))
    cold, warm = len(MODES), sum(not mode.once for mode in MODES)
    assert [len(query["runs"]) for query in document["queries"]] == [cold + warm]
    assert len(document["targets"]) == 6
    assert all(join.title in results.markdown() for join in results.joins)
    draw(results.queries, tmp_path / "tpcds.svg")
    assert "<svg" in (tmp_path / "tpcds.svg").read_text()


def test_scans_that_are_not_read_are_written(results):
    [query] = results.queries
    report = Report(scans=(*query.report.scans, Report("unread", partitions=Count(0))))
    with_another = replace(results, queries=[replace(query, report=report)])
    assert ", not read |" in with_another.markdown()


ROWS = [(1, "a", Decimal("2.50"), date(2000, 1, 1)), (2, None, None, None)]


def test_equal_rows_may_differ_in_the_type_of_a_number():
    assert difference([(1, "a", 2.5, date(2000, 1, 1)), (2, None, None, None)], ROWS) == ""


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(ROWS[:1], id="a lost row"),
        pytest.param([*ROWS, ROWS[0]], id="a row twice"),
        pytest.param(ROWS[::-1], id="another order"),
        pytest.param([(1, "b", *ROWS[0][2:]), ROWS[1]], id="another text"),
        pytest.param([(1, "a", 2.51, ROWS[0][3]), ROWS[1]], id="another number"),
        pytest.param([ROWS[0], (2, None, 0, None)], id="a number for null"),
        pytest.param([ROWS[0], (2, None, None)], id="a column less"),
    ],
)
def test_other_rows_are_noticed(wrong):
    assert difference(wrong, ROWS)
