"""Run the demo query in three ways, without cached listings, and count what each way reads.

DuckDB's TPC-DS extension generates the two tables, in Hive's directory layout.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from splitlib.errors import ConnectorNotInstalled
from splitlib.report import size_text, strip
from splitlib.testing import HiveMetastore

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame, SparkSession

    from splitlib.testing.spark_counts import QueryCounts


FACT, KEY = "store_sales", "ss_sold_date_sk"
DIMENSION, DIMENSION_KEY = "date_dim", "d_date_sk"
CONDITION = "d_year = 2000 AND d_following_holiday = 'Y'"
QUERY = f"SELECT count(*) FROM {FACT} JOIN {DIMENSION} ON {KEY} = {DIMENSION_KEY} WHERE {CONDITION}"
_DATABASE = "tpcds"
_WARM_UP = "warm_up"
_WARM_UP_PARTITIONS = 64  # More than 32, so that Spark lists files in a job in the warm-up, too.
_WARM_UP_CONDITION = "d_year = 1998 AND d_following_holiday = 'Y'"
_DPP = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
_CONF = {
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_CELLS = 60
_NOTES = """\
partitions  details fetched from the metastore; splitlib first lists all names, in one call
listed      directories of both tables
files       files read from the fact table, and their size; a count(*) reads only their footers"""


@dataclass(frozen=True, slots=True)
class DemoData:
    """The generated tables, and the expected result of the query."""

    columns: dict[str, str]
    """Column definitions in Spark SQL, by table name, without the partition key."""
    keys: tuple[str | None, ...]
    """The fact table's partition values, with the null partition last."""
    expected_count: int
    """Number of rows of the join, as counted by DuckDB."""
    expected_keys: frozenset[str]
    """Values of the partitions that contain rows of the join."""


def generate(directory: Path, scale: float) -> DemoData:
    """Write the tables ``store_sales`` (one directory per day) and ``date_dim``, and describe them.

    Args:
        directory: An existing directory. Each table is written to a subdirectory.
        scale: TPC-DS scale factor; 1 is about a gigabyte of text.

    Raises:
        ConnectorNotInstalled: if there is no TPC-DS extension for the installed DuckDB version.
    """
    with open_with_generator(directory / "duckdb") as duckdb:
        duckdb.execute("CALL dsdgen(sf = ?)", [scale])
        # With one thread and sorted rows, DuckDB writes one file per day, the same in every run.
        duckdb.execute("SET threads = 1")
        duckdb.execute(
            f"COPY (FROM {FACT} ORDER BY {KEY}) TO '{_quoted(directory / FACT)}'"
            f" (FORMAT parquet, PARTITION_BY ({KEY}))"
        )
        (directory / DIMENSION).mkdir()
        file = directory / DIMENSION / "data_0.parquet"
        duckdb.execute(f"COPY {DIMENSION} TO '{_quoted(file)}' (FORMAT parquet)")
        keys = _column(duckdb, f"SELECT DISTINCT {KEY} FROM {FACT} ORDER BY 1 NULLS LAST")
        [count] = _column(duckdb, QUERY)
        needed = _column(duckdb, QUERY.replace("count(*)", f"DISTINCT {KEY}"))
        columns = {table: _columns(duckdb, table) for table in (FACT, DIMENSION)}
    return DemoData(
        columns=columns,
        keys=tuple(None if key is None else str(key) for key in keys),
        expected_count=int(str(count)),
        expected_keys=frozenset(str(key) for key in needed),
    )


def open_with_generator(extensions: Path) -> DuckDBPyConnection:
    """Open DuckDB with its TPC-DS extension, which is installed offline from a Python package."""
    import duckdb
    import duckdb_extension_tpcds  # type: ignore[import-untyped]  # no types

    [package, *_] = duckdb_extension_tpcds.__path__
    found = sorted(Path(package).rglob(f"v{duckdb.__version__}/tpcds.duckdb_extension*"))
    if not found:
        raise ConnectorNotInstalled(
            f"duckdb-extension-tpcds has no extension for DuckDB {duckdb.__version__}.",
            hint="pip install 'splitlib[demo]'",
        )
    connection = duckdb.connect(config={"extension_directory": str(extensions)})
    connection.execute(f"INSTALL '{_quoted(found[0])}'")
    connection.execute("LOAD tpcds")
    return connection


