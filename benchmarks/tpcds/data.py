"""TPC-DS tables as Parquet in Hive's layout, and in DuckDB for the expected results."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.tpcds.tables import FACTS
from splitlib.demo import open_with_generator

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LEAST_ROW_GROUP = 2048
_DATABASE, _EXTENSIONS, _CONTENTS = "tpcds.duckdb", "extensions", "contents.json"


@dataclass(frozen=True, slots=True)
class TableData:
    """One generated table."""

    columns: Mapping[str, str]
    """Types in Spark SQL, by column name. The partition key comes last."""
    keys: tuple[str | None, ...]
    """Values of the partition key. Empty if the table is not partitioned."""


@dataclass(frozen=True, slots=True)
class Data:
    """All tables of one scale. ``directory / table`` contains the Parquet files."""

    directory: Path
    tables: Mapping[str, TableData]

    @contextmanager
    def duckdb(self) -> Iterator[DuckDBPyConnection]:
        """Open the same tables in DuckDB, with nulls sorted as in Spark."""
        with _attached(self.directory, "(READ_ONLY)") as connection:
            connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
            yield connection


def prepare(directory: Path, scale: float, one_week_of: int = 1, *, by_item: bool = False) -> Data:
    """Generate the tables of a scale factor, unless an earlier call has generated them.

    Args:
        directory: Directory with a subdirectory for each scale.
        scale: TPC-DS scale factor; 1 is about a gigabyte of text.
        one_week_of: Keep the facts of only one in this many weeks. Every scale has 10,000 days
            of facts, and thus more files than a test has time for.
        by_item: Sort each day of facts by item, and write DuckDB's smallest row groups.
    """
    kept = directory / f"scale-{scale:g}-weeks-{one_week_of}{'-by-item' * by_item}"
    if not kept.exists():
        print(f"generating TPC-DS at scale {scale:g} ...", file=sys.stderr)
        building = kept.with_suffix(".building")
        shutil.rmtree(building, ignore_errors=True)  # left by an interrupted run
        building.mkdir(parents=True)
        _generate(building, scale, one_week_of, by_item=by_item)
        building.rename(kept)
    contents = json.loads((kept / _CONTENTS).read_text())
    tables = {name: TableData(t["columns"], tuple(t["keys"])) for name, t in contents.items()}
    return Data(kept, tables)


def _generate(directory: Path, scale: float, one_week_of: int, *, by_item: bool) -> None:
    with _attached(directory) as connection:
        connection.execute("CALL dsdgen(sf = ?)", [scale])
        for table, key in FACTS.items():
            connection.execute(f"DELETE FROM {table} WHERE {key} // 7 % ? <> 0", [one_week_of])
        # With one thread and sorted rows, each day has one file, the same in every run.
        connection.execute("SET threads = 1")
        names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
        tables = {name: _export(connection, directory, name, by_item=by_item) for name in names}
    contents = {name: asdict(table) for name, table in tables.items()}
    (directory / _CONTENTS).write_text(json.dumps(contents))


@contextmanager
def _attached(directory: Path, options: str = "") -> Iterator[DuckDBPyConnection]:
    with open_with_generator(directory / _EXTENSIONS) as connection:
        connection.execute(f"ATTACH '{_quoted(directory / _DATABASE)}' AS tpcds {options}")
        connection.execute("USE tpcds")
        yield connection


def _export(duckdb: DuckDBPyConnection, directory: Path, table: str, *, by_item: bool) -> TableData:
    key = FACTS.get(table)
    target = _quoted(directory / table)
    if key is None:
        (directory / table).mkdir()
        duckdb.execute(f"COPY {table} TO '{target}/data_0.parquet' (FORMAT parquet)")
        return TableData(_columns(duckdb, table), ())
    order, options = key, f"FORMAT parquet, PARTITION_BY ({key})"
    if by_item:
        order += f", {key.partition('_')[0]}_item_sk"
        options += f", ROW_GROUP_SIZE {_LEAST_ROW_GROUP}"
    duckdb.execute(f"COPY (FROM {table} ORDER BY {order}) TO '{target}' ({options})")
    columns = _columns(duckdb, table)
    columns[key] = columns.pop(key)
    values = duckdb.execute(f"SELECT DISTINCT {key} FROM {table} ORDER BY 1 NULLS LAST").fetchall()
    return TableData(columns, tuple(None if day is None else str(day) for (day,) in values))


def _columns(duckdb: DuckDBPyConnection, table: str) -> dict[str, str]:
    found = duckdb.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?"
        " ORDER BY column_index",
        [table],
    ).fetchall()
    return {name: kind.replace("VARCHAR", "STRING") for name, kind in found}


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
