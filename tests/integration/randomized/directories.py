"""Random directories of Parquet files, written by six programs such as Spark and pandas."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.tpcds.settings import changed
from splitlib.spark.conversion import quoted
from tests.integration.randomized.choices import some_of

KEY_NAMES: Final = (
    "k", "dt", "Hour", "a b", "x=y", "p/q", "t:z", "per%cent", "café", "order", "null", "n.m",
    "back`tick", "star*", "[b]", "#h", "quote'", 'double"',
)  # fmt: skip
"""Possible names of partition keys. Most of them are escaped in directory names."""

KEY_VALUES: Final[Mapping[str, Sequence[Any]]] = {
    "int": (0, 6, 12, -3),
    "padded": ("01", "1", "002"),
    "long": (3_000_000_000, 1, -3_000_000_000),
    "huge": ("12345678901234567890", "1"),
    "decimal": ("1.50", "2.25", "-0.75"),
    "double": ("1e3", "2.5", "0.1"),
    "date": ("2024-01-01", "2024-02-29", "1999-12-31"),
    "loose date": ("2024-1-1", "2024-02-29"),
    "timestamp": ("2024-01-01 00:00:00", "2024-06-30 12:34:56"),
    "mixed": ("1", "a", "2024-01-01"),
    "dates and ints": ("2024-01-01", "7"),
    "boolean": ("true", "false"),
    "text": ("a", "B", "c d", "it's"),
    "special": ("x=y", "p/q", "t:z", "50%", "%41", "a#b", "[b]", "{c}", "q?", "st*r"),
    "foreign": ("café", "日本", "ß", "Straße", "emoji 😀"),
    "blank": ("a", " a", "a "),
}
"""Possible partition values, by the kind of values of a key."""

_NULLS: Final = 0.25


def _data(kind: str, rows: int) -> pa.Array:
    """Return a data column with values of a kind. The last value is null."""
    numbers: list[int | None] = [*range(1, rows), None]
    make: Mapping[str, Callable[[], pa.Array]] = {
        "text": lambda: pa.array([None if n is None else f"t{n}" for n in numbers]),
        "date": lambda: pa.array(numbers, pa.int32()).cast(pa.date32()),
        "timestamp": lambda: pa.array(numbers, pa.int64()).cast(pa.timestamp("us")),
        "instant": lambda: pa.array(numbers, pa.int64()).cast(pa.timestamp("us", "UTC")),
        "millis": lambda: pa.array(numbers, pa.int64()).cast(pa.timestamp("ms")),
        "decimal": lambda: pa.array(
            [None if n is None else Decimal(n) / 4 for n in numbers], pa.decimal128(9, 2)
        ),
        "bool": lambda: pa.array([None if n is None else n % 2 == 0 for n in numbers]),
        "binary": lambda: pa.array([None if n is None else bytes([n]) for n in numbers]),
        "list": lambda: pa.array([None if n is None else [n, n + 1] for n in numbers]),
        "struct": lambda: pa.array([None if n is None else {"a": n, "b": "x"} for n in numbers]),
    }
    if kind in make:
        return make[kind]()
    return pa.array(numbers, pa.int64()).cast(kind)


_EVERYWHERE: Final = (
    "int8", "int16", "int32", "int64", "float", "double", "text", "date", "instant", "decimal",
    "bool", "binary", "list", "struct",
)  # fmt: skip
_UNSIGNED: Final = "uint8", "uint16", "uint32", "uint64"
DATA_KINDS: Final = {
    "spark": (*_EVERYWHERE, "timestamp"),
    "hive": (*_EVERYWHERE, "timestamp"),
    "pyarrow": (*_EVERYWHERE, *_UNSIGNED, "timestamp", "millis"),
    "polars": (*_EVERYWHERE, *_UNSIGNED, "timestamp", "millis"),
    "duckdb": (*_EVERYWHERE, *_UNSIGNED, "timestamp"),
    "pandas": (*_EVERYWHERE, *_UNSIGNED, "timestamp", "millis"),
}
"""Kinds of data columns that a writer supports, by name of the writer."""


@dataclass(frozen=True)
class Directory:
    """Description of a random directory: its writer, its columns and its rows."""

    seed: int
    writer: str
    keys: tuple[tuple[str, str], ...]
    """Name and kind of values of each partition key."""
    data: tuple[str, ...]
    """Kinds of the data columns."""
    rows: int
    nulls: bool
    """Whether all partition keys of the last row are null."""
    moved: str
    """Name of a subdirectory to which half of the files are moved; empty if no files are moved."""
    extra: str
    """Name of an additional file without rows; empty if there is no such file."""


def draw_directory(seed: int) -> Directory:
    """Return the random directory for a seed. The same seed gives the same directory."""
    drawn = random.Random(seed)
    writer = drawn.choice(list(DATA_KINDS))
    names = some_of(drawn, KEY_NAMES, drawn.choice((0, 1, 1, 1, 2)))
    keys = tuple((name, drawn.choice(list(KEY_VALUES))) for name in names)
    data = some_of(drawn, DATA_KINDS[writer], drawn.randint(1, 4))
    moved = drawn.choice(("", "", "", "HIVE_UNION_SUBDIR_1", "sub", "_hidden", ".dot"))
    extra = drawn.choice(("", "", "_SUCCESS", ".part.crc", "_started_1"))
    nulls = drawn.random() < _NULLS
    return Directory(seed, writer, keys, tuple(data), drawn.randint(4, 9), nulls, moved, extra)


def rows_of(directory: Directory) -> pa.Table:
    """Return the rows to write: ``id``, data columns, then partition keys."""
    columns = {"id": pa.array(range(directory.rows), pa.int64())}
    columns |= {f"c{i}": _data(kind, directory.rows) for i, kind in enumerate(directory.data)}
    for place, (name, kind) in enumerate(directory.keys):
        values = KEY_VALUES[kind]
        keys = [values[(n + place) % len(values)] for n in range(directory.rows)]
        if directory.nulls:
            keys[-1] = None
        columns[name] = pa.array(keys)
    return pa.table(columns)


def write(spark: SparkSession, directory: Directory, root: Path) -> None:
    """Write the files of a random directory.

    Args:
        spark: The session with which the writers ``spark`` and ``hive`` write.
        directory: Description of the directory.
        root: Path of the directory, which must not exist yet.
    """
    rows, names = rows_of(directory), [name for name, _ in directory.keys]
    _WRITERS[directory.writer](spark, rows, names, root)
    if directory.moved:
        files = [path for path in root.rglob("*") if path.is_file() and _is_data(path)]
        for path in files[::2]:
            moved = path.parent / directory.moved
            moved.mkdir()
            shutil.move(path, moved / path.name)
    if directory.extra:
        (root / directory.extra).write_bytes(b"no rows")


def _is_data(path: Path) -> bool:
    return not path.name.startswith(("_", "."))


def _by_spark(spark: SparkSession, rows: pa.Table, names: list[str], root: Path) -> None:
    df = spark.createDataFrame(rows).repartition(2)
    df.write.partitionBy(*names).parquet(str(root))


def _by_hive(spark: SparkSession, rows: pa.Table, names: list[str], root: Path) -> None:
    df = spark.createDataFrame(rows)
    # Hive's SerDe converts column names to lower case, and rejects names with dots or quotes.
    table = f"default.hive_writer_{root.name}"
    columns = ", ".join(
        f"{quoted(f.name)} {f.dataType.simpleString()}" for f in df.schema if f.name not in names
    )
    keys = ", ".join(f"{quoted(name)} {df.schema[name].dataType.simpleString()}" for name in names)
    by = f"PARTITIONED BY ({keys})" if names else ""
    spark.sql(f"CREATE TABLE {table} ({columns}) {by} STORED AS PARQUET LOCATION '{root}'")
    try:
        settings = {
            "spark.sql.hive.convertMetastoreParquet": "false",
            "spark.sql.hive.convertInsertingPartitionedTable": "false",
        }
        with changed(spark, settings):
            df.createOrReplaceTempView("hive_writer_rows")
            spark.sql(f"INSERT INTO {table} SELECT * FROM hive_writer_rows")
    finally:
        spark.catalog.dropTempView("hive_writer_rows")
        spark.sql(f"DROP TABLE {table}")


def _by_pyarrow(spark: SparkSession, rows: pa.Table, names: list[str], root: Path) -> None:
    del spark
    fields = pa.schema([rows.schema.field(name) for name in names])
    partitioning = pads.partitioning(fields, flavor="hive") if names else None
    pads.write_dataset(rows, root, format="parquet", partitioning=partitioning)


def _by_polars(spark: SparkSession, rows: pa.Table, names: list[str], root: Path) -> None:
    del spark
    frame = pl.DataFrame(rows)
    if names:
        frame.write_parquet(root, partition_by=names)
    else:
        root.mkdir()
        frame.write_parquet(root / "part.parquet")


def _by_duckdb(spark: SparkSession, rows: pa.Table, names: list[str], root: Path) -> None:
    del spark
    by = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        if names:
            options = f"FORMAT parquet, PARTITION_BY ({by})"
            connection.execute(f"COPY (SELECT * FROM rows) TO '{root}' ({options})")
        else:
            root.mkdir()
            connection.execute(f"COPY (SELECT * FROM rows) TO '{root}/p.parquet' (FORMAT parquet)")


def _by_pandas(spark: SparkSession, rows: pa.Table, names: list[str], root: Path) -> None:
    del spark
    frame = rows.to_pandas()
    if names:
        frame.to_parquet(root, partition_cols=names)
    else:
        root.mkdir()
        pq.write_table(pa.Table.from_pandas(frame), root / "part.parquet")


_WRITERS: Final = {
    "spark": _by_spark,
    "hive": _by_hive,
    "pyarrow": _by_pyarrow,
    "polars": _by_polars,
    "duckdb": _by_duckdb,
    "pandas": _by_pandas,
}
