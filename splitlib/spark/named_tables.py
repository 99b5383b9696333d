"""Replace tables of named splitlib catalogs in a query's text with temporary views.

Each view is a placeholder without rows. After the join keys are collected, the planner replaces the
placeholder with a scan of the matching files.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from splitlib.config import SplitConfig
from splitlib.errors import UnsupportedTable
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import PartitionFilter
from splitlib.model import FILE_SCHEMA
from splitlib.registry import named_catalogs, open_table
from splitlib.report import Report
from splitlib.spark.allowed_scans import is_certain_query
from splitlib.spark.conversion import quoted, session_time_zone, spark_schema
from splitlib.spark.file_scan import FileScan
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.file_index import PINNED_ROOT
from splitlib.spark.jvm.gateway import dataframe_of_relation
from splitlib.spark.jvm.pinned_relation import pinned_relation
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.sql_parser import (
    ParsedCommand,
    is_query_plan,
    parsed_plan,
    parsed_statement,
    relations_in,
)
from splitlib.spark.read.pruned_rows import pruned_rows
from splitlib.spark.session import settings_of
from splitlib.table import Table

_PART: Final = r"(?:`(?:[^`]|``)+`|\w+)"
# The pattern lets a string without a closing quote extend to the end of the text, so that the
# search takes linear time.
_TOKEN: Final = re.compile(
    r"""[rR]'[^']*'?|[rR]"[^"]*"?"""
    r"""|'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?"""
    r"""|--[^\n]*"""
    r"""|(?P<comment>/\*)"""
    rf"""|(?P<name>{_PART}(?:\s*\.\s*{_PART})*)""",
    re.DOTALL,
)
_COMMENT: Final = re.compile(r"/\*|\*/")
# Matches the keywords before the name of a table that a statement changes.
_CHANGES: Final = re.compile(
    r"\b(?:INTO|OVERWRITE|UPDATE|DELETE FROM|TRUNCATE|DROP|ALTER|(?<!SHOW )CREATE|REPLACE|REPAIR)"
    r"(?: EXTERNAL)?(?: TABLE| VIEW)?(?: IF)?(?: NOT)?(?: EXISTS)?$"
)
# Matches statements that store the text of a query. The stored text would name this module's views,
# which are dropped as soon as Spark has analyzed the query.
_KEEPS_TEXT: Final = re.compile(
    r"\b(?:CREATE|ALTER)(?: OR| REPLACE| GLOBAL| TEMP| TEMPORARY| MATERIALIZED)*"
    r" (?:VIEW|FUNCTION)\b|^CACHE\b"
)
_WORDS_BEFORE: Final = 6
_LONGEST_WORD: Final = 10


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a query's text: a name, or text without names."""

    text: str
    """The text of this part, as in the query."""
    parts: tuple[str, ...] = ()
    """Parts of the name, such as ``("lake", "db", "t")``; empty if the text is not a name."""
    is_changed: bool = False
    """Whether the name follows keywords such as INSERT INTO, so the statement changes its table."""
    is_table: bool = False
    """Whether the name follows FROM or JOIN, so all its parts may be the name of a table."""


def pieces_of(query: str) -> Iterator[Piece]:
    """Split a query into names and the text between them, in order."""
    words: deque[str] = deque(maxlen=_WORDS_BEFORE)
    start = 0
    while token := _TOKEN.search(query, start):
        if start < token.start():
            between = query[start : token.start()]
            if not between.isspace():
                words.clear()
            yield Piece(between)
        start = _end_of_comment(query, token.end()) if token["comment"] else token.end()
        text = query[token.start() : start]
        if not token["name"]:
            yield Piece(text)
            continue
        is_changed = _CHANGES.search(" ".join(words)) is not None
        is_table = bool(words) and words[-1] in ("FROM", "JOIN")
        yield Piece(text, _parts(text), is_changed, is_table)
        words.append(text[:_LONGEST_WORD].upper())
    if start < len(query):
        yield Piece(query[start:])


def _end_of_comment(query: str, start: int) -> int:
    """Return the position after a comment, which may contain nested comments."""
    depth = 1
    for edge in _COMMENT.finditer(query, start):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    return len(query)


