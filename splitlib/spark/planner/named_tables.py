"""Tables of named splitlib catalogs in SQL: ``SELECT … FROM lake.db.t`` with ``lake`` a catalog.

While a query is analyzed such a table is a relation of no files under its name; only when the keys
of its joins are known it is opened up, by splitlib's own enumeration.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from splitlib.config import SplitConfig
from splitlib.filtering import DynamicFilteringData
from splitlib.model import FILE_SCHEMA
from splitlib.predicate import PartitionFilter
from splitlib.registry import load_table, named_catalogs
from splitlib.report import ScanReport
from splitlib.spark.file_scan import FileScan
from splitlib.spark.pinned_scan import pinned_relation, why_not_pinned
from splitlib.spark.pruned_rows import pruned_rows
from splitlib.spark.settings import settings_of
from splitlib.spark.types import spark_schema
from splitlib.table import Table

# What is left as it is, and names of several parts.
_TOKEN = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|--[^\n]*|/\*.*?\*/"""
    r"""|(?P<name>(?:`[^`]+`|\w+)(?:\s*\.\s*(?:`[^`]+`|\w+))+)""",
    re.DOTALL,
)
# Global temporary views are the only ones that a name of several parts can mean, and the last part
# of the name stays, by which columns may be qualified. All sessions share them.
_VIEWS = "global_temp"
_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class NamedTable:
    """One table of a named catalog, pinned when it was opened."""

    spark: SparkSession
    table: Table
    config: SplitConfig

    @classmethod
    def open(cls, spark: SparkSession, name: str) -> Self:
        """The table as it is now; errors as of :func:`splitlib.load_table`."""
        config = SplitConfig.resolve(spark_conf=settings_of(spark))
        return cls(spark, load_table(name, spark=spark, config=config), config)

    def placeholder(self) -> tuple[DataFrame, str]:
        """Its columns and no rows; and the root by which that is found in a plan."""
        scan = FileScan(
            format="parquet",
            options={},
            data_schema=spark_schema(self.table.metadata),
            partition_schema=StructType(),
            partitions=pa.table({}),
            files=FILE_SCHEMA.empty_table(),
        )
        relation: Any = pinned_relation(self.spark, scan)
        # not there where only a Connect client is installed
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

        jdf = self.spark._jsparkSession.baseRelationToDataFrame(relation)
        root = str(relation.location().rootPaths().head())
        return ClassicDataFrame(jdf, self.spark), root

    def load(
        self,
        filters: Sequence[DynamicFilteringData] = (),
        static: Sequence[PartitionFilter | DynamicFilteringData] = (),
    ) -> tuple[DataFrame, ScanReport]:
        """The rows of the files that matter, and how they were selected."""
        zone = str(self.spark.conf.get("spark.sql.session.timeZone"))
        return pruned_rows(self.spark, self.table.in_time_zone(zone), self.config, filters, static)


@contextmanager
def named_tables(spark: SparkSession, query: str) -> Iterator[tuple[str, Mapping[str, NamedTable]]]:
    """The query with its named tables as views, for as long as it takes to analyze it.

    Yields the text, and the tables that are still to be opened up, by the root of each.

    Raises:
        SplitlibError: as :func:`splitlib.load_table`.
    """
    catalogs = named_catalogs(settings_of(spark))
    names = {name for name in catalogs if not spark.conf.get(f"spark.sql.catalog.{name}", None)}
    found = {parts[:3] for parts in _names(query) if parts[0] in names and len(parts) > 2}
    if not found:
        yield query, {}
        return
    with _one_at_a_time:
        views: dict[tuple[str, ...], str] = {}
        tables = {}
        try:
            for parts in sorted(found):
                view = parts[2] if parts[2] not in views.values() else "_".join(parts)
                table = NamedTable.open(spark, ".".join(parts))
                # nothing depends on keys where there are none, or no plan to find them in
                if table.table.partition_keys and why_not_pinned(spark) is None:
                    rows, root = table.placeholder()
                    tables[root] = table
                else:
                    rows, _ = table.load()
                rows.createGlobalTempView(view)
                views[parts] = view
            yield _TOKEN.sub(lambda token: _renamed(token, views), query), tables
        finally:
            for view in views.values():
                spark.catalog.dropGlobalTempView(view)


def _names(query: str) -> Iterator[tuple[str, ...]]:
    for token in _TOKEN.finditer(query):
        if token["name"]:
            yield _parts(token["name"])


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part.strip("`") for part in re.findall(r"`[^`]+`|\w+", name))


def _renamed(token: re.Match[str], views: Mapping[tuple[str, ...], str]) -> str:
    parts = _parts(token["name"] or "")
    view = views.get(parts[:3])
    if view is None:
        return token[0]
    # a column that is qualified by the whole name is qualified by the last part just as well
    rest = [view, *parts[3:]] if len(parts) > 3 else [_VIEWS, view]
    return ".".join(f"`{part}`" for part in rest)