def _columns(duckdb: DuckDBPyConnection, table: str) -> str:
    rows: Sequence[tuple[str, str]] = duckdb.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?"
        " AND column_name <> ? ORDER BY column_index",
        [table, KEY],
    ).fetchall()
    return ", ".join(f"{name} {kind.replace('VARCHAR', 'STRING')}" for name, kind in rows)


def _column(duckdb: DuckDBPyConnection, query: str) -> list[object]:
    return [value for (value,) in duckdb.execute(query).fetchall()]


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


class Steps:
    """Prints each step to stderr, and records its duration in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print ``text``, run the ``with`` block, and print the block's duration."""
        print(f"{text} … ", end="", file=sys.stderr, flush=True)
        started = time.perf_counter()
        try:
            yield
        except BaseException:  # End the line before other output follows, even after Ctrl-C.
            print(file=sys.stderr)
            raise
        self.seconds[text] = spent = time.perf_counter() - started
        print(f"{spent:.1f} s", file=sys.stderr)


@contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Redirect stdout and stderr to the file ``path`` within the block.

    Processes that are started in the block, such as Spark's JVM, write to the file until they end.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(fd, os.dup(fd)) for fd in (1, 2)]
    with path.open("ab") as log:
        for fd, _ in kept:
            os.dup2(log.fileno(), fd)
    try:
        yield
    finally:
        for fd, copy in kept:
            os.dup2(copy, fd)
            os.close(copy)


@dataclass(frozen=True, slots=True)
class Run:
    """Measurements of one way to run the query."""

    name: str
    count: int
    """Result of the query."""
    partitions_fetched: int
    """Number of partitions whose details were fetched from the metastore."""
    directories_listed: int
    """Number of directories listed, for both tables. For Spark, this is the number of files found:
    Spark does not count directories, but each directory of the demo has exactly one file."""
    files_read: int
    """Number of files read from the fact table, according to the executed plan."""
    bytes_read: int
    """Total size of the files read, in bytes."""
    seconds: float
    partitions: tuple[str, ...] | None = None
    """Values of the selected partitions; None if Spark selected them itself."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query that joins a fact table with the selected days, and counts the rows."""

    spark: SparkSession
    uri: str
    """URI of the metastore."""
    fact: str
    condition: str

    def dates(self) -> DataFrame:
        """Return a DataFrame of the dimension's rows that match the condition."""
        return self.spark.table(DIMENSION).where(self.condition)

    def joined(self, sales: DataFrame, dates: DataFrame) -> DataFrame:
        """Return a DataFrame with the number of joined rows."""
        from pyspark.sql import functions as F

        return sales.join(dates, sales[KEY] == dates[DIMENSION_KEY]).agg(F.count("*"))

    def measured(self, query: Callable[[], DataFrame], *, dpp: bool) -> QueryCounts:
        """Run a query without cached file listings, and return its counts.

        Args:
            query: Function that builds the DataFrame.
            dpp: Whether Spark's own dynamic partition pruning is on.
        """
        from splitlib.testing.spark_counts import measure

        self.spark.conf.set(_DPP, str(dpp).lower())
        for table in (self.fact, DIMENSION):
            self.spark.catalog.refreshTable(table)
        return measure(self.spark, query)