def _parts(name: str) -> tuple[str, ...]:
    return tuple(
        part[1:-1].replace("``", "`") if part.startswith("`") else part
        for part in re.findall(_PART, name)
    )


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table of a named catalog, at the version that was current when the table was opened."""

    spark: SparkSession
    table: Table
    config: SplitConfig

    @classmethod
    def open(cls, spark: SparkSession, name: str) -> Self:
        """Open the current version of a table.

        Raises:
            SplitlibError: in the same cases as :func:`splitlib.load_table`.
        """
        spark_conf = settings_of(spark)
        config = SplitConfig.resolve(spark_conf=spark_conf)
        table = open_table(name, spark=spark, spark_conf=spark_conf, config=config)
        return cls(spark, table, config)

    def placeholder(self) -> tuple[DataFrame, str]:
        """Return a DataFrame without rows, and the root path that identifies it in a plan."""
        scan = FileScan(
            format="parquet",
            options={},
            data_schema=spark_schema(self.table.metadata),
            partition_schema=StructType(),
            partitions=pa.table({}),
            files=FILE_SCHEMA.empty_table(),
        )
        name = f"{uuid.uuid4()}"
        relation = pinned_relation(self.spark, scan, name)
        return dataframe_of_relation(self.spark, relation), f"{PINNED_ROOT}{name}"

    def load(
        self,
        filters: Sequence[DynamicFilteringData] = (),
        static: Sequence[PartitionFilter | DynamicFilteringData] = (),
    ) -> tuple[DataFrame, Report]:
        """Return a DataFrame that reads the matching files, and a report on the pruned files."""
        zone = session_time_zone(self.spark)
        return pruned_rows(self.spark, self.table.in_time_zone(zone), self.config, filters, static)


@contextmanager
def named_tables(
    spark: SparkSession, query: str, opened: ExitStack, *, has_parameters: bool = False
) -> Iterator[tuple[str, Mapping[str, NamedTable]]]:
    """Replace the tables of named catalogs in a query with temporary views.

    Yield the new text, and a mapping from the root path of each placeholder to its table. The views
    are dropped when the context exits, so Spark must analyze the query inside the context.

    Args:
        spark: Session of the query.
        query: Any SQL text.
        opened: Exit stack that receives the opened tables. The caller closes the stack after the
            query is planned.
        has_parameters: Whether there are values for parameter markers.

    Raises:
        SplitlibError: in the same cases as :func:`splitlib.load_table`.
        UnsupportedTable: if the query is a statement that changes a table of a named catalog, or
            that keeps a query on one, such as CREATE VIEW; for any such table on Spark Connect.
    """
    pieces = list(pieces_of(query))
    named = [p for p in pieces if len(p.parts) > 2]
    if named:  # the definitions of catalogs may be unreadable
        catalogs = named_catalogs(settings_of(spark))
        of_spark = {n for n in catalogs if spark.conf.get(f"spark.sql.catalog.{n}", None)}
        named = [p for p in named if p.parts[0] in catalogs and p.parts[0] not in of_spark]
    tables_read = _tables(spark, pieces, named) if named else set()
    if not tables_read:
        yield query, {}
        return
    _refuse_statements(pieces, named)
    _refuse_connect(spark, named)
    # Spark executes statements immediately, without the planner. So the views that replace their
    # tables must read whole tables, unless the planner plans the statement.
    prunable = internals_unavailable(spark) is None and (
        _is_query(spark, pieces, named, has_parameters=has_parameters)
        or (not has_parameters and _are_planned(spark, query, named, tables_read))
    )
    tables: dict[str, NamedTable] = {}
    frames: dict[tuple[str, ...], DataFrame] = {}
    for parts in sorted(tables_read):
        table = NamedTable.open(spark, ".".join(parts))
        opened.enter_context(table.table)
        if prunable and table.table.list_accepted_filter_fields():
            frames[parts], root = table.placeholder()
            tables[root] = table
        else:
            frames[parts], _ = table.load()
    views: dict[tuple[str, ...], str] = {}
    try:
        for parts, rows in frames.items():
            views[parts] = _view_of(rows, parts[-1])
        yield _with_views(spark, pieces, views), tables
    finally:
        for view in views.values():
            spark.catalog.dropGlobalTempView(view)


def _is_query(
    spark: SparkSession, pieces: Sequence[Piece], named: Sequence[Piece], *, has_parameters: bool
) -> bool:
    """Return whether a text is certainly a query. Raise Spark's error if it is not valid SQL."""
    text = _with_quotes(pieces, named)
    if not has_parameters:
        parsed_statement(spark, text)
    return is_certain_query(spark, text)


def _with_quotes(pieces: Sequence[Piece], named: Sequence[Piece]) -> str:
    """Return the text with quoted names of tables, as Spark requires for lake.2024.t."""
    ids = set(map(id, named))
    return "".join(quoted(*p.parts) if id(p) in ids else p.text for p in pieces)


def _refuse_statements(pieces: Sequence[Piece], named: Sequence[Piece]) -> None:
    for piece in named:
        if piece.is_changed:
            raise UnsupportedTable(
                "Tables of named catalogs can only be read.",
                hint="write to the table through a Spark catalog.",
                table=".".join(piece.parts),
            )
    if _KEEPS_TEXT.search(" ".join(p.text[:_LONGEST_WORD].upper() for p in pieces if p.parts)):
        raise UnsupportedTable(
            "Views and cached tables cannot keep a query on tables of named catalogs.",
            hint="use splitlib.sql(spark, 'SELECT …').createOrReplaceTempView(name).",
            table=".".join(named[0].parts),
        )


def _refuse_connect(spark: SparkSession, named: Sequence[Piece]) -> None:
    if not isinstance(spark, SparkSession):
        # The server analyzes a query each time it runs. By then, the views are dropped.
        raise UnsupportedTable(
            "Over Spark Connect, splitlib.sql cannot read tables of named catalogs.",
            hint="use splitlib.read(spark).table(…).load().createOrReplaceTempView(name).",
            table=".".join(named[0].parts),
        )


