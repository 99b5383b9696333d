"""Small programs of SQL steps that run with plain Spark and with splitlib.

The module also compares the results of the two runs.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.errors import ConfigError, UnsupportedTable
from splitlib.report import Report
from splitlib.spark.compat import condition_of
from tests.integration.randomized.star_tables import location

# Error conditions that values cause in ANSI mode. Plain Spark can fail on a row that the query does
# not need. After pruning, this row may not be read, so that the query succeeds.
_OF_VALUES = re.compile(
    r"CAST_INVALID_INPUT|CAST_OVERFLOW|ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE"
    r"|DATETIME_OVERFLOW|INVALID_INDEX|DIVIDE_BY_ZERO"
)
# Errors about a missing column. Spark and splitlib have different messages for it.
_OF_NAMES = re.compile(r"UNRESOLVED_COLUMN|INVALID_EXTRACT_BASE_FIELD_TYPE|has no column")
# Spark 3.5 has no error condition for a missing file.
_UNREADABLE = ("FAILED_READ_FILE", "SparkFileNotFoundException")
# With ``metastorePartitionPruningFastFallback``, Spark fails on a condition if the partition column
# has a type that the metastore lacks, such as TIMESTAMP_NTZ.
_UNKNOWN_TO_HIVE = "Expected only partition pruning predicates"
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]|\b(SparkFileNotFoundException):")
METASTORE_CONDITIONS = "spark.sql.hive.metastorePartitionPruning"
_PARQUET_FILTERS = "spark.sql.parquet.filterPushdown"
_AS_TEXT = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one step of a program: rows or an error."""

    rows: tuple[str, ...] = ()
    error: str = ""
    """Error condition of Spark, or class name of the error; empty if the step succeeded."""
    message: str = ""
    refused: bool = False
    """Whether splitlib refused the table or the settings with an error of its own."""

    def __str__(self) -> str:
        if self.error:
            return f"{self.error}: {self.message[:500]}"
        return f"{len(self.rows)} rows {list(self.rows[:12])}"


class Step(NamedTuple):
    """One step of a program."""

    kind: str
    """``rows``, ``where``, ``view``, ``cache``, ``do``, ``command``, ``write``, ``insert`` or
    ``file``. The kind ``where`` adds a condition to a planned query.
    """
    text: str
    """Query or statement; for the kind ``file``, the name of a table."""
    name: str = ""
    """Name of the view or table to write; for ``where``, the condition; otherwise empty."""


