"""Parquet files of other writers, without field ids. The table's name mapping assigns columns."""

from __future__ import annotations

from tests.interop.reference.lake import Lake
from tests.interop.reference.recipe import recipe


def _others(lake: Lake, query: str, *partitioned_by: str) -> str:
    """Write the result of a query as Parquet files, without Iceberg. Return their directory."""
    directory = f"{lake.root}/others/{lake.short_name}"
    lake.spark.sql(query).coalesce(1).write.partitionBy(*partitioned_by).parquet(directory)
    return directory


def _add(lake: Lake, directory: str) -> None:
    lake.call("add_files", f"source_table => '`parquet`.`{directory}`'")


@recipe("a", "id", formats=(1, 2, 3), misleading=frozenset({"a"}))
def added_files(lake: Lake) -> None:
    lake.create("id BIGINT, a INT, b INT, s STRUCT<x: INT, y: STRING>, l ARRAY<INT>")
    query = """SELECT id, CAST(id AS INT) AS a, CAST(id + 100 AS INT) AS b,
                      named_struct('x', 1, 'y', 'y') AS s, array(1, NULL) AS l FROM range(6)"""
    _add(lake, _others(lake, query))
    lake.insert("(100, 1, 2, NULL, NULL)")
    lake.alter("RENAME COLUMN a TO c", "RENAME COLUMN b TO a", "RENAME COLUMN c TO b")
    lake.alter("RENAME COLUMN s.x TO z", "ALTER COLUMN a TYPE BIGINT")
    lake.insert("(101, 101, 1, named_struct('z', 5, 'y', NULL), array(7))")
    if lake.format_version > 1:
        lake.sql("DELETE FROM {t} WHERE id IN (2, 100)")


@recipe("r", "q", "id", ("r", "q"), formats=(2, 3))
def added_partitions(lake: Lake) -> None:
    """The files do not contain the partition columns. Only their paths have these values."""
    lake.create("id BIGINT, p INT, q STRING", "p, q")
    query = """SELECT id, CAST(id % 3 AS INT) AS p, IF(id % 2 = 0, 'a b/%20', NULL) AS q
               FROM range(12)"""
    _add(lake, _others(lake, query, "p", "q"))
    lake.insert("(100, 1, 'a b/%20'), (101, 2, 'é')")
    lake.sql("DELETE FROM {t} WHERE id IN (2, 100)")
    lake.alter("RENAME COLUMN p TO r", "ALTER COLUMN r TYPE BIGINT")


@recipe("id", "a", misleading=frozenset({"a"}))
def added_files_with_a_name_used_again(lake: Lake) -> None:
    """A new column with a dropped column's name must not return the dropped column's values."""
    lake.create("id BIGINT, a INT, b STRING")
    _add(lake, _others(lake, "SELECT id, CAST(id AS INT) AS a, 'x' AS b FROM range(4)"))
    lake.alter("DROP COLUMN a", "ADD COLUMN a INT", "ADD COLUMN absent STRING")
    lake.insert("(10, 'y', 1, 'there')")
