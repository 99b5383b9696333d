"""Small programs that run with plain Spark and with splitlib, whose results are compared."""

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
from splitlib.spark.plan_report import PlanReport
from tests.integration.randomized.star_tables import location

# Errors that values cause in ANSI mode. Spark may evaluate rows before it drops them, so pruning
# can avoid such an error.
_OF_VALUES = re.compile(
    r"CAST_INVALID_INPUT|CAST_OVERFLOW|ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE"
    r"|DATETIME_OVERFLOW|INVALID_INDEX|DIVIDE_BY_ZERO"
)
# A missing column: Spark or splitlib reports it.
_OF_NAMES = re.compile(r"UNRESOLVED_COLUMN|INVALID_EXTRACT_BASE_FIELD_TYPE|has no column")
_UNREADABLE = "FAILED_READ_FILE"
# With metastorePartitionPruningFastFallback, Spark fails on conditions over partition columns of
# types that the metastore lacks, such as TIMESTAMP_NTZ.
_UNKNOWN_TO_HIVE = "Expected only partition pruning predicates"
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_AS_TEXT = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one step: its rows or an error."""

    rows: tuple[str, ...] = ()
    error: str = ""
    """Spark's error condition or the class name; empty for no error."""
    message: str = ""
    refused: bool = False
    """Whether splitlib refused to read the table, or to read it with these settings."""

    def __str__(self) -> str:
        if self.error:
            return f"{self.error}: {self.message[:500]}"
        return f"{len(self.rows)} rows {list(self.rows[:12])}"


class Step(NamedTuple):
    """One step of a program."""

    kind: str
    """``rows``, ``view``, ``cache``, ``do``, ``command``, ``write``, ``insert`` or ``file``."""
    text: str
    """A query, a statement or a table name, depending on the kind."""
    name: str = ""
    """Name of the view to create or of the table to write."""


@dataclass(frozen=True)
class Program:
    """Settings, tables and steps of one random program."""

    seed: int
    steps: tuple[Step, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    """Statements that create the program's own tables.

    Each CREATE statement starts with CREATE TABLE and the name.
    """
    how: str = "optimize"
    """How splitlib plans queries: ``optimize``, ``sql`` or ``twice``."""
    ingredients: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def caches(self) -> bool:
        """Whether a step caches its result."""
        return any(step.kind == "cache" for step in self.steps)

    def without_caches(self) -> Program:
        """Return the program with each cache step replaced by a plain query."""
        return replace(
            self,
            steps=tuple(s._replace(kind="rows") if s.kind == "cache" else s for s in self.steps),
        )

    def __str__(self) -> str:
        """Return the text needed to run the program by hand.

        ``RANDOM_SEED`` recreates the shared tables.
        """
        lines = [f"RANDOM_SEED={self.seed} RANDOM_QUERIES=1, by splitlib.{self.how}"]
        lines += [f"SET {key}={value};" for key, value in self.settings.items()]
        lines += [f"{statement};" for statement in self.tables]
        lines += [f"{kind} {name or ''}: {text}" for kind, text, name in self.steps]
        return "\n".join(lines)


Frames = Callable[[str], DataFrame]
"""A function from a query to its DataFrame."""


@dataclass
class Optimizing:
    """Runs queries with splitlib, and collects their reports."""

    spark: SparkSession
    how: str
    reports: list[PlanReport] = field(default_factory=list)

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
        """Whether any scan was pruned."""
        return any(scan.is_pruned for report in self.reports for scan in report.scans)

    def given_up(self) -> list[str]:
        """Return the reasons of queries that were left to Spark because of an error."""
        reasons = [str(reason) for report in self.reports for reason in report.reasons]
        return [r for r in reasons if "Error" in r or "Exception" in r]


def plain(spark: SparkSession, catalogs: Iterable[str]) -> Frames:
    """Return a function that runs queries with plain Spark, with the named catalogs removed."""
    named = re.compile(rf"\b({'|'.join(catalogs)})\.default\.")
    return lambda query: spark.sql(named.sub("", query))


def outcome(work: Callable[[], DataFrame | None]) -> Outcome:
    """Return the sorted rows of the DataFrame that ``work`` returns, or its error."""
    try:
        df = work()
        return Outcome(() if df is None else rows_of(df))
    except Exception as error:
        return failed(error)


def rows_of(df: DataFrame) -> tuple[str, ...]:
    """Return the rows as sorted text.

    Dates and times are formatted by Spark, because Python cannot represent all of them.
    """
    shown = []
    for name, kind in df.dtypes:
        column = F.col("`" + name.replace("`", "``") + "`")
        shown.append(column.cast("string").alias(name) if kind in _AS_TEXT else column)
    if len(set(df.columns)) == len(df.columns):
        df = df.select(*shown)
    return tuple(sorted(map(str, df.collect())))


def failed(error: Exception) -> Outcome:
    """Convert an error to an outcome."""
    text = str(error)
    found = _CONDITION.search(text)
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    kind = condition or (found[1] if found else type(error).__name__)
    message = text.partition("\n")[0]
    return Outcome(
        error=kind, message=message, refused=isinstance(error, UnsupportedTable | ConfigError)
    )


def run(spark: SparkSession, program: Program, frame: Frames) -> list[Outcome]:
    """Return the outcome of each step. Drop the program's tables, views and caches afterwards."""
    with changed(spark, program.settings), _own_tables(spark, program):
        return [outcome(_step(spark, step, frame)) for step in program.steps]


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
        return df.cache() if kind == "cache" else df

    return work


def _copy_of_a_file(spark: SparkSession, table: str) -> None:
    """Copy the file of the table's first partition, as if another writer added its rows again."""
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
    """The result of a comparison."""

    kind: str
    """Kind of the result: ``same``, ``both fail``, ``spared``, ``refused`` or ``different``."""
    text: str = ""


def compare(expected: list[Outcome], found: list[Outcome]) -> Verdict:
    """Compare the outcomes step by step. Errors of the same kind count as equal."""
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
            # The file belongs to a pruned partition. Or a subquery reads it, and Spark has already
            # overwritten it.
            return Verdict("spared", f"step {number}: {one}")
        elif _UNKNOWN_TO_HIVE in one.message and not other.error:
            return Verdict("spared", f"step {number}: {one}")
        elif one == other:
            continue
        return Verdict("different", f"step {number}\n  Spark: {one}\n  splitlib: {other}")
    return verdict


def _alike(one: Outcome, other: Outcome) -> bool:
    """Whether both errors come from values, or both from missing names.

    Which value fails first may differ.
    """
    return any(
        kind.search(one.error + one.message) and kind.search(other.error + other.message)
        for kind in (_OF_VALUES, _OF_NAMES)
    )
