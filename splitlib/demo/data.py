"""The two tables of the demo, made by DuckDB's TPC-DS generator as Hive lays tables out."""

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
    """What lies in the directory, and the answer that Spark must come to."""

    columns: dict[str, str]
    """By table: its columns in Spark's SQL, without the partition key."""
    keys: tuple[str | None, ...]
    """Partition values of the fact table, the null partition last."""
    expected_count: int
    """Rows of the join, by DuckDB."""
    expected_keys: frozenset[str]
    """Partitions that the join needs."""


def generate(directory: Path, scale: float) -> DemoData:
    """Write ``store_sales`` (a directory per day) and ``date_dim`` into ``directory``.

    Args:
        directory: An existing directory; each table gets one of its own in it.
        scale: TPC-DS scale factor; 1 is about a gigabyte of text.

    Raises:
        ConnectorNotInstalled: if the generator is not of DuckDB's version.
    """
    with open_with_generator(directory / "duckdb") as duckdb:
        duckdb.execute("CALL dsdgen(sf = ?)", [scale])
        # one writer that meets each day once: one file per day, the same ones every time
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
    """DuckDB with its TPC-DS extension, which is a Python package: nothing is downloaded."""
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
