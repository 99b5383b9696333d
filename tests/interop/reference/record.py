"""Record the rows and file counts of Iceberg's own reader. Tests compare splitlib with them.

The results are the file ``reference.json`` next to the catalog, and a Parquet file with the rows of
each version of each table.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tests.interop.reference.lake import CATALOG, Lake

OLDER_SNAPSHOTS = 1
"""Maximum number of older snapshots to record. For these, no joins are recorded."""

Version = dict[str, Any]
"""One recorded version of a table.

- ``options``: options of splitlib that select the version.
- ``schema``: schema of the rows in Spark's JSON format. All columns and fields are nullable.
- ``rows``: path of the Parquet file with the rows.
- ``joins``: one entry for each join. ``columns`` are its columns, ``null_safe`` is the kind of
  equality, and ``keys`` are the numbers of the rows that contain the join keys.
- ``files`` of a join: number of data files that Iceberg plans for the keys. If more files contain
  matching rows, it is their number.

Iceberg plans too few files in three cases. It treats -0.0 as less than 0.0. It cannot compare an
infinite float. For files without field ids, it uses the statistics of other columns.
"""
_FILE = "the file of this row"


def save(directory: Path, tables: Mapping[str, list[Version]]) -> None:
    """Write the index of all recorded versions."""
    catalog = {
        "catalog": CATALOG,
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"file://{directory}/warehouse",
    }
    index = {"catalog": catalog, "tables": tables}
    (directory / "reference.json").write_text(json.dumps(index, indent=1))


def record(lake: Lake, joins: Sequence[tuple[str, ...]], directory: Path) -> list[Version]:
    """Record the current table, some older snapshots, and every branch and tag."""
    home = directory / "rows" / lake.short_name
    home.mkdir(parents=True)
    versions: list[Version] = []
    for options, snapshot, df in _versions(lake):
        joined = "snapshot_id" not in options
        version = str(home / str(len(versions)))
        # In Iceberg, a null struct may have required fields. Spark and Arrow do not allow that, so
        # all fields are made nullable.
        schema = df._jdf.schema().asNullable().json()
        with_file = df.select("*", df.metadataColumn("_file").alias(_FILE))
        nullable = StructType.fromJson(json.loads(schema)).add(_FILE, "string")
        rows = with_file.to(nullable).toArrow()
        pq.write_table(rows.drop_columns(_FILE), f"{version}.parquet")
        versions.append(
            {
                "options": options,
                "schema": schema,
                "rows": f"{version}.parquet",
                "joins": list(_joins(lake, rows, joins, snapshot)) if joined else [],
            }
        )
    return versions


def _versions(lake: Lake) -> Iterator[tuple[dict[str, Any], int | None, DataFrame]]:
    table = lake.load()
    current = table.currentSnapshot()
    now = None if current is None else current.snapshotId()
    yield {}, now, lake.spark.table(lake.name)
    older = [s.snapshotId() for s in table.snapshots() if s.snapshotId() != now]
    for pinned in older[:: len(older) // OLDER_SNAPSHOTS + 1]:
        df = lake.spark.sql(f"SELECT * FROM {lake.name} VERSION AS OF {pinned}")
        yield {"snapshot_id": pinned}, pinned, df
    for name, ref in dict(table.refs()).items():
        if name != "main":
            df = lake.spark.sql(f"SELECT * FROM {lake.name} VERSION AS OF '{name}'")
            yield {"ref": name}, ref.snapshotId(), df


def _joins(
    lake: Lake, rows: pa.Table, joins: Sequence[tuple[str, ...]], snapshot: int | None
) -> Iterator[dict[str, Any]]:
    for columns in joins:
        if not set(columns) <= set(rows.column_names):
            continue  # this version of the table does not have the columns
        tuples = [tuple(row.values()) for row in rows.select(columns).to_pylist()]
        files = rows[_FILE].to_pylist()
        first = {repr(key): row for row, key in reversed(list(enumerate(tuples)))}
        order = [first[key] for key in sorted(first)]
        whole = [row for row in order if None not in tuples[row]]
        nulls = [row for row in order if None in tuples[row]]
        samples = [(False, whole[:: len(whole) // 3 + 1])]
        if nulls:
            samples.append((True, nulls[:1] + whole[:1]))
        for null_safe, sample in samples:
            keys = [tuples[row] for row in sample]
            wanted = {_comparable(key) for key in keys}
            pairs = zip(map(_comparable, tuples), files, strict=True)
            needed = {file for key, file in pairs if key in wanted}
            yield {
                "columns": list(columns),
                "null_safe": null_safe,
                "keys": sample,
                "files": max(_planned(lake, columns, keys, snapshot), len(needed)),
            }


def _comparable(key: tuple[Any, ...]) -> str:
    """Return a text that is equal for keys that a join treats as equal."""
    return repr([value + 0.0 if isinstance(value, float) else value for value in key])


def _planned(
    lake: Lake, columns: Sequence[str], keys: Sequence[tuple[Any, ...]], snapshot: int | None
) -> int:
    """Return the number of files that Iceberg plans for a filter on the given keys."""
    if snapshot is None:
        return 0
    make = lake.java.org.apache.iceberg.expressions.Expressions
    matching = make.alwaysFalse()
    for key in keys:
        whole = make.alwaysTrue()
        for name, value in zip(columns, key, strict=True):
            whole = getattr(make, "and")(whole, _equals(make, name, value))
        matching = getattr(make, "or")(matching, whole)
    tasks = lake.load().newScan().useSnapshot(snapshot).filter(matching).planFiles()
    paths = {task.file().location() for task in tasks.iterator()}
    tasks.close()
    return len(paths)


def _equals(make: Any, name: str, value: Any) -> Any:
    if value is None:
        return make.isNull(name)
    if isinstance(value, float) and math.isnan(value):
        return make.isNaN(name)
    if isinstance(value, dt.date):  # also true for ``datetime``, a subclass of ``date``
        value = value.isoformat()
    return make.equal(name, value)
