"""The examples of ``docs/not-pruned.md``: ``python -m tests.documents.unpruned``.

Each example shows a reason why a query is not pruned. Run as a program, this module prints each
example with the sentences that explain gives for it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame

import splitlib
from splitlib.spark.audit import Audit
from splitlib.testing import HiveMetastore
from tests.documents.examples import DOCS, TABLES, follow
from tests.spark_session import small_session

_SENTENCE: Final = re.compile(
    r"^(?:not pruned(?: further)?|left to Spark|filter.* - not used): (.*)"
)
_SETTING: Final = re.compile(r"SET (\S+)=(\S+); ")
_PAGE: Final = "not-pruned.md"


class Unpruned(NamedTuple):
    """A reason of the page, and an example that shows it."""

    reason: str
    """The reason, as in a report. ``…`` stands for any text."""
    example: str
    """A query in SQL, which may follow settings such as ``SET key=value; ``, or a Python
    expression."""

    def report(self, names: Mapping[str, Any]) -> str:
        """Run the example, and return the report of explain, or of the audit, as text.

        Args:
            names: Names after the Python examples of the page have run.
        """
        spark, query = names["spark"], _SETTING.sub("", self.example)
        settings = dict(_SETTING.findall(self.example))
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            is_sql = re.match("SELECT|WITH", query)
            found = splitlib.sql(spark, query) if is_sql else eval(query, dict(names))
            if isinstance(found, DataFrame):
                found = splitlib.explain(found)
            elif not isinstance(found, Audit):  # a condition
                found = found.explain()
            return str(found)
        finally:
            for key in settings:
                spark.conf.unset(key)

    def is_in(self, report: str) -> bool:
        """Return whether a report has the reason."""
        return re.search(".*".join(map(re.escape, self.reason.split("…"))), report) is not None


def of_page() -> list[Unpruned]:
    """Return the reasons of the page that have an example to run.

    A reason is a heading above a query, or the first cell of a row whose second cell is code.
    Reasons that share a row are separated by semicolons. The example shows the first one.
    """
    page = (DOCS / _PAGE).read_text("utf-8")
    above = re.findall(r"^### ([^\n]+)\n\n```sql\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    beside = re.findall(r"^\| ([^|]+) \| `([^`|]+)` \|", page, re.MULTILINE)
    found = [(reason, " ".join(query.split())) for reason, query in above]
    found += [(cell.partition("; ")[0], example) for cell, example in beside]
    return [Unpruned(*pair) for pair in found]


def sentences(report: str) -> list[str]:
    """Return the lines of a report that say why something was not pruned."""
    lines = (line.lstrip("│├└─ ") for line in report.splitlines())
    return [line for line in lines if _SENTENCE.match(line)]


def names_of_page(spark: Any) -> dict[str, Any]:
    """Run the Python examples of the page, and return the names that its other examples use.

    The session must have the tables of the page ``TABLES``.
    """
    spark.sql("DROP TABLE IF EXISTS tpcds.inventory")
    names: dict[str, Any] = {"spark": spark}
    follow(f"docs/{_PAGE}", names)
    return names


def every(names: Mapping[str, Any]) -> Iterator[tuple[Unpruned, str]]:
    """Yield all examples of the page with their reports.

    ``names`` is the result of :func:`names_of_page`.
    """
    for one in of_page():
        yield one, one.report(names)


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as scratch,
        HiveMetastore() as metastore,
        small_session(metastore, Path(scratch)) as spark,
    ):
        follow(TABLES, {})
        for number, (one, report) in enumerate(every(names_of_page(spark)), 1):
            print(f"{number}. {one.example}")
            print(*(f"     {line}" for line in sentences(report)), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
