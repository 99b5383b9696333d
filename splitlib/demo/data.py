"""Generate the two tables of the demo with DuckDB's TPC-DS extension, in Hive's layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from splitlib.errors import ConnectorNotInstalled

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FACT, KEY = "store_sales", "ss_sold_date_sk"
DIMENSION, DIMENSION_KEY = "date_dim", "d_date_sk"
CONDITION = "d_year = 2000 AND d_following_holiday = 'Y'"
QUERY = f"SELECT count(*) FROM {FACT} JOIN {DIMENSION} ON {KEY} = {DIMENSION_KEY} WHERE {CONDITION}"


@dataclass(frozen=True, slots=True)
class DemoData:
    """The generated tables, and the expected result of the query."""

    columns: dict[str, str]
    """Column definitions in Spark SQL, by table, without the partition key."""
    keys: tuple[str | None, ...]
    """Partition values of the fact table, with the null partition last."""
    expected_count: int
    """Number of rows of the join, as counted by DuckDB."""
    expected_keys: frozenset[str]
    """Values of the partitions that the join needs."""


def generate(directory: Path, scale: float) -> DemoData:
    """Write ``store_sales`` (a directory per day) and ``date_dim`` into ``directory``.

    Args:
        directory: An existing directory. Each table is written to a subdirectory.
        scale: TPC-DS scale factor; 1 is about a gigabyte of text.

    Raises:
        ConnectorNotInstalled: if there is no generator for DuckDB's version.
    """
    with open_with_generator(directory / "duckdb") as duckdb:
        duckdb.execute("CALL dsdgen(sf = ?)", [scale])
        # With one thread and sorted rows, DuckDB writes one file per day, the same in every run.
        duckdb.execute("SET threads = 1")
        duckdb.execute(
            f"COPY (FROM {FACT} ORDER BY {KEY}) TO '{_quoted(directory / FACT)}'"
            f" (FORMAT parquet, PARTITION_BY ({KEY}))"
        )
        (directory / DIMENSION).mkdir()
        file = directory / DIMENSION / "data_0.parquet"
        duckdb.execute(f"COPY {DIMENSION} TO '{_quoted(file)}' (FORMAT parquet)")
        keys = _column(duckdb, f"SELECT DISTINCT {KEY} FROM {FACT} ORDER BY 1 NULLS LAST")
        [count] = _column(duckdb, QUERY)
        needed = _column(duckdb, QUERY.replace("count(*)", f"DISTINCT {KEY}"))
        columns = {table: _columns(duckdb, table) for table in (FACT, DIMENSION)}
    return DemoData(
        columns=columns,
        keys=tuple(None if key is None else str(key) for key in keys),
        expected_count=int(str(count)),
        expected_keys=frozenset(str(key) for key in needed),
    )


def open_with_generator(extensions: Path) -> DuckDBPyConnection:
    """Open DuckDB with its TPC-DS extension from a Python package, without a download."""
    import duckdb
    import duckdb_extension_tpcds  # type: ignore[import-untyped]  # no types

    [package, *_] = duckdb_extension_tpcds.__path__
    found = sorted(Path(package).rglob(f"v{duckdb.__version__}/tpcds.duckdb_extension*"))
    if not found:
        raise ConnectorNotInstalled(
            f"duckdb-extension-tpcds has no extension for DuckDB {duckdb.__version__}.",
            hint="pip install 'splitlib[demo]'",
        )
    connection = duckdb.connect(config={"extension_directory": str(extensions)})
    connection.execute(f"INSTALL '{_quoted(found[0])}'")
    connection.execute("LOAD tpcds")
    return connection


def _columns(duckdb: DuckDBPyConnection, table: str) -> str:
    rows: Sequence[tuple[str, str]] = duckdb.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?"
        " AND column_name <> ? ORDER BY column_index",
        [table, KEY],
    ).fetchall()
    return ", ".join(f"{name} {kind.replace('VARCHAR', 'STRING')}" for name, kind in rows)


def _column(duckdb: DuckDBPyConnection, query: str) -> list[object]:
    return [value for (value,) in duckdb.execute(query).fetchall()]


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