@dataclass(frozen=True)
class Program:
    """Settings, tables and steps of one random program."""

    seed: int
    steps: tuple[Step, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    """Statements that create and fill tables for this program only.

    A CREATE statement must start with ``CREATE TABLE`` and the name of the table.
    """
    how: str = "optimize"
    """Function that plans queries: ``optimize``, ``sql``, or ``twice`` (``optimize`` two times)."""
    ingredients: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def caches(self) -> bool:
        """Whether any step caches the result of a query."""
        return any(step.kind == "cache" for step in self.steps)

    def without_caches(self) -> Program:
        """Return the program with each cache step replaced by a plain query."""
        return replace(
            self,
            steps=tuple(s._replace(kind="rows") if s.kind == "cache" else s for s in self.steps),
        )

    def without_metastore_conditions(self) -> Program:
        """Return the program with settings by which Spark alone selects partitions.

        Otherwise, Spark passes conditions on partition columns to the metastore. Its database may
        ignore trailing blanks, and so loses the partition ``g2`` for ``NOT (c = 'g2 ')``.
        """
        return replace(self, settings={**self.settings, METASTORE_CONDITIONS: "false"})

    def without_parquet_filters(self) -> Program:
        """Return the program with a setting that keeps conditions away from Parquet's reader.

        With such a condition, the reader of Spark 3.5 may drop rows that match. An example is
        ``x IN (double('NaN'), -0.0D)``, for which rows with 0.0 are missing.
        """
        return replace(self, settings={**self.settings, _PARQUET_FILTERS: "false"})

    def __str__(self) -> str:
        """Return settings and statements with which a developer can run the program again."""
        lines = [f"RANDOM_SEED={self.seed} RANDOM_QUERIES=1, by splitlib.{self.how}"]
        lines += [f"SET {key}={value};" for key, value in self.settings.items()]
        lines += [f"{statement};" for statement in self.tables]
        lines += [f"{kind} {name or ''}: {text}" for kind, text, name in self.steps]
        return "\n".join(lines)


Frames = Callable[[str], DataFrame]
"""Function that takes the SQL text of a query and returns its DataFrame."""


@dataclass
class Optimizing:
    """Function object that plans a query with splitlib and keeps the report of the plan."""

    spark: SparkSession
    how: str
    reports: list[Report] = field(default_factory=list)

    def __call__(self, query: str) -> DataFrame:
        if self.how == "sql":
            df = splitlib.sql(self.spark, query)
        else:
            df = splitlib.optimize(self.spark.sql(query))
        self.reports.append(splitlib.explain(df))
        if self.how == "twice":
            df = splitlib.optimize(df)
            self.reports.append(splitlib.explain(df))
        return df

    @property
    def pruned(self) -> bool:
        """Whether splitlib pruned any scan of the planned queries."""
        return any(scan.is_pruned for report in self.reports for scan in report.scans)

    def given_up(self) -> list[str]:
        """Return the reported reasons that are errors of the planner."""
        reasons = [str(reason) for report in self.reports for reason in report.reasons]
        return [r for r in reasons if "Error" in r or "Exception" in r]


def plain(spark: SparkSession, catalogs: Iterable[str]) -> Frames:
    """Return a function that runs queries with plain Spark.

    Spark does not have splitlib's named catalogs, so their names are removed from the query.
    """
    named = re.compile(rf"\b({'|'.join(catalogs)})\.default\.")
    return lambda query: spark.sql(named.sub("", query))


def outcome(work: Callable[[], DataFrame | None]) -> Outcome:
    """Call ``work``. Return the sorted rows of its DataFrame, or the error."""
    try:
        df = work()
        return Outcome(() if df is None else rows_of(df))
    except Exception as error:
        return failed(error)


def rows_of(df: DataFrame) -> tuple[str, ...]:
    """Return the rows of a DataFrame as sorted text.

    Spark formats dates and times, because Python does not support all of their years.
    """
    shown = []
    for name, kind in df.dtypes:
        column = F.col("`" + name.replace("`", "``") + "`")
        shown.append(column.cast("string").alias(name) if kind in _AS_TEXT else column)
    if len(set(df.columns)) == len(df.columns):
        df = df.select(*shown)
    return tuple(sorted(map(str, df.collect())))


def failed(error: Exception) -> Outcome:
    """Return the outcome of a step that raised an error."""
    text = str(error)
    found = _CONDITION.search(text)
    condition = condition_of(error) if isinstance(error, PySparkException) else None
    kind = condition or (found[1] or found[2] if found else type(error).__name__)
    message = text.partition("\n")[0]
    return Outcome(
        error=kind, message=message, refused=isinstance(error, UnsupportedTable | ConfigError)
    )


def run(spark: SparkSession, program: Program, frame: Frames) -> list[Outcome]:
    """Run a program, and return the outcome of each step. Then drop its tables and views.

    With some settings, such as ``spark.sql.ansi.enforceReservedKeywords``, Spark cannot create the
    tables. Then this error is the outcome of each step.
    """
    try:
        with changed(spark, program.settings), _own_tables(spark, program):
            return [outcome(_step(spark, step, frame)) for step in program.steps]
    except PySparkException as error:
        return [failed(error)] * len(program.steps)


def _step(spark: SparkSession, step: Step, frame: Frames) -> Callable[[], DataFrame | None]:
    def work() -> DataFrame | None:
        kind, text, name = step
        if kind == "do":
            spark.sql(text)
            return None
        if kind == "file":
            _copy_of_a_file(spark, text)
            return None
        df = frame(text)
        if kind == "view":
            df.createOrReplaceTempView(name)
            return None
        if kind == "write":
            df.write.mode("overwrite").partitionBy(df.columns[-1]).saveAsTable(name)
            return None
        if kind == "insert":
            df.write.insertInto(name, overwrite=True)
            return None
        if kind == "where":
            return df.where(name)
        return df.cache() if kind == "cache" else df

    return work


def _copy_of_a_file(spark: SparkSession, table: str) -> None:
    """Copy a file of the table's first partition. The table then contains its rows twice."""
    files = sorted(location(spark, table).glob("*/*.parquet"))
    if files:
        shutil.copy(files[0], files[0].with_name(f"copy-{files[0].name}"))


@contextmanager
def _own_tables(spark: SparkSession, program: Program) -> Iterator[None]:
    names = [statement.split()[2] for statement in program.tables if statement[:6] == "CREATE"]
    views = [step.name for step in program.steps if step.kind == "view"]
    try:
        for statement in program.tables:
            spark.sql(statement)
        yield
    finally:
        for view in views:
            spark.catalog.dropTempView(view)
        if program.caches:
            spark.catalog.clearCache()
        for name in names:
            with suppress(PySparkException):
                spark.sql(f"DROP TABLE IF EXISTS {name}")


class Verdict(NamedTuple):
    """The result of a comparison of two runs."""

    kind: str
    """``same``, ``both fail``, ``spared``, ``refused`` or ``different``.

    ``spared`` means that plain Spark fails on data that splitlib does not need to read.
    """
    text: str = ""


def compare(expected: list[Outcome], found: list[Outcome]) -> Verdict:
    """Compare the outcomes of two runs, step by step. Errors of one kind count as equal."""
    verdict = Verdict("same")
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        if other.refused:
            return Verdict("refused", f"step {number}: {other}")
        if one.error and other.error:
            if one.error == other.error or _alike(one, other):
                verdict = Verdict("both fail", f"step {number}: {one}")
                continue
        elif one.error and _OF_VALUES.search(one.error + one.message):
            verdict = Verdict("spared", f"step {number}: {one}")
            continue
        elif one.error.startswith(_UNREADABLE) and not other.error:
            # splitlib has not read the file, because its partition is pruned. Or a subquery reads a
            # table that plain Spark has already overwritten.
            return Verdict("spared", f"step {number}: {one}")
        elif _UNKNOWN_TO_HIVE in one.message and not other.error:
            return Verdict("spared", f"step {number}: {one}")
        elif one == other:
            continue
        return Verdict("different", f"step {number}\n  Spark: {one}\n  splitlib: {other}")
    return verdict


def _alike(one: Outcome, other: Outcome) -> bool:
    """Return whether both errors come from values, or both from missing columns.

    The errors may differ, because another value may fail first.
    """
    return any(
        kind.search(one.error + one.message) and kind.search(other.error + other.message)
        for kind in (_OF_VALUES, _OF_NAMES)
    )
