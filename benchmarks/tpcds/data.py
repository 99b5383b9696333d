"""TPC-DS's tables as Parquet in Hive's layout, and in DuckDB, which knows the right answers."""

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
from splitlib.demo.data import open_with_generator

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DATABASE, _EXTENSIONS, _CONTENTS = "tpcds.duckdb", "extensions", "contents.json"


@dataclass(frozen=True, slots=True)
class TableData:
    """One table of a scale."""

    columns: Mapping[str, str]
    """Name to type, in Spark's SQL; the partition key comes last."""
    keys: tuple[str | None, ...]
    """Values of the partition key; none if the table is not partitioned."""


@dataclass(frozen=True, slots=True)
class Data:
    """All tables of a scale: ``directory / table`` holds the Parquet files."""

    directory: Path
    tables: Mapping[str, TableData]

    @contextmanager
    def duckdb(self) -> Iterator[DuckDBPyConnection]:
        """The same tables in DuckDB, sorting nulls where Spark sorts them."""
        with _attached(self.directory, "(READ_ONLY)") as connection:
            connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
            yield connection


def prepare(directory: Path, scale: float, one_week_of: int = 1) -> Data:
    """Generate a scale factor below ``directory``, or find it as an earlier call has left it.

    Args:
        directory: Kept by the caller; each scale has a directory of its own in it.
        scale: TPC-DS scale factor; 1 is about a gigabyte of text.
        one_week_of: Facts are left out but for one week of so many. However small the scale, there
            are 10,000 days of facts; a test has no time for as many files.
    """
    kept = directory / f"scale-{scale:g}-weeks-{one_week_of}"
    if not kept.exists():
        print(f"generating TPC-DS at scale {scale:g} ...", file=sys.stderr)
        building = kept.with_suffix(".building")
        shutil.rmtree(building, ignore_errors=True)  # of a run that was interrupted
        building.mkdir(parents=True)
        _generate(building, scale, one_week_of)
        building.rename(kept)
    contents = json.loads((kept / _CONTENTS).read_text())
    tables = {name: TableData(t["columns"], tuple(t["keys"])) for name, t in contents.items()}
    return Data(kept, tables)


def _generate(directory: Path, scale: float, one_week_of: int) -> None:
    with _attached(directory) as connection:
        connection.execute("CALL dsdgen(sf = ?)", [scale])
        for table, key in FACTS.items():
            connection.execute(f"DELETE FROM {table} WHERE {key} // 7 % ? <> 0", [one_week_of])
        # one writer that meets each day once: one file per day, the same ones every time
        connection.execute("SET threads = 1")
        names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
        tables = {name: _export(connection, directory, name) for name in names}
    contents = {name: asdict(table) for name, table in tables.items()}
    (directory / _CONTENTS).write_text(json.dumps(contents))


@contextmanager
def _attached(directory: Path, options: str = "") -> Iterator[DuckDBPyConnection]:
    with open_with_generator(directory / _EXTENSIONS) as connection:
        connection.execute(f"ATTACH '{_quoted(directory / _DATABASE)}' AS tpcds {options}")
        connection.execute("USE tpcds")
        yield connection


def _export(duckdb: DuckDBPyConnection, directory: Path, table: str) -> TableData:
    key = FACTS.get(table)
    target = _quoted(directory / table)
    if key is None:
        (directory / table).mkdir()
        duckdb.execute(f"COPY {table} TO '{target}/data_0.parquet' (FORMAT parquet)")
        return TableData(_columns(duckdb, table), ())
    duckdb.execute(
        f"COPY (FROM {table} ORDER BY {key}) TO '{target}' (FORMAT parquet, PARTITION_BY ({key}))"
    )
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
