"""``splitlib.audit``: which joins of a workload can be pruned, and what would fix the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from splitlib.errors import ConfigError, SplitlibError
from splitlib.redaction import get_logger
from splitlib.report import size_text
from splitlib.spark.allowed_scans import allowed_by, refuse_query, refuse_statement
from splitlib.spark.jvm.active_session import in_its_session
from splitlib.spark.jvm.errors import readable
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.sql_parser import is_query_plan, parsed_statement
from splitlib.spark.logical_plan import UnknownPlan
from splitlib.spark.named_tables import named_tables
from splitlib.spark.planner.audited import AuditedTable, audited_tables
from splitlib.spark.planner.remedies import with_remedy

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AuditedQuery:
    """One query of a workload.

    Attributes:
        name: Name of the query.
        tables: Its tables that joins prune, or could prune.
        reason: Why the query could not be audited, or has no such table; None otherwise.
        is_error: Whether the query could not be audited.
    """

    name: str
    tables: tuple[AuditedTable, ...] = ()
    reason: str | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of :func:`audit`, as text, HTML in a notebook, and a dict.

    Attributes:
        queries: The queries, in the given order.
    """

    queries: tuple[AuditedQuery, ...]

    @property
    def tables(self) -> tuple[AuditedTable, ...]:
        """The tables of all queries, one item per query and table."""
        return tuple(table for query in self.queries for table in query.tables)

    @property
    def fixes(self) -> dict[tuple[str, str], int]:
        """Columns by which a table would have to be partitioned or clustered.

        The keys are table and column, and the values numbers of queries; the most frequent come
        first.
        """
        found: Counter[tuple[str, str]] = Counter()
        for query in self.queries:
            pairs = {
                (table.table, column)
                for table in query.tables
                if not table.can_be_pruned
                for join in table.joins
                for column in join.fix
            }
            found.update(sorted(pairs))
        return dict(found.most_common())

    @property
    def pruned_percent(self) -> float:
        """Share of the tables that a join can prune, in percent; 100 without tables."""
        tables = self.tables
        return 100 * sum(t.can_be_pruned for t in tables) / len(tables) if tables else 100.0

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as dictionaries, lists and plain values, for JSON."""
        queries = [{**asdict(q), "tables": [_plain(t) for t in q.tables]} for q in self.queries]
        fixes = [{"table": t, "column": c, "queries": n} for (t, c), n in self.fixes.items()]
        return {"queries": queries, "fixes": fixes, "pruned_percent": self.pruned_percent}

    def __str__(self) -> str:
        lines = []
        for query in self.queries:
            lines.append(query.name)
            if query.reason is not None:
                kind = "not audited" if query.is_error else "nothing to prune"
                lines.append(f"  {kind}: {query.reason}")
            for table in query.tables:
                lines.append(f"  {table.table}: {_saved(table)}")
                lines += [f"    {line}" for line in _lines(table)]
        return "\n".join([*lines, *self._summary()])

    def _summary(self) -> Iterator[str]:
        tables = self.tables
        pruned = sum(table.can_be_pruned for table in tables)
        yield f"{len(self.queries)} queries; joins prune {pruned} of {len(tables)} tables"
        for (table, column), number in self.fixes.items():
            yield f"partition or cluster {table} by {column}: {number} queries"

    def _repr_html_(self) -> str:
        from html import escape  # imported here because only notebooks need it

        rows = ""
        for query in self.queries:
            if query.reason is not None:
                cells = (query.name, "", "", query.reason)
                rows += _row(map(escape, cells))
            for table in query.tables:
                joins = "<br>".join(map(escape, _lines(table)))
                rows += _row(
                    [escape(query.name), escape(table.table), escape(_saved(table)), joins]
                )
        head = "<tr><th>query</th><th>table</th><th>saves</th><th>joins</th></tr>"
        summary = "<br>".join(map(escape, self._summary()))
        return f"<div><table>{head}{rows}</table><p>{summary}</p></div>"


@in_its_session
def audit(
    spark: SparkSession,
    queries: Mapping[str, str | DataFrame] | Iterable[str | DataFrame] | str | DataFrame,
    *,
    files: bool = False,
) -> Audit:
    """Find the joins of queries that can be pruned, the reasons why others cannot, and fixes.

    The queries do not run. Their tables are not read, except dimensions without partitions, whose
    keys are collected as in :func:`splitlib.optimize`. Partitions are counted by their names in the
    catalog. Commands are not audited.

    Args:
        spark: The session.
        queries: SQL texts or DataFrames, by name or in order; or a single one.
        files: Whether to list the files of the partitions that joins need. By default bytes are
            estimated from the size of the table in the catalog.

    Raises:
        ConfigError: for queries of another type, or if the session has no access to Spark's
            internals. Errors of single queries are in the result.
    """
    reason = internals_unavailable(spark)
    if reason is not None:
        raise ConfigError(
            f"Queries cannot be audited: {reason}.", hint="use a classic session of Spark."
        )
    given = _by_name(queries)
    return Audit(tuple(_audited(spark, name, query, files) for name, query in given.items()))


def _by_name(queries: Any) -> dict[str, str | DataFrame]:
    if isinstance(queries, str | DataFrame):
        queries = [queries]
    if not isinstance(queries, Mapping) and isinstance(queries, Iterable):
        queries = {f"query {number}": query for number, query in enumerate(queries, 1)}
    known = isinstance(queries, Mapping)
    for query in queries.values() if known else [queries]:
        if not known or not isinstance(query, str | DataFrame):
            raise ConfigError(
                f"A {type(query).__name__} is not a query.",
                hint="pass SQL texts or DataFrames, in a list, or in a dict with their names.",
            )
    return {str(name): query for name, query in queries.items()}


def _audited(spark: SparkSession, name: str, query: str | DataFrame, files: bool) -> AuditedQuery:
    try:
        if isinstance(query, DataFrame):
            refuse_query(query, allowed_by(spark), partitions=False)
            found = audited_tables(query, {}, lists_files=files)
        else:
            found = _of_text(spark, query, lists_files=files)
    except (SplitlibError, UnknownPlan, *JVM_ERRORS) as error:
        _log.debug("A query could not be audited.", exc_info=True)
        shown = readable(error)
        message = str(shown).strip().partition("\n")[0]
        return AuditedQuery(name, reason=f"{type(shown).__name__}: {message}", is_error=True)
    if isinstance(found, str):
        return AuditedQuery(name, reason=with_remedy(found))
    if not found:
        return AuditedQuery(name, reason="no join compares a large table with another one.")
    return AuditedQuery(name, found)


def _of_text(
    spark: SparkSession, text: str, *, lists_files: bool
) -> tuple[AuditedTable, ...] | str:
    with ExitStack() as opened, named_tables(spark, text, opened) as (plain, tables):
        if not is_query_plan(spark, parsed_statement(spark, plain)):
            return "it is a command; audit the query in it."
        refuse_statement(spark, plain, allowed_by(spark), has_parameters=False)
        df = spark.sql(plain)  # a query without commands is analyzed, and does not run
        return audited_tables(df, tables, lists_files=lists_files)


def _plain(table: AuditedTable) -> dict[str, Any]:
    """Return a table as plain values for JSON."""
    counts = {name: getattr(table, name)._asdict() for name in ("partitions", "files", "nbytes")}
    joins = [{**asdict(join), "fix": list(join.fix)} for join in table.joins]
    lists = {"partition_keys": list(table.partition_keys), "joins": joins}
    return {**asdict(table), **counts, **lists, "can_be_pruned": table.can_be_pruned}


def _saved(table: AuditedTable) -> str:
    """Return how much of a table joins could leave out, as text."""
    if not table.can_be_pruned:
        return "not pruned"
    kept, read = table.partitions
    if read is None:
        return "pruned by a condition"
    if kept is None:
        return f"reads fewer than {read:,} partitions; how many is unknown"
    found = [f"reads {kept:,} of {read:,} partitions"]
    if table.files.matched is not None:
        found.append(f"{table.files.matched:,} files")
    about = "about " if table.is_estimated else ""
    sizes = [size_text(n) for n in table.nbytes if n is not None]
    return ", ".join([*found, *([f"{about}{' of '.join(sizes)}"] if sizes else [])])


def _lines(table: AuditedTable) -> Iterator[str]:
    for join in table.joins:
        mark = "prunes" if join.can_prune else "does not prune"
        condition = f"{join.condition}: " if join.condition else ""
        yield f"{mark} - {condition}{join.reason}"


def _row(cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
