"""Tuples of partition keys and data columns are compared as tuples, also by footers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData
from splitlib.filtering import matchers
from splitlib.hive.partition_values import NULL_PARTITION
from tests.unit.statistics.tables import write

SCHEMA = pa.schema([("item", pa.int64())])
KEYS = pa.schema([("day", pa.int32()), ("hour", pa.string())])

days = st.sampled_from([1, 2, None])
hours = st.sampled_from(["a", "b", None])
items = st.sampled_from([1, 2, 3, None])
tuples = st.tuples(days, hours, items)


def path_of(root: Path, day: object, hour: object) -> Path:
    names = [NULL_PARTITION if value is None else str(value) for value in (day, hour)]
    return root / f"day={names[0]}/hour={names[1]}"


def opened(root: Path) -> splitlib.Table:
    return splitlib.load_table(str(root), "files", schema=SCHEMA, partition_schema=KEYS)


def keys_of(rows: list[tuple[int | None, str | None, int | None]]) -> DynamicFilteringData:
    columns = [[row[i] for row in rows] for i in range(3)]
    kinds = [*KEYS.types, *SCHEMA.types]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    return DynamicFilteringData.from_arrow(pa.table(arrays, names=["day", "hour", "item"]))


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    files=st.lists(
        st.tuples(days, hours, st.lists(items, min_size=1, max_size=3)), min_size=1, max_size=6
    ),
    keys=st.lists(tuples, min_size=1, max_size=4),
    is_late=st.booleans(),
)
def test_files_are_kept_for_whole_tuples(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[tuple[int | None, str | None, list[int | None]]],
    keys: list[tuple[int | None, str | None, int | None]],
    is_late: bool,
) -> None:
    root = tmp_path_factory.mktemp("tuples")
    expected, needed = set(), set()
    for number, (day, hour, values) in enumerate(files):
        path = path_of(root, day, hour) / f"{number}.parquet"
        write(path, pa.table({"item": pa.array(values, pa.int64())}))
        plain = [value for value in values if value is not None]
        of_partition = [item for *partition, item in keys if partition == [day, hour]]
        if not {*of_partition}.isdisjoint(values):
            needed.add(path.name)
        if any(
            None in values if item is None else plain and min(plain) <= item <= max(plain)
            for item in of_partition
        ):
            expected.add(path.name)
    enumerator = DynamicFileEnumerator(opened(root), filters=[] if is_late else [keys_of(keys)])
    if is_late:
        enumerator.set_dynamic_filtering_data(keys_of(keys))
    found = {Path(split.path).name for split in enumerator.enumerate_splits()}
    assert needed <= found == expected


def test_partition_values_that_only_spark_can_parse(tmp_path: Path) -> None:
    """Such a partition may have any value, so it is kept for each tuple."""
    for day in ("1", "2", "0x1"):
        for item in (1, 2, 3):
            write(path_of(tmp_path, day, "a") / f"{item}.parquet", pa.table({"item": [item]}))
    keys = keys_of([(1, "a", 1), (2, "a", 2)])
    enumerator = DynamicFileEnumerator(opened(tmp_path), filters=[keys])
    paths = {"/".join(Path(s.path).parts[-3:]) for s in enumerator.enumerate_splits()}
    assert paths == {
        "day=1/hour=a/1.parquet",
        "day=2/hour=a/2.parquet",
        "day=0x1/hour=a/1.parquet",
        "day=0x1/hour=a/2.parquet",
    }


def test_few_tuples_are_compared_with_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only tuples of the file's own partition are compared, so the budget suffices."""
    for day in range(20):
        for item in range(20):
            path = path_of(tmp_path, day, "a") / f"{item:02}.parquet"
            write(path, pa.table({"item": [item]}))
    keys = keys_of([(day, "a", day) for day in range(20)])
    monkeypatch.setattr(matchers, "TUPLE_BUDGET", (20, 0, 0))
    enumerator = DynamicFileEnumerator(opened(tmp_path), filters=[keys])
    assert len(list(enumerator.enumerate_splits())) == 20


def test_the_sample_is_compared_with_whole_tuples(tmp_path: Path) -> None:
    """By the item alone, most files of the sample match, and no more footers would be read."""
    for day in range(20):
        for number in range(10):
            ends = [0, 600] if number < 6 else [400, 1000]
            write(path_of(tmp_path, day, "a") / f"{number}.parquet", pa.table({"item": ends}))
    keys = keys_of([*((day, "a", 900) for day in range(20)), (19, "a", 100)])
    enumerator = DynamicFileEnumerator(opened(tmp_path), filters=[keys])
    assert len(list(enumerator.enumerate_splits())) == 20 * 4 + 6
