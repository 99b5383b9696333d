"""The 99 TPC-DS queries from DuckDB, for DuckDB and for Spark.

All columns are added to ``ORDER BY``, so that results can be compared row by row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.tpcds.dialect import FOR_BOTH, FOR_SPARK, replaced

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_END = re.compile(r"\s*(?P<limit>\bLIMIT\s+\d+)?\s*;?\s*\Z", re.IGNORECASE)
_INNERMOST = re.compile(r"\([^()]*\)")
_ORDER = re.compile(r"\bORDER\s+BY\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Query:
    """One TPC-DS query, with DuckDB's substitution parameters."""

    number: int
    duckdb: str
    spark: str

    @property
    def name(self) -> str:
        """Name of the query, ``q01`` to ``q99``."""
        return f"q{self.number:02}"


def load_queries(duckdb: DuckDBPyConnection) -> Mapping[int, Query]:
    """Return all queries by number."""
    shipped = duckdb.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
    queries = {}
    for number, text in shipped:
        ordered = _totally_ordered(text, len(duckdb.sql(text).columns))
        both = replaced(ordered, FOR_BOTH.get(number, ()))
        queries[number] = Query(number, both, replaced(both, FOR_SPARK.get(number, ())))
    return queries


def _totally_ordered(text: str, columns: int) -> str:
    """Add all columns to the end of the query's ``ORDER BY``.

    Otherwise rows with equal sort keys have no defined order, and ``LIMIT`` may select any of them.
    """
    end = _END.search(text)
    assert end is not None  # it matches the empty end
    body, limit = text[: end.start()], end["limit"] or ""
    ordinals = ", ".join(str(i) for i in range(1, columns + 1))
    comma = "," if _ORDER.search(_outermost(body)) else "\nORDER BY"
    return f"{body}{comma} {ordinals}\n{limit}"


def _outermost(text: str) -> str:
    """Return the text outside parentheses."""
    while (shorter := _INNERMOST.sub("", text)) != text:
        text = shorter
    return text
