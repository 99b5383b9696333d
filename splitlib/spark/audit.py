"""``splitlib.audit``: find which joins in a workload can prune tables, and fixes for the others.

The audited tables are not read. The audit runs the planner's passes. It collects join keys only
from dimensions that read no prunable table, and counts partitions by their names in the catalog.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from splitlib import page
from splitlib.checks import refuse_other_than_session
from splitlib.config import SplitConfig
from splitlib.errors import ConfigError, SplitlibError
from splitlib.redaction import get_logger, redact
from splitlib.report import Count, size_text
from splitlib.spark.allowed_scans import allowed_by, refuse_query, refuse_statement
from splitlib.spark.jvm.active_session import in_its_session, readable
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.sql_parser import is_query_plan, parsed_statement
from splitlib.spark.logical_plan import Expression, Path, UnknownPlan
from splitlib.spark.named_tables import NamedTable, named_tables
from splitlib.spark.planner.decide import Costs, Decisions, decide
from splitlib.spark.planner.eligibility import Reason, ScanSite, parts_of
from splitlib.spark.planner.join_graph import JoinFilter
from splitlib.spark.planner.optimize import planner_threads, query_of
from splitlib.spark.planner.prune import (
    condition_text,
    pruned_by_keys,
    pruning_filters,
    unpruned,
)
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.remedies import column_names, filters_by_other_columns, with_remedy
from splitlib.spark.planner.scan_sites.planned_scan import ALSO_WITHOUT_KEYS, Scan, Site
from splitlib.spark.planner.scan_sites.prunable import MATCH_ALL, few_partitions, files_of, matched
from splitlib.spark.planner.scan_sites.pruned_site import ListedScan, PrunedSite
from splitlib.spark.session import settings_of
from splitlib.telemetry import progress_of

_log = get_logger(__name__)

_NO_TABLE: Final = "no join compares a large table with another one. Nothing is to be done."
_NOT_RUN: Final = "the keys come from a partitioned table, which the audit does not read."


@dataclass(frozen=True, slots=True)
class AuditedJoin:
    """A join of a query, and whether it can prune a table.

    Attributes:
        condition: The join condition as SQL; empty if it is unknown.
        can_prune: Whether the keys of the other side can prune the table.
        reason: Why the join can or cannot prune the table, as a sentence.
        fix: Columns to partition or cluster the table by, so that the join can prune it; empty if
            that would not help, or is not necessary.
    """

    condition: str
    can_prune: bool
    reason: str
    fix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditedTable:
    """A table in a query, and how much of the table joins could skip.

    Attributes:
        table: Name of the table.
        partition_keys: Names of the partition columns.
        joins: All joins of the table, including those that cannot prune it.
        partitions: Number of partitions that the query reads with pruning (unknown if keys were not
            collected), out of the number that it reads without pruning.
        files: Number of files that the query reads with pruning; unknown unless files were listed.
        nbytes: Number of bytes that the query reads with pruning, out of the number without
            pruning; None if unknown.
        is_estimated: Whether ``nbytes`` is estimated from the table's size in the catalog and the
            share of the partitions.
    """

    table: str
    partition_keys: tuple[str, ...]
    joins: tuple[AuditedJoin, ...]
    partitions: Count = Count()
    files: Count = Count()
    nbytes: Count = Count()
    is_estimated: bool = False

    @property
    def can_be_pruned(self) -> bool:
        """Whether a join can prune the table."""
        return any(join.can_prune for join in self.joins)


def audited_tables(
    df: DataFrame, named: Mapping[str, NamedTable], *, lists_files: bool
) -> tuple[AuditedTable, ...] | str:
    """Audit a query without running it, or return the reason why splitlib cannot plan it."""
    with planner_threads(df.sparkSession) as executor:
        query = query_of(df, named, executor)
        if isinstance(query, str):
            return query
        return tuple(_Audit(query, executor).tables(lists_files=lists_files))


class _Audit:
    def __init__(self, query: Query, executor: Executor) -> None:
        self._query = query
        self._decisions: Decisions[Scan] = decide(query)
        self._executor = executor

    def tables(self, *, lists_files: bool) -> Iterator[AuditedTable]:
        query, plan = self._query, self._query.optimized
        sites = unpruned(query, self._decisions.sites)
        quick = {path: one for path, one in sites.items() if not self._reads_facts(one.site)}
        sites = {**sites, **pruned_by_keys(query, plan, quick, sites, self._executor)}
        others = self._others()
        for scan in query.scans:
            own = {path: one for path, one in sites.items() if one.scan is scan}
            joins = tuple(dict.fromkeys(self._joins(scan, own, others)))
            if not joins:
                continue
            keys = scan.table.partition_keys if isinstance(scan, ListedScan) else ()
            table = AuditedTable(redact(scan.name), keys, joins)
            if isinstance(scan, ListedScan) and scan.is_listed:
                listed = [one for one in own.values() if isinstance(one, PrunedSite)]
                table = self._measured(table, scan, listed, lists_files=lists_files)
            yield table

    def _reads_facts(self, site: ScanSite) -> bool:
        """Return whether a scan's join keys come from a table whose partitions splitlib lists."""
        leaves = (leaf for dimension in site.dimensions for leaf in dimension.leaves)
        scans = (self._query.scan_of(leaf) for leaf in leaves)
        return any(scan is not None and scan.is_listed for scan in scans)

    def _others(self) -> Mapping[Path, Collection[JoinFilter]]:
        """Return the joins on non-partition columns, by the scan's path in the optimized plan.

        These joins would prune the table if it were partitioned or clustered by those columns.
        """
        query, root = self._query, self._query.optimized_tree
        leaves = [node for node in root.walk() if node.is_leaf and query.scan_of(node) is not None]
        costs = Costs(lambda leaf: query.size_of(leaf, ()), query.dimension_bytes)
        return filters_by_other_columns(root, leaves, query.partition_columns, costs)

    def _joins(
        self,
        scan: Scan,
        sites: Mapping[Path, Site],
        others: Mapping[Path, Collection[JoinFilter]],
    ) -> Iterator[AuditedJoin]:
        """Yield a scan's joins: first those that prune, then the others with their reasons."""
        why_unpruned = self._decisions.unpruned.get(scan)
        for path, one in sites.items():
            site = self._decisions.sites[path]
            pruning = pruning_filters(one)
            for join_filter in (*site.filters, *site.from_sites):
                if why_unpruned is not None:
                    yield self._join(scan, Reason(why_unpruned, parts_of(join_filter.comparisons)))
                elif join_filter in pruning:
                    yield self._pruning(scan, one, join_filter)
            for reason in one.site.reasons:
                yield self._join(scan, reason)
            if not one.site.may_have_keys and any(s.site.may_have_keys for s in sites.values()):
                yield self._join(scan, Reason(ALSO_WITHOUT_KEYS))
            for join_filter in others.get(path, ()):
                yield self._by_other_columns(scan, one, join_filter)

    def _pruning(self, scan: Scan, one: Site, join_filter: JoinFilter) -> AuditedJoin:
        columns = column_names(one.site.leaf, join_filter)
        by = f"its keys prune by {', '.join(columns)}" if columns else "its keys prune"
        if self._reads_facts(replace(one.site, filters=(join_filter,))):
            by = f"{by}; {_NOT_RUN.removesuffix('.')}"
        return AuditedJoin(self._quoted(scan, parts_of(join_filter.comparisons)), True, f"{by}.")

    def _by_other_columns(self, scan: Scan, one: Site, join_filter: JoinFilter) -> AuditedJoin:
        columns = column_names(one.site.leaf, join_filter)
        shown = ", ".join(columns)
        keys = scan.table.partition_keys if isinstance(scan, ListedScan) else ()
        of = f"partitioned by {', '.join(keys)}" if keys else "not partitioned"
        reason = f"the table is {of}, and not by {shown}." if keys else f"the table is {of}."
        remedy = f"Partition or cluster it by {shown} if such queries are frequent."
        quoted = self._quoted(scan, parts_of(join_filter.comparisons))
        return AuditedJoin(quoted, False, f"{reason} {remedy}", columns)

    def _join(self, scan: Scan, reason: Reason) -> AuditedJoin:
        why = with_remedy(reason.text)
        return AuditedJoin(self._quoted(scan, reason.parts), False, why)

    def _quoted(self, scan: Scan, parts: tuple[Expression | str, ...]) -> str:
        return redact(condition_text(scan, self._query.optimized, parts))

    def _measured(
        self, table: AuditedTable, scan: ListedScan, sites: list[PrunedSite], *, lists_files: bool
    ) -> AuditedTable:
        """Return a copy of ``table`` with counts of partitions, files and bytes, if known."""
        kept, read, total = matched(scan, sites)
        if table.can_be_pruned and not any(site.has_keys for site in sites):
            return replace(table, partitions=Count(None, read))  # the keys were not collected
        table = replace(table, partitions=Count(kept, read))
        if table.can_be_pruned and not scan.is_placeholder:
            if why := few_partitions(total, scan.config):
                table = _without_pruning(table, why)
            elif not all(site.site.may_have_keys for site in sites):
                table = _without_pruning(table, ALSO_WITHOUT_KEYS)
            elif kept == read:
                table = _without_pruning(table, MATCH_ALL)
        size = None if scan.is_placeholder else self._size_of(scan)
        whole = None if size is None or not total else size * read // total
        if lists_files and table.can_be_pruned:
            files, nbytes = files_of(scan, sites)
            return replace(table, files=Count(files), nbytes=Count(nbytes, whole))
        if size is None or not total:
            return table
        return replace(table, nbytes=Count(size * kept // total, whole), is_estimated=True)

    def _size_of(self, scan: Scan) -> int | None:
        """Return a table's size according to the catalog, in bytes, or None if it is unknown."""
        tree = self._query.analyzed_tree
        leaf = next(node for node in tree.walk() if node.path in scan.paths)
        return self._query.size_in_analyzed(leaf)


def _without_pruning(table: AuditedTable, reason: str) -> AuditedTable:
    """Return a copy of ``table`` in which no join can prune it, because of ``reason``."""
    why = with_remedy(reason)
    joins = (replace(j, can_prune=False, reason=why) if j.can_prune else j for j in table.joins)
    return replace(table, joins=tuple(joins))


@dataclass(frozen=True, slots=True)
class AuditedQuery:
    """The audit of one query.

    Attributes:
        name: Name of the query.
        tables: The query's tables that joins can prune, or could prune after a fix.
        reason: Why the query could not be audited or has no such table; None if it has one.
        is_error: Whether the query could not be audited.
    """

    name: str
    tables: tuple[AuditedTable, ...] = ()
    reason: str | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of :func:`audit`, which can be shown as text, as HTML in a notebook, or as a dict.

    Attributes:
        queries: The queries, in the given order.
    """

    queries: tuple[AuditedQuery, ...]

    @property
    def tables(self) -> tuple[AuditedTable, ...]:
        """The tables of all queries, with one item per query and table."""
        return tuple(table for query in self.queries for table in query.tables)

    @property
    def fixes(self) -> dict[tuple[str, str], int]:
        """Columns to partition or cluster tables by, so that more joins can prune.

        The keys are pairs of table and column, such as ``("db.sales", "day")``. The values are the
        numbers of queries that would benefit. The most frequent pairs come first.
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
        """Percentage of the tables that a join can prune; 100 if there are no tables."""
        tables = self.tables
        return 100 * sum(t.can_be_pruned for t in tables) / len(tables) if tables else 100.0

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as a dictionary that can be written as JSON."""
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

    def to_html(self) -> str:
        """Return the audit as a self-contained HTML page."""
        return page.document("audit", self._repr_html_())

    def _repr_html_(self) -> str:
        rows = [row for query in self.queries for row in _rows(query)]
        head = ("query", "table", "saves", "joins")
        return page.widget(page.table(head, rows), page.paragraphs(self._summary()))


@in_its_session
def audit(
    spark: SparkSession,
    queries: Mapping[str, str | DataFrame] | Iterable[str | DataFrame] | str | DataFrame,
    *,
    files: bool = False,
) -> Audit:
    """Report which joins can prune tables, why the others cannot, and what would fix that.

    The queries do not run. Their tables are not read, except dimensions without partitions, whose
    keys are collected as in :func:`splitlib.optimize`. Partitions are counted by their names in the
    catalog. Commands are not audited.

    Args:
        spark: The session.
        queries: A dict from names to SQL texts or DataFrames, a list of them, or a single one.
        files: Whether to list the files of the matching partitions. By default, bytes are estimated
            from the table's size in the catalog.

    Raises:
        ConfigError: if ``spark`` is not a session or has no access to Spark's internals, or if a
            query is neither text nor a DataFrame. An error in a single query is part of the result.
    """
    refuse_other_than_session(spark, "splitlib.audit(spark, ['SELECT …'])")
    if (reason := internals_unavailable(spark)) is not None:
        raise ConfigError(
            f"Queries cannot be audited: {reason}.", hint="use a classic session of Spark."
        )
    given = _by_name(queries)
    found: list[AuditedQuery] = []
    config = SplitConfig.resolve(spark_conf=settings_of(spark))
    with progress_of(
        lambda: f"{len(found):,} of {len(given):,} queries", enabled=config.show_progress
    ):
        found += (_audited(spark, name, query, files) for name, query in given.items())
    return Audit(tuple(found))


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
        message = redact(str(shown).strip().partition("\n")[0])
        return AuditedQuery(name, reason=f"{type(shown).__name__}: {message}", is_error=True)
    if isinstance(found, str):
        return AuditedQuery(name, reason=with_remedy(found))
    return AuditedQuery(name, found, None if found else _NO_TABLE)


def _of_text(
    spark: SparkSession, text: str, *, lists_files: bool
) -> tuple[AuditedTable, ...] | str:
    with ExitStack() as opened, named_tables(spark, text, opened) as (plain, tables):
        if not is_query_plan(spark, parsed_statement(spark, plain)):
            return "the statement is a command. Audit the query inside of it."
        refuse_statement(spark, plain, allowed_by(spark), has_parameters=False)
        df = spark.sql(plain)  # Spark only analyzes a query here, and does not run it
        return audited_tables(df, tables, lists_files=lists_files)


def _plain(table: AuditedTable) -> dict[str, Any]:
    """Return a table as a dictionary that can be written as JSON."""
    counts = {name: getattr(table, name)._asdict() for name in ("partitions", "files", "nbytes")}
    joins = [{**asdict(join), "fix": list(join.fix)} for join in table.joins]
    lists = {"partition_keys": list(table.partition_keys), "joins": joins}
    return {**asdict(table), **counts, **lists, "can_be_pruned": table.can_be_pruned}


def _saved(table: AuditedTable) -> str:
    """Describe how much of a table is read with pruning, such as "reads 3 of 90 partitions"."""
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


def _rows(query: AuditedQuery) -> Iterator[tuple[str, ...]]:
    if query.reason is not None:
        yield query.name, "", "", query.reason
    for table in query.tables:
        yield query.name, table.table, _saved(table), "\n".join(_lines(table))
