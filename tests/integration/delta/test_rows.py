"""Every version of Spark reads the rows of Delta tables that deltalake or the test wrote."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import splitlib
from tests.support import delta_log
from tests.support.abilities import skip_unless_it_widens
from tests.support.delta_log import add, commit, field, metadata, protocol, remove

pytestmark = pytest.mark.spark


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t 1%"


def rows_of(spark: SparkSession, root: Path, **options: Any) -> list[tuple[Any, ...]]:
    read = splitlib.read(spark).table(str(root), connector="delta", **options).load()
    return sorted(map(tuple, read.collect()), key=repr)


def write(root: Path, name: str, **columns: list[Any]) -> None:
    root.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), root / name)


def test_rows_and_a_filter(spark: SparkSession, root: Path) -> None:
    days = ["a/b", "c d", None]
    rows = pa.table({"id": list(range(9)), "day": [day for day in days for _ in range(3)]})
    deltalake.write_deltalake(str(root), rows, partition_by=["day"])
    deltalake.DeltaTable(str(root)).delete("id = 4")
    expected = [(i, days[i // 3]) for i in range(9) if i != 4]
    assert rows_of(spark, root) == sorted(expected, key=repr)
    assert len(rows_of(spark, root, version=0)) == 9
    keys = splitlib.DynamicFilteringData.from_values({"day": ["c d"]})
    reader = splitlib.read(spark).table(str(root), connector="delta")
    found = reader.filtered_by(keys, on={"day": "day"}).load()
    assert sorted(map(tuple, found.collect())) == [(3, "c d"), (5, "c d")]


def test_deletion_vectors(spark: SparkSession, root: Path) -> None:
    for name in "abcd":
        write(root, name, c=[f"{name}{i}" for i in range(5)])
    commit(root, [protocol("deletionVectors"), metadata([field("c", "string")])])
    vectors = {
        "a": delta_log.inline_vector([0, 4]),
        "b": delta_log.stored_vector(root, [1]),
        "c": delta_log.stored_vector(root, list(range(5)), is_absolute=True),
    }
    size = {name: (root / name).stat().st_size for name in "abcd"}
    commit(root, [add(name, size=size[name]) for name in "abcd"])
    changes = [(remove(n), add(n, size=size[n], deletionVector=v)) for n, v in vectors.items()]
    commit(root, [entry for pair in changes for entry in pair])
    left = {"a": [1, 2, 3], "b": [0, 2, 3, 4], "d": range(5)}
    assert rows_of(spark, root) == [(f"{name}{i}",) for name, of in left.items() for i in of]
    assert len(rows_of(spark, root, version=1)) == 20


def test_columns_in_any_order_and_times_without_a_zone(spark: SparkSession, root: Path) -> None:
    write(root, "f", c=[1, 2])
    commit(root, [protocol(), metadata([field("p", "timestamp"), field("c", "long")], ["p"])])
    size = (root / "f").stat().st_size
    commit(root, [add("f", size=size, partitionValues={"p": "2024-01-01 12:00:00"})])
    read = splitlib.read(spark).table(str(root), connector="delta").load()
    assert read.columns == ["p", "c"]
    found = read.selectExpr("p = TIMESTAMP'2024-01-01 12:00:00'", "c").collect()
    assert sorted(map(tuple, found)) == [(True, 1), (True, 2)]


@pytest.mark.parametrize("kind", ["long", "integer"])
def test_renamed_and_widened_columns(spark: SparkSession, root: Path, kind: str) -> None:
    if kind == "long":
        skip_unless_it_widens(spark)
    changes = [{"fromType": "integer", "toType": "long"}] if kind == "long" else []
    inner = field("x", "string", **_mapped(3, "inner"))
    columns = [
        field("b", kind, **{**_mapped(1, "a"), "delta.typeChanges": changes}),
        field("a", {"type": "struct", "fields": [inner]}, **_mapped(2, "col-2")),
        field("late", "timestamp", **_mapped(4, "col-4")),
    ]
    root.mkdir(parents=True)
    table = pa.table({"a": pa.array([1, 2], pa.int32()), "col-2": [{"inner": "x"}, None]})
    pq.write_table(table, root / "f")
    mode = {"delta.columnMapping.mode": "name"}
    commit(root, [protocol("columnMapping", "typeWidening"), metadata(columns, **mode)])
    stats = {"numRecords": 2, "minValues": {"a": 1}, "maxValues": {"a": 2}, "nullCount": {"a": 0}}
    commit(root, [add("f", size=(root / "f").stat().st_size, stats=json.dumps(stats))])
    assert rows_of(spark, root) == [(1, ("x",), None), (2, None, None)]
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    for keys, rows in (({"b": [2**40]}, 0), ({"b": [2]}, 1), ({"late": [moment]}, 0)):
        data = splitlib.DynamicFilteringData.from_values(keys)
        reader = splitlib.read(spark).table(str(root), connector="delta")
        [name] = keys
        assert reader.filtered_by(data, on={name: name}).load().count() == rows


def _mapped(identifier: int, name: str) -> dict[str, Any]:
    return {"delta.columnMapping.id": identifier, "delta.columnMapping.physicalName": name}