@contextmanager
def session(
    metastore: HiveMetastore, data: DemoData, directory: Path, steps: Steps
) -> Iterator[SparkSession]:
    """Yield a Spark session that has the generated tables, and a small table for the warm-up."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("splitlib demo")
    with steps.step("starting Spark"), output_to(directory / "spark.log"):
        spark = builder.config(map={**_CONF, **metastore.spark_conf()}).getOrCreate()
    try:
        with steps.step(f"registering {len(data.keys):,} partitions"):
            _register(spark, metastore, data, directory)
        yield spark
    finally:
        spark.stop()


def run_all(spark: SparkSession, uri: str, steps: Steps) -> list[Run]:
    """Run the query with Spark, without and with its own partition pruning, and with splitlib.

    Before the measurement, each of the three ways runs once on a small table. Without this warm-up,
    the first measured run would include the time to load Spark's classes.
    """
    ways: dict[str, Callable[[str, Query], Run]] = {
        "Spark without DPP": partial(_by_spark_alone, dpp=False),
        "Spark with DPP": partial(_by_spark_alone, dpp=True),
        "splitlib": _with_splitlib,
    }
    with steps.step("warming up"):
        for name, way in ways.items():
            way(name, Query(spark, uri, _WARM_UP, _WARM_UP_CONDITION))
    runs = []
    for name, way in ways.items():
        with steps.step(f"running {name}"):
            runs.append(way(name, Query(spark, uri, FACT, CONDITION)))
    return runs


def _by_spark_alone(name: str, query: Query, *, dpp: bool) -> Run:
    counts = query.measured(
        lambda: query.joined(query.spark.table(query.fact), query.dates()), dpp=dpp
    )
    return _run(name, counts)


def _with_splitlib(name: str, query: Query) -> Run:
    import splitlib

    loaded = []

    def join() -> DataFrame:
        dates = query.dates()
        sales = (
            splitlib.read(query.spark)
            .table(f"{_DATABASE}.{query.fact}", connector="hive", uri=query.uri)
            .filtered_by(dates, on={KEY: DIMENSION_KEY})
            .load()
        )
        loaded.append(sales)
        return query.joined(sales, dates)

    counts = query.measured(join, dpp=True)
    [sales] = loaded
    metrics = splitlib.explain(sales).metrics
    days = [re.search(rf"/{KEY}=([^/]+)/", path) for path in sales.inputFiles()]
    # Spark's own counts do not include splitlib's requests, so they are added here.
    return _run(
        name,
        counts,
        more_partitions=metrics.partitions_matched,
        more_directories=metrics.storage_requests,
        partitions=tuple(sorted(day[1] for day in days if day)),
    )


def _run(
    name: str,
    counts: QueryCounts,
    *,
    more_partitions: int = 0,
    more_directories: int = 0,
    partitions: tuple[str, ...] | None = None,
) -> Run:
    [[count]] = counts.result
    return Run(
        name=name,
        count=count,
        partitions_fetched=counts.partitions_fetched + more_partitions,
        directories_listed=counts.files_discovered + more_directories,
        files_read=counts.files_read,
        bytes_read=counts.bytes_read,
        seconds=counts.seconds,
        partitions=partitions,
    )


def _register(
    spark: SparkSession, metastore: HiveMetastore, data: DemoData, directory: Path
) -> None:
    spark.sql(f"CREATE DATABASE {_DATABASE}")
    spark.catalog.setCurrentDatabase(_DATABASE)
    _create(spark, DIMENSION, data.columns[DIMENSION], directory / DIMENSION)
    values = [(key,) for key in data.keys]
    for table, some in ((FACT, values), (_WARM_UP, values[:_WARM_UP_PARTITIONS])):
        _create(spark, table, data.columns[FACT], directory / FACT, f"{KEY} BIGINT")
        metastore.bulk_add_partitions(_DATABASE, table, some)


def _create(
    spark: SparkSession, table: str, columns: str, location: Path, key: str | None = None
) -> None:
    partitioned = f"PARTITIONED BY ({key})" if key else ""
    spark.sql(
        f"CREATE EXTERNAL TABLE {table} ({columns}) {partitioned} STORED AS PARQUET"
        f" LOCATION '{location.as_uri()}'"
    )


def report(data: DemoData, runs: Sequence[Run]) -> str:
    """Return the report as text: a table of the runs, and the partitions that splitlib kept."""
    head = ("", "partitions", "listed", "files", "bytes", "seconds")
    rows = [
        (
            run.name,
            f"{run.partitions_fetched:,}",
            f"{run.directories_listed:,}",
            f"{run.files_read:,}",
            size_text(run.bytes_read),
            f"{run.seconds:.1f}",
        )
        for run in runs
    ]
    lines = ["", QUERY, ""]
    for name, *numbers in (head, *rows):
        lines.append(f"{name:<17}" + "".join(f"{number:>12}" for number in numbers))
    lines += ["", _NOTES]
    for run in runs:
        if run.partitions is not None:
            lines += ["", strip([key in run.partitions for key in data.keys], _CELLS)]
            lines.append(
                f"{run.name} kept {len(run.partitions):,} of {len(data.keys):,} partitions (█)"
            )
    return "\n".join([*lines, "", verdict(data, runs)])


def wrong(data: DemoData, runs: Sequence[Run]) -> list[Run]:
    """Return the runs whose result differs from DuckDB's."""
    return [run for run in runs if run.count != data.expected_count]


def verdict(data: DemoData, runs: Sequence[Run]) -> str:
    """Return a sentence that compares all results with DuckDB's."""
    expected = f"{data.expected_count:,}"
    mismatches = [f"{run.name} counts {run.count:,}" for run in wrong(data, runs)]
    if mismatches:
        return f"WRONG: {', '.join(mismatches)}; DuckDB counts {expected}."
    return f"All count {expected} rows, as DuckDB does."