def _tables(
    spark: SparkSession, pieces: Sequence[Piece], named: Sequence[Piece]
) -> set[tuple[str, ...]]:
    """Return the parts of the name of each table that a query or statement names.

    Spark's parser finds the tables of a query. Other names may be columns: ``lake.a.b`` is a field
    of a struct if ``lake`` is also an alias. In any other text, a table's name has all parts after
    FROM or JOIN, otherwise the first 3. A name that begins with the name of another table is a
    column, as in ``EXTRACT(DAY FROM …)``.
    """
    if internals_unavailable(spark) is None:
        parsed = parsed_plan(spark, _with_quotes(pieces, named))
        if parsed is not None and is_query_plan(spark, parsed):
            of_catalogs = {piece.parts for piece in named}
            return of_catalogs.intersection(relations_in(Catalyst(spark), parsed))
    whole = {piece.parts for piece in named if piece.is_table or len(piece.parts) == 3}
    tables = {parts for parts in whole if _table_of(parts[:-1], whole) is None}
    others = (piece.parts for piece in named if _table_of(piece.parts, tables) is None)
    return tables | {parts[:3] for parts in others}


def _table_of(
    parts: tuple[str, ...], tables: Collection[tuple[str, ...]]
) -> tuple[str, ...] | None:
    """Return the table in ``tables`` whose name is the beginning of ``parts``, or None."""
    prefixes = (parts[:n] for n in range(len(parts), 2, -1))
    return next((prefix for prefix in prefixes if prefix in tables), None)


def _are_planned(
    spark: SparkSession, command: str, named: Sequence[Piece], tables: Collection[tuple[str, ...]]
) -> bool:
    """Return whether a command reads tables of named catalogs only where the planner replaces them.

    These parts are the query of INSERT and CREATE TABLE AS, and the source of MERGE.

    Args:
        spark: Session of the command.
        command: SQL text of a statement.
        named: The names in the text that start with a table's name, such as ``lake.db.t.column``.
        tables: The name of each table, split at its dots.
    """
    parsed = ParsedCommand.of(Catalyst(spark), command)
    if parsed is None or parsed.kind == "change" or parsed.replaces_by_condition:
        return False
    # A table may also be named where the planner does not read it, such as in a CTE or in a WHEN
    # clause of a MERGE. Then `planned` is smaller than the number of names in the text.
    planned = sum(name in tables for name in parsed.tables_read)
    return planned == sum(piece.parts in tables for piece in named)


def _view_of(rows: DataFrame, name: str) -> str:
    """Create a global temporary view and return its name.

    The name is ``name``, by which the query may qualify columns, or a generated one if a view of
    this name exists.
    """
    try:
        rows.createGlobalTempView(name)
    except AnalysisException:
        name = f"splitlib_{uuid.uuid4().hex}"
        rows.createGlobalTempView(name)
    return name


def _qualifiers(pieces: Sequence[Piece]) -> set[str]:
    """Return names in lower case that may qualify columns, as in ``t.a`` and ``t.*``, or hints."""
    found = {p.parts[0].lower() for p in pieces if len(p.parts) > 1}
    found |= {
        p.parts[0].lower() for p, after in pairwise(pieces) if p.parts and after.text[0] == "."
    }
    hints = (p.text.lower() for p in pieces if p.text.startswith("/*+"))
    return found.union(*(re.findall(r"\w+", text) for text in hints))


def _with_views(
    spark: SparkSession, pieces: Sequence[Piece], views: Mapping[tuple[str, ...], str]
) -> str:
    """Return the query's text with views in place of the tables of named catalogs."""
    database = str(spark.conf.get("spark.sql.globalTempDatabase", "global_temp"))
    texts = [piece.text for piece in pieces]
    tails = Counter(table[-2:] for table in views)
    own = {p.parts for p in pieces if len(p.parts) == 2}  # may be tables of the session
    by_tail = {t[-2:]: t for t in views if tails[t[-2:]] == 1 and t[-2:] not in own}
    qualifiers = _qualifiers(pieces)
    for i, piece in enumerate(pieces):
        table = _table_of(piece.parts, views)
        rest = () if table is None else piece.parts[len(table) :]
        if table is None and len(piece.parts) > 2:  # may be a column, qualified by ``db.t``
            table, rest = by_tail.get(piece.parts[:2]), piece.parts[2:]
        if table is None:
            continue
        view, last = views[table], table[-1]
        if rest:
            is_aliased = view != last and last.lower() in qualifiers
            texts[i] = quoted(*([last] if is_aliased else [database, view]), *rest)
            continue
        texts[i] = quoted(database, view)
        if view != last and last.lower() in qualifiers:
            # The table's name is added as an alias, because columns are qualified by it. If the
            # query itself has an alias for the table, the text with both aliases cannot be parsed,
            # so the added alias is removed.
            without, texts[i] = texts[i], f"{texts[i]} AS {quoted(last)}"
            if internals_unavailable(spark) is None and parsed_plan(spark, "".join(texts)) is None:
                texts[i] = without
    return "".join(texts)
