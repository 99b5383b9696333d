"""Queries that are not pruned, each for another reason: ``python -m tests.documents.unpruned``.

The examples of ``docs/not-pruned.md``, and queries that take more than one statement. Run as a
program, it prints each query with the sentences that explain gives for it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from splitlib.report import Report
from splitlib.testing import HiveMetastore
from tests.documents.examples import DOCS, TABLES, follow
from tests.spark_session import small_session

_SENTENCE: Final = re.compile(r"^(?:not pruned|left to Spark|filter.* - not used): (.*)")


def of_page() -> list[tuple[str, str]]:
    """Return the reasons of the page with their queries.

    A reason is a heading above a query, or a cell of a table next to a query.
    """
    page = (DOCS / "not-pruned.md").read_text("utf-8")
    above = re.findall(r"^### ([^\n]+)\n\n```sql\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    beside = re.findall(r"^\| ([^|]+) \| `((?:SELECT|WITH) [^`|]+)` \|", page, re.MULTILINE)
    return [*above, *beside]


class Unpruned(NamedTuple):
    """A query that is not pruned, or a filter that is not used."""

    text: str
    """The query, as a user writes it."""
    planned: Callable[[SparkSession], DataFrame]
    """Function that plans it."""
    settings: Mapping[str, str] = {}
    """Settings of the session."""

    def report(self, spark: SparkSession) -> Report:
        """Plan the query, and return the report of explain."""
        for name, value in self.settings.items():
            spark.conf.set(f"spark.splitlib.{name}", value)
        try:
            return splitlib.explain(self.planned(spark))
        finally:
            for name in self.settings:
                spark.conf.unset(f"spark.splitlib.{name}")


_JOIN: Final = "SELECT count(*) FROM tpcds.store_sales JOIN tpcds.date_dim ON "
_HOLIDAYS: Final = _JOIN + "ss_sold_date_sk = d_date_sk WHERE d_following_holiday = 'Y'"


def _sales(spark: SparkSession) -> DataFrame:
    return spark.table("tpcds.store_sales")


def _holidays(spark: SparkSession) -> DataFrame:
    return spark.table("tpcds.date_dim").where("d_following_holiday = 'Y'")


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


def _joined(sales: DataFrame, dates: DataFrame) -> DataFrame:
    on = F.col("ss_sold_date_sk") == F.col("d_date_sk")
    return splitlib.optimize(sales.join(dates, on))


def _twice(spark: SparkSession) -> DataFrame:
    sales, on = _sales(spark), F.col("ss_sold_date_sk") == F.col("d_date_sk")
    return splitlib.optimize(sales.join(_holidays(spark), on, "left_semi").unionByName(sales))


def _stream(spark: SparkSession) -> DataFrame:
    return splitlib.optimize(spark.readStream.format("rate").load())


def _where(condition: str) -> Callable[[SparkSession], DataFrame]:
    return lambda spark: splitlib.read(spark).table("tpcds.store_sales").where(condition).load()


def _sql(query: str) -> Callable[[SparkSession], DataFrame]:
    return lambda spark: splitlib.sql(spark, query)


OTHERS: Final = (
    Unpruned(_HOLIDAYS, _sql(_HOLIDAYS), {"dynamicFilteringEnabled": "false"}),
    Unpruned(_HOLIDAYS, _sql(_HOLIDAYS), {"plannerDimensionBytes": "1"}),
    Unpruned(_HOLIDAYS, _sql(_HOLIDAYS), {"filterMaxValues": "1", "filterOnExceed": "all"}),
    Unpruned("splitlib.optimize(spark.readStream.format('rate').load())", _stream),
    Unpruned(
        "splitlib.optimize(spark.sql('SHOW TABLES'))",
        lambda spark: splitlib.optimize(spark.sql("SHOW TABLES IN tpcds")),
    ),
    Unpruned(
        f"{_JOIN}ss_sold_date_sk = CAST(d_following_holiday AS INT) WHERE d_year = 2000",
        _sql(f"{_JOIN}ss_sold_date_sk = CAST(d_following_holiday AS INT) WHERE d_year = 2000"),
    ),
    Unpruned("sales.join(holidays, …, 'left_semi').unionByName(sales)", _twice),
    Unpruned(
        "sales.mapInArrow(f, sales.schema).join(holidays, …)",
        lambda s: _joined(_sales(s).mapInArrow(_same, _sales(s).schema), _holidays(s)),
    ),
    Unpruned(
        "sales.observe('n', count('*')).join(holidays, …)",
        lambda s: _joined(_sales(s).observe("n", F.count("*").alias("n")), _holidays(s)),
    ),
    Unpruned(
        "sales.join(holidays.observe('n', count('*')), …)",
        lambda s: _joined(_sales(s), _holidays(s).observe("n", F.count("*").alias("n"))),
    ),
    Unpruned(
        "splitlib.read(spark).table('tpcds.store_sales').where('ss_quantity > 3').load()",
        _where("ss_quantity > 3"),
    ),
    Unpruned(
        "splitlib.read(spark).table('tpcds.store_sales')"
        ".where('ss_sold_date_sk > unix_date(current_date())').load()",
        _where("ss_sold_date_sk > unix_date(current_date())"),
    ),
    Unpruned(
        "splitlib.read(spark).table('tpcds.store_sales').where('1 < 2').load()", _where("1 < 2")
    ),
)
"""Queries and filters that are not on the page."""


def sentences(report: Report) -> list[str]:
    """Return the lines of a report that say why something was not pruned."""
    lines = (line.lstrip("│├└─ ") for line in str(report).splitlines())
    return [line for line in lines if _SENTENCE.match(line)]


def every(spark: SparkSession) -> Iterator[tuple[Unpruned, list[str]]]:
    """Yield all queries, with the sentences that explain gives for them.

    The session must have the tables of the page.
    """
    page = [Unpruned(" ".join(query.split()), _sql(query)) for _, query in of_page()]
    for one in (*page, *OTHERS):
        yield one, sentences(one.report(spark))


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as scratch,
        HiveMetastore() as metastore,
        small_session(metastore, Path(scratch)) as spark,
    ):
        follow(TABLES, {})
        follow("docs/not-pruned.md", {"spark": spark})
        for number, (one, found) in enumerate(every(spark), 1):
            settings = ", ".join(f"spark.splitlib.{k}={v}" for k, v in one.settings.items())
            print(f"{number}. {one.text}{f'  [{settings}]' if settings else ''}")
            print(*(f"     {sentence}" for sentence in found), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
