"""The 99 queries as DuckDB ships them, with a total order, in both dialects."""

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
    """One of TPC-DS's queries, with the substitution parameters that DuckDB ships."""

    number: int
    duckdb: str
    spark: str

    @property
    def name(self) -> str:
        """``q01`` to ``q99``."""
        return f"q{self.number:02}"


def load_queries(duckdb: DuckDBPyConnection) -> Mapping[int, Query]:
    """All of them by number."""
    shipped = duckdb.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
    queries = {}
    for number, text in shipped:
        ordered = _totally_ordered(text, len(duckdb.sql(text).columns))
        both = replaced(ordered, FOR_BOTH.get(number, ()))
        queries[number] = Query(number, both, replaced(both, FOR_SPARK.get(number, ())))
    return queries


def _totally_ordered(text: str, columns: int) -> str:
    """The query, with all its columns as the last ones to order by.

    Otherwise the rows that a ``LIMIT`` leaves of a tie are not defined, and neither is their order.
    """
    end = _END.search(text)
    assert end is not None  # it matches the empty end
    body, limit = text[: end.start()], end["limit"] or ""
    ordinals = ", ".join(str(i) for i in range(1, columns + 1))
    comma = "," if _ORDER.search(_outermost(body)) else "\nORDER BY"
    return f"{body}{comma} {ordinals}\n{limit}"


def _outermost(text: str) -> str:
    """What is not in parentheses."""
    while (shorter := _INNERMOST.sub("", text)) != text:
        text = shorter
    return text
