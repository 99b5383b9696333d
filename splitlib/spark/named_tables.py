"""Replace tables of named splitlib catalogs in a query's text with temporary views.

Each view is a placeholder without rows. After the join keys are collected, the planner replaces the
placeholder with a scan of the matching files.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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
from splitlib.spark.conversion import quoted, session_time_zone, spark_schema
from splitlib.spark.file_scan import FileScan
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.file_index import PINNED_ROOT
from splitlib.spark.jvm.gateway import dataframe_of_relation
from splitlib.spark.jvm.pinned_relation import pinned_relation
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.sql_parser import ParsedCommand, can_be_parsed, is_statement
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
_WORDS_BEFORE: Final = 6
_LONGEST_WORD: Final = 10
# Global temporary views have their own database, so a view can have the table's unqualified name,
# by which queries may qualify columns. All sessions share these views, so a lock protects them.
_VIEWS = "global_temp"
_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a query's text: a name, or text without names."""

    text: str
    """The text of this part, as in the query."""
    parts: tuple[str, ...] = ()
    """Parts of the name, such as ``("lake", "db", "t")``; empty if the text is not a name."""
    is_changed: bool = False
    """Whether the name follows keywords such as INSERT INTO, so the statement changes its table."""


def pieces_of(query: str) -> Iterator[Piece]:
    """Split a query into names and the text between them, in order."""
    words: deque[str] = deque(maxlen=_WORDS_BEFORE)
    start = 0
    while token := _TOKEN.search(query, start):
        if start < token.start():
            yield Piece(query[start : token.start()])
        start = _end_of_comment(query, token.end()) if token["comment"] else token.end()
        text = query[token.start() : start]
        if not token["name"]:
            yield Piece(text)
            continue
        yield Piece(text, _parts(text), _CHANGES.search(" ".join(words)) is not None)
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
        UnsupportedTable: if the query is a statement that changes a table of a named catalog.
    """
    catalogs = named_catalogs(settings_of(spark))
    names = {name for name in catalogs if not spark.conf.get(f"spark.sql.catalog.{name}", None)}
    if not any(name in query for name in names):
        yield query, {}
        return
    pieces = list(pieces_of(query))
    named = [p for p in pieces if len(p.parts) > 2 and p.parts[0] in names]
    if not named:
        yield query, {}
        return
    for piece in named:
        if piece.is_changed:
            raise UnsupportedTable(
                "Tables of named catalogs can only be read.",
                hint="write to the table through a Spark catalog.",
                table=".".join(piece.parts),
            )
    # Spark executes most statements immediately, without the planner. So the views that replace
    # their tables must read whole tables.
    prunable = internals_unavailable(spark) is None and (
        not is_statement(spark, query)
        or (not has_parameters and _are_planned(spark, query, [piece.parts for piece in named]))
    )
    with _one_at_a_time:
        views: dict[tuple[str, ...], str] = {}
        tables = {}
        try:
            for parts in sorted({piece.parts[:3] for piece in named}):
                table = NamedTable.open(spark, ".".join(parts))
                opened.enter_context(table.table)
                if prunable and table.table.list_accepted_filter_fields():
                    rows, root = table.placeholder()
                    tables[root] = table
                else:
                    rows, _ = table.load()
                views[parts] = _view_of(rows, parts[2])
            yield _with_views(spark, pieces, views), tables
        finally:
            for view in views.values():
                spark.catalog.dropGlobalTempView(view)


def _are_planned(spark: SparkSession, command: str, named: Sequence[tuple[str, ...]]) -> bool:
    """Return whether the planner plans all parts of a command that read tables of named catalogs.

    It plans the query of INSERT and CREATE TABLE AS, and the source of MERGE.

    Args:
        spark: Session of the command.
        command: SQL text of a statement.
        named: Parts of the names in the text that begin with the name of a table.
    """
    parsed = ParsedCommand.of(Catalyst(spark), command)
    if parsed is None or parsed.kind == "change" or parsed.replaces_by_condition:
        return False
    # Names with more parts are columns. A table that is named elsewhere, such as in a CTE or in a
    # WHEN clause of a MERGE, makes the first number smaller.
    planned = sum(name in named for name in parsed.tables_read)
    return planned == sum(len(parts) == 3 for parts in named)


def _view_of(rows: DataFrame, name: str) -> str:
    """Create a global temporary view and return its name.

    The name is ``name``, or a generated one if a view of this name exists.
    """
    try:
        rows.createGlobalTempView(name)
    except AnalysisException:
        name = f"splitlib_{uuid.uuid4().hex}"
        rows.createGlobalTempView(name)
    return name


def _with_views(
    spark: SparkSession, pieces: Sequence[Piece], views: Mapping[tuple[str, ...], str]
) -> str:
    """Return the query's text with views in place of the tables of named catalogs."""
    texts = [piece.text for piece in pieces]
    for i, piece in enumerate(pieces):
        view = views.get(piece.parts[:3])
        if view is None:
            continue
        *_, last = piece.parts[:3]
        if len(piece.parts) > 3:
            # A column is qualified by the full table name. Keep only the last part of that name.
            texts[i] = quoted(last, *piece.parts[3:])
            continue
        texts[i] = quoted(_VIEWS, view)
        if view != last:
            # The table's name is added as an alias, because columns may be qualified by it. If the
            # query itself has an alias for the table, the text with both aliases cannot be parsed,
            # so the added alias is removed.
            without, texts[i] = texts[i], f"{texts[i]} AS {quoted(last)}"
            if internals_unavailable(spark) is None and not can_be_parsed(spark, "".join(texts)):
                texts[i] = without
    return "".join(texts)
