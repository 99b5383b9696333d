"""An enumeration reads footers if they save work, and never drops a file that has a key."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData, SplitConfig
from splitlib.enumeration import footer_reads, learning
from splitlib.model import ColumnStatistics, FileBatch, FileSplit, ReadFormat, TableMetadata
from splitlib.reading.reader import read_split
from splitlib.statistics import known
from splitlib.statistics.store import StatisticsStore
from splitlib.storage import Storage, StoredFile
from splitlib_files import FilesConnector
from tests.unit.statistics.tables import OLD_SECONDS, files_with, opened, selected, write

SCHEMA = pa.schema([pa.field("item", pa.int64()), pa.field("name", pa.string())])


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "LEARNED", StatisticsStore())


def items(*values: Any) -> DynamicFilteringData:
    return DynamicFilteringData.from_arrow(pa.table({"item": pa.array(values, pa.int64())}))


def rows(values: Any) -> pa.Table:
    values = list(values)
    return pa.table({"item": pa.array(values, pa.int64()), "name": [f"n{v}" for v in values]})


def clustered(root: Path, files: int, each: int = 10) -> splitlib.Table:
    for number in range(files):
        write(root / f"{number:03}.parquet", rows(range(number * each, (number + 1) * each)))
    return opened(root, SCHEMA)


def test_files_without_keys_are_dropped(tmp_path: Path) -> None:
    table = clustered(tmp_path, 30)
    found, enumerator = selected(table, items(5, 117))
    assert found == {"000.parquet", "011.parquet"}
    metrics, report = enumerator.metrics, enumerator.explain()
    assert (metrics.footers_read, metrics.files_dropped["footers"]) == (30, 28)
    assert (report.files, report.row_groups) == ((2, 30), (2, 30))
    assert report.filters[0].used_fields == ("item",)
    assert report.filters[0].partitions_dropped is None  # the filter has no partition key
    assert "files 2 of 30, row groups 2 of 30 (from footers)" in str(report)
    assert "not used" not in str(report)


def test_footers_are_read_once(tmp_path: Path) -> None:
    table = clustered(tmp_path, 20)
    selected(table, items(5))
    found, enumerator = selected(opened(tmp_path, SCHEMA), items(33))
    assert (found, enumerator.metrics.footers_read) == ({"003.parquet"}, 0)
    # The footers of a few new files are read.
    write(tmp_path / "new.parquet", rows([33]))
    found, enumerator = selected(opened(tmp_path, SCHEMA), items(33))
    assert (found, enumerator.metrics.footers_read) == ({"003.parquet", "new.parquet"}, 1)


def test_a_file_that_was_replaced_is_not_believed(tmp_path: Path) -> None:
    table = clustered(tmp_path, 20)
    path = tmp_path / "015.parquet"
    plain: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    write(path, rows(range(150, 160)), **plain)
    selected(table, items(155))
    size = path.stat().st_size
    write(path, rows(range(250, 260)), **plain)
    assert path.stat().st_size == size
    os.utime(path, (OLD_SECONDS, OLD_SECONDS + 1))
    found, enumerator = selected(table, items(255))
    assert (found, enumerator.metrics.footers_read) == ({"015.parquet"}, 1)
    assert selected(table, items(155))[0] == set()


def test_files_replaced_within_the_precision_of_their_time_are_read_again(tmp_path: Path) -> None:
    table = clustered(tmp_path, 20)
    path = tmp_path / "000.parquet"
    os.utime(path)
    listed = path.stat()
    assert selected(table, items(5))[0] == {"000.parquet"}
    write(path, rows(range(200, 210)))
    os.utime(path, ns=(listed.st_atime_ns, listed.st_mtime_ns))
    assert selected(table, items(205))[0] == {"000.parquet"}


def test_a_column_that_may_be_null_because_of_its_case_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", pa.table({"item": pa.array([1, 2], pa.int64())}))
    null = DynamicFilteringData.from_arrow(pa.table({"ITEM": pa.nulls(1, pa.int64())}))
    same, other = (opened(tmp_path, pa.schema([(name, pa.int64())])) for name in ("item", "ITEM"))
    assert selected(same, null)[0] == set()
    # A session that compares names exactly reads null.
    assert selected(other, null)[0] == {"a.parquet"}


def test_a_file_that_changes_after_its_listing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = clustered(tmp_path, 20)
    read = Storage.read_end

    def changed(self: Storage, file: Any, length: int) -> bytes:
        os.utime(file.path, (OLD_SECONDS, OLD_SECONDS + 5))
        return read(self, file, length)

    monkeypatch.setattr(Storage, "read_end", changed)
    found, enumerator = selected(table, items(5))
    assert len(found) == 20
    assert "footers could not be read (16 files were sampled)" in str(enumerator.explain())


def test_wide_bounds_cost_a_sample_only(tmp_path: Path) -> None:
    shuffled = list(range(3000))
    random.Random(1).shuffle(shuffled)
    for number in range(100):
        write(tmp_path / f"{number}.parquet", rows(shuffled[number * 30 :][:30]))
    found, enumerator = selected(opened(tmp_path, SCHEMA), items(*range(0, 3000, 9)))
    assert len(found) == 100
    assert enumerator.metrics.footers_read == footer_reads.SAMPLED_FILES
    report = enumerator.explain()
    why = "item: most row groups have nearly all of its values (16 files were sampled)"
    assert f"not used: {why}" in str(report)
    assert (report.filters[0].used_fields, report.files.total) == ((), None)


@pytest.mark.parametrize(
    ("ends", "wanted"), [((10, 20), (5, 15)), ((10, 20), (5,)), ((20, 9), (15,))]
)
def test_half_of_the_row_groups_are_few(tmp_path: Path, ends: Any, wanted: Any) -> None:
    """Half of them overlap, or are kept, or both. The bounds of every second file begin at 0."""
    for number in range(40):
        first = 0 if number % 2 or ends[1] < 10 else 10
        write(tmp_path / f"{number}.parquet", rows(range(first, ends[number % 2 == 0])))
    found, enumerator = selected(opened(tmp_path, SCHEMA), items(*wanted))
    assert (len(found), enumerator.metrics.footers_read) == (20 * len(wanted), 40)


def test_an_unused_filter_names_the_reasons_of_the_table_and_of_its_footers(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path / f"{number}.parquet", rows(range(10)))
    pairs = DynamicFilteringData.from_values({"item": [5], "other": [1]})
    _, enumerator = selected(opened(tmp_path, SCHEMA), pairs)
    assert enumerator.explain().filters[0].unused_because == (
        "The table has no partition key and no statistics for other. Partition or cluster the "
        "table by other if such filters are frequent. item: most row groups have nearly all of its "
        "values (16 files were sampled). Sort the table by this column when it is written."
    )


def test_reading_ends_if_it_drops_few_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "FILES_TOGETHER", 1)
    monkeypatch.setattr(learning, "IN_PROGRESS", 1)
    table = clustered(tmp_path, 200)
    found, enumerator = selected(table, items(*range(0, 2000, 10)), listing_threads=1)
    assert len(found) == 200
    # Those of the first 64 files, and of the 10 sampled files after them.
    assert enumerator.metrics.footers_read == 64 + 10
    assert "footers excluded few files" in str(enumerator.explain())
    monkeypatch.setattr(known, "LEARNED", StatisticsStore())
    found, enumerator = selected(table, items(5), listing_threads=1)
    assert (found, enumerator.metrics.footers_read) == ({"000.parquet"}, 200)


def test_splits_without_a_matching_row_group_are_dropped(tmp_path: Path) -> None:
    write(tmp_path / "0.parquet", rows(range(1000)), row_group_size=100, compression="none")
    table = opened(tmp_path, SCHEMA)
    every, _ = splits_of(table, target_split_bytes=1000)
    found, enumerator = splits_of(table, items(5, 950), target_split_bytes=1000)
    assert 1 < len(found) < len(every) / 3
    assert enumerator.explain().row_groups == (2, 10)
    assert read_all(found) >= {5, 950}
    assert {split.split_id for split in found} <= {split.split_id for split in every}


def splits_of(
    table: splitlib.Table, *filters: DynamicFilteringData, **settings: Any
) -> tuple[list[FileSplit], DynamicFileEnumerator]:
    enumerator = DynamicFileEnumerator(table, SplitConfig(**settings))
    for data in filters:
        enumerator.set_dynamic_filtering_data(data)
    return list(enumerator.enumerate_splits()), enumerator


def read_all(splits: list[FileSplit]) -> set[Any]:
    column = pa.schema([SCHEMA.field("item")])
    return {
        value for split in splits for b in read_split(split, column) for value in b[0].to_pylist()
    }


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_rows_are_never_lost(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    root = tmp_path_factory.mktemp("table")
    numbers = st.integers(0, 40) | st.none()
    for number in range(data.draw(st.integers(1, 6))):
        values = data.draw(st.lists(numbers, min_size=1, max_size=8))
        if data.draw(st.booleans()):
            values.sort(key=lambda value: (value is None, value))
        writer = data.draw(st.sampled_from(["pyarrow", "duckdb", "polars"]))
        name = data.draw(st.sampled_from(["item", "item", "ITEM", "other"]))
        stored = pa.array(values, data.draw(st.sampled_from([pa.int64(), pa.int32()])))
        rows_per_group = {"row_group_size": 2} if writer == "pyarrow" else {}
        write(root / f"{number}.parquet", pa.table({name: stored}), writer, **rows_per_group)
    table = opened(root, SCHEMA)
    for _ in range(2):  # the second time, some are known
        keys = data.draw(st.lists(numbers, max_size=3))
        target = data.draw(st.sampled_from([50, 1 << 20]))
        filters = [items(*keys), DynamicFilteringData.from_range({"item": (0, 50)})]
        found, _ = splits_of(
            table, *filters[: data.draw(st.integers(1, 2))], target_split_bytes=target
        )
        wanted = {key for key in keys if key is not None}
        assert wanted & read_all(found) == wanted & read_all(splits_of(table)[0])
        if None in keys and len(filters) == 1:
            assert {Path(s.path).name for s in found} >= files_with(root, "item", [None])


def test_tuples_and_several_filters(tmp_path: Path) -> None:
    table = clustered(tmp_path, 20)
    both = DynamicFilteringData.from_values({"item": [5, 15], "name": ["n15", "n9"]})
    assert selected(table, both)[0] == {"000.parquet"}
    assert selected(table, items(5, 15), items(15, 25))[0] == {"001.parquet"}
    other = DynamicFilteringData.from_values({"name": ["n33"]})
    assert selected(table, items(33), other)[0] == {"003.parquet"}
    assert selected(table, items(33, 35), DynamicFilteringData.from_range({"item": (34, 99)}))[
        0
    ] == {"003.parquet"}


def test_partition_keys_and_data_columns_together(tmp_path: Path) -> None:
    for day in (1, 2):
        clustered(tmp_path / f"day={day}", 10)
    table = splitlib.load_table(str(tmp_path), "files", schema=SCHEMA)
    data = DynamicFilteringData.from_values({"day": [1, 2], "item": [5, 15]})
    _, enumerator = splits_of(table, DynamicFilteringData.from_values({"day": [1], "item": [5]}))
    assert enumerator.explain().filters[0].partitions_dropped == 1
    found, enumerator = splits_of(table, data)
    assert {split.path[len(str(tmp_path)) :] for split in found} == {
        "/day=1/000.parquet",
        "/day=2/001.parquet",
    }
    assert enumerator.explain().filters[0].used_fields == ("day", "item")
    assert splitlib.paths(table, items(5), DynamicFilteringData.from_values({"day": [2]})) == [
        f"{tmp_path}/day=2/000.parquet"
    ]


def test_a_filter_that_arrives_late(tmp_path: Path) -> None:
    enumerator = DynamicFileEnumerator(clustered(tmp_path, 20))
    enumerator.set_dynamic_filtering_data(items(5, 15, 25))
    with splitlib.DynamicFileSplitEnumerator(enumerator) as coordinator:
        coordinator.register_reader(0)
        found: list[str] = []
        while not isinstance(answer := coordinator.handle_split_request(0), splitlib.NoMoreSplits):
            if isinstance(answer, splitlib.AssignedSplit):
                found.append(Path(answer.split.path).name)
                coordinator.acknowledge([answer.split], 0)
                enumerator.set_dynamic_filtering_data(items(25, 35))
    assert found == ["000.parquet", "002.parquet"]


@pytest.mark.parametrize(
    "settings",
    [{"learn_statistics": False}, {"dynamic_filtering_enabled": False}],
)
def test_switched_off(tmp_path: Path, settings: dict[str, Any]) -> None:
    found, enumerator = selected(clustered(tmp_path, 20), items(5), **settings)
    assert (len(found), enumerator.metrics.footers_read) == (20, 0)


@pytest.mark.parametrize("form", ["orc", "json"])
def test_other_formats_have_no_footers(tmp_path: Path, form: str) -> None:
    (tmp_path / "0").write_bytes(b"x")
    table = splitlib.load_table(
        str(tmp_path), "files", schema=SCHEMA, partition_schema=pa.schema([]), format=form
    )
    _, enumerator = selected(table, items(5))
    assert enumerator.metrics.footers_read == 0
    assert "no partition key" in str(enumerator.explain())


def test_damaged_files_are_kept(tmp_path: Path) -> None:
    table = clustered(tmp_path, 20)
    (tmp_path / "000.parquet").write_bytes(b"PAR1 no footer PAR1")
    (tmp_path / "001.parquet").write_bytes(b"x")
    assert selected(table, items(25))[0] == {"000.parquet", "001.parquet", "002.parquet"}


def test_footers_are_read_with_the_options_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clustered(tmp_path, 20)
    used: list[Any] = []

    def read(self: Storage, file: Any, length: int) -> bytes:
        used.append(dict(self.given_options))
        raise OSError

    monkeypatch.setattr(Storage, "read_end", read)
    options = {"auto_mkdir": False}
    assert len(selected(opened(tmp_path, SCHEMA, storage_options=options), items(5))[0]) == 20
    assert used == [options] * 16


@pytest.fixture
def memory() -> Iterator[Any]:
    fs = fsspec.filesystem("memory")
    yield fs
    fs.store.clear()


def test_one_request_per_footer(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        with memory.open(f"/footers/{number:02}.parquet", "wb") as file:
            pq.write_table(rows([number]), file)
    asked: list[str] = []
    cat = type(memory).cat_file

    def counted(self: Any, path: str, **ends: int) -> bytes:
        asked.append(path)
        found: bytes = cat(self, path, **ends)
        return found

    monkeypatch.setattr(type(memory), "cat_file", counted)
    table = splitlib.load_table(
        "memory://footers", "files", schema=SCHEMA, partition_schema=pa.schema([])
    )
    found, enumerator = selected(table, items(3))
    assert found == {"03.parquet"}
    assert len(asked) == enumerator.metrics.footers_read == 20


def test_the_same_splits_at_any_parallelism(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(learning, "FIRST_FOOTERS", 20)
    monkeypatch.setattr(learning, "FILES_TOGETHER", 7)
    monkeypatch.setattr(learning, "IN_PROGRESS", 14)
    table, found = clustered(tmp_path, 100), []
    for threads in (1, 1, 4, 4):
        monkeypatch.setattr(known, "LEARNED", StatisticsStore())
        splits, _ = splits_of(table, items(*range(0, 500, 3)), listing_threads=threads)
        found.append([split.split_id for split in splits])
    assert found[0] == found[1] == found[2] == found[3]


class WithStatistics(FilesConnector):
    """The files of a directory, with statistics that a catalog could have."""

    def describe(self) -> TableMetadata:
        found = super().describe()
        return replace(found, filter_schema=found.schema, has_statistics=True)

    def list_files(self, partitions: Any, predicate: Any) -> Iterator[FileBatch]:
        for batch in super().list_files(partitions, predicate):
            stored = [pq.read_table(path)["item"] for path in batch.files["path"].to_pylist()]
            ends = [pc.min_max(column) for column in stored]
            statistics = ColumnStatistics(
                pa.array([end["min"].as_py() for end in ends], pa.int64()),
                pa.array([end["max"].as_py() for end in ends], pa.int64()),
                pa.array([column.null_count > 0 for column in stored]),
                pa.array([False] * len(stored)),
                pa.array([column.null_count < len(column) for column in stored]),
            )
            yield replace(batch, statistics={"item": statistics})


def test_given_and_learned_statistics_lead_to_the_same_splits(
    tmp_path: Path,
) -> None:
    drawn = random.Random(3)
    for number in range(24):
        values: list[int | None] = [drawn.randint(number, number + 9) for _ in range(4)]
        values = [None] * 4 if number == 7 else values
        write(tmp_path / f"{number:02}.parquet", pa.table({"item": pa.array(values, pa.int64())}))
    splitlib.register("given", WithStatistics)
    schema = pa.schema([SCHEMA.field("item")])
    learned = opened(tmp_path, schema)
    given = splitlib.load_table(
        str(tmp_path), "given", schema=schema, partition_schema=pa.schema([])
    )
    for keys in ([0], [5], [31], [99], [None], [3, None, 20], list(range(10, 20))):
        one, of_given = splits_of(given, items(*keys))
        other, of_learned = splits_of(learned, items(*keys))
        assert [split.split_id for split in one] == [split.split_id for split in other]
        dropped = (of_given.metrics.files_dropped, of_learned.metrics.files_dropped)
        assert dropped[0].get("statistics") == dropped[1].get("footers")
    assert of_given.metrics.footers_read == 0


def test_a_footer_that_claims_to_be_large_is_not_read(tmp_path: Path, monkeypatch: Any) -> None:
    table, asked = clustered(tmp_path, 20), []
    length = (40 << 20).to_bytes(4, "little")

    def claimed(self: Storage, file: Any, wanted: int) -> bytes:
        asked.append(wanted)
        return bytes(min(wanted, 100)) + length + b"PAR1"

    monkeypatch.setattr(Storage, "read_end", claimed)
    listed = StoredFile(f"{tmp_path}/000.parquet", 1 << 30, 1)
    assert footer_reads.read_rows(table, list(SCHEMA), SplitConfig(), listed) is None
    assert asked == [1 << 16]


@pytest.mark.parametrize(
    ("metadata", "learned"),
    [
        ({}, True),
        ({"comment": "x"}, True),
        ({"EXISTS_DEFAULT": "42"}, False),
        ({"CURRENT_DEFAULT": "42"}, False),
        ({"parquet.field.id": 3}, False),
    ],
)
def test_columns_with_metadata_of_spark(metadata: dict[str, Any], learned: bool) -> None:
    """Such a column has other values in files that do not have it, or another name."""
    columns = [{"name": "item", "type": "long", "nullable": True, "metadata": metadata}]
    table = TableMetadata(
        pa.schema([SCHEMA.field("item")]),
        (),
        ReadFormat("parquet"),
        spark_schema=json.dumps({"type": "struct", "fields": columns}),
    )
    assert bool(learning.learnable_columns(table, SplitConfig())) == learned
