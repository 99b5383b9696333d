"""Tables of Parquet files for tests, by several writers, and what a full scan finds in them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData, SplitConfig

OLD_SECONDS = 1_600_000_000


def write(path: Path, table: pa.Table, writer: str = "pyarrow", **options: Any) -> None:
    """Write a file that is old enough for its statistics to be kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if writer == "pyarrow":
        pq.write_table(table, path, **options)
    elif writer == "duckdb":
        with duckdb.connect() as connection:
            connection.register("rows", table)
            connection.execute(f"COPY rows TO '{path}' (FORMAT parquet)")
    else:
        pl.from_arrow(table).write_parquet(path, statistics=True, row_group_size=2)  # type: ignore[union-attr]
    os.utime(path, (OLD_SECONDS, OLD_SECONDS))


def opened(root: Path, schema: pa.Schema, **options: Any) -> splitlib.Table:
    return splitlib.load_table(
        str(root), "files", schema=schema, partition_schema=pa.schema([]), **options
    )


def selected(
    table: splitlib.Table, *filters: DynamicFilteringData, **settings: Any
) -> tuple[set[str], DynamicFileEnumerator]:
    """Return the names of the selected files, and the enumerator that has selected them."""
    enumerator = DynamicFileEnumerator(table, SplitConfig(**settings))
    for data in filters:
        enumerator.set_dynamic_filtering_data(data)
    names = {Path(split.path).name for split in enumerator.enumerate_splits()}
    return names, enumerator


def files_with(root: Path, column: str, keys: Iterable[Any], read: Any = None) -> set[str]:
    """Return the names of the files that have a key, by a full scan with PyArrow."""
    wanted = {_comparable(key) for key in keys}
    found = set()
    for path in root.rglob("*.parquet"):
        values = (read or _values)(path, column)
        if not wanted.isdisjoint(map(_comparable, values)):
            found.add(path.name)
    return found


def _values(path: Path, column: str) -> Sequence[Any]:
    stored = pq.read_table(path)
    names = [name for name in stored.column_names if name.lower() == column.lower()]
    if not names:
        return [None] * stored.num_rows
    values: list[Any] = stored[names[0]].to_pylist()
    return values


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value
