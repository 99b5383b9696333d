"""Saved statistics of files that are gone are removed, and those of other files are kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib import SplitConfig
from splitlib.enumeration import analyze
from splitlib.enumeration.analyze import analyze_table
from splitlib.statistics import known
from splitlib.statistics.footers import GroupRow
from splitlib.statistics.row_groups import groups_array
from splitlib.statistics.store import ColumnKey, StatisticsStore
from tests.unit.statistics.tables import OLD_SECONDS, write

ITEM = ColumnKey("item", pa.int64())


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "LEARNED", StatisticsStore())


def learned() -> StatisticsStore:
    store: StatisticsStore = vars(known)["LEARNED"]
    return store


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SplitConfig:
    monkeypatch.setattr(known, "MOST_FILES", 4)
    return SplitConfig(statistics_location=str(tmp_path / "stats"))


def by_day(root: Path) -> splitlib.Table:
    schema = pa.schema([("item", pa.int64())])
    return splitlib.load_table(
        str(root), "files", schema=schema, partition_schema=pa.schema([("day", pa.int32())])
    )


def saved_rows(place: Path) -> list[str]:
    """Return the paths of all saved rows, relative to the table."""
    files = [pq.read_table(file) for file in place.rglob("*.parquet")]
    return [path.rpartition("/t/")[2] for path in pa.concat_tables(files)["path"].to_pylist()]


def query(table: splitlib.Table, item: int, config: SplitConfig, **keys: int) -> set[str]:
    filters = [{name: [value]} for name, value in {"item": item, **keys}.items()]
    enumerator = splitlib.DynamicFileEnumerator(table, config, filters=filters)
    return {"/".join(Path(split.path).parts[-2:]) for split in enumerator.enumerate_splits()}


def rewrite(directory: Path, number: int, files: int = 3) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    for i in range(files):
        path = directory / f"{number}-{i}.parquet"
        write(path, pa.table({"item": [number * 10 + i]}))


@pytest.mark.parametrize("learn", ["query", "analyze"])
def test_a_table_that_is_rewritten_many_times(tmp_path: Path, learn: str) -> None:
    place, root = tmp_path / "stats", tmp_path / "t"
    config = SplitConfig(statistics_location=str(place))
    for number in range(70):
        rewrite(root / "day=1", number)
        if learn == "analyze":
            analyze_table(by_day(root), config=config)
        else:
            assert query(by_day(root), number * 10, config) == {f"day=1/{number}-0.parquet"}
    assert len(saved_rows(place)) <= 3 * known.MOST_FILES
    assert {f"day=1/69-{i}.parquet" for i in range(3)} <= set(saved_rows(place))


def test_a_file_that_is_replaced_by_an_older_one(tmp_path: Path, config: SplitConfig) -> None:
    path = tmp_path / "t/day=1/0.parquet"
    for number in range(20, 0, -1):
        write(path, pa.table({"item": [number]}))
        os.utime(path, (OLD_SECONDS, OLD_SECONDS + number))
        assert query(by_day(tmp_path / "t"), number, config) == {"day=1/0.parquet"}
        saved = [pq.read_table(file) for file in (tmp_path / "stats").rglob("*.parquet")]
        times = pa.concat_tables(saved)["modified"].to_pylist()
        assert (OLD_SECONDS + number) * 1000 in times
        assert len(times) <= known.MOST_FILES


def test_rows_of_directories_that_a_query_does_not_list(
    tmp_path: Path, config: SplitConfig
) -> None:
    root, place = tmp_path / "t", tmp_path / "stats"
    for day in (1, 2, 3):
        rewrite(root / f"day={day}", day)
    analyze_table(by_day(root), config=config)
    shutil.rmtree(root / "day=3")
    for number in range(4, 20):
        rewrite(root / "day=1", number)
        assert query(by_day(root), number * 10, config, day=1) == {f"day=1/{number}-0.parquet"}
    found = set(saved_rows(place))
    assert {f"day=2/2-{i}.parquet" for i in range(3)} <= found
    assert {f"day=3/3-{i}.parquet" for i in range(3)} <= found
    for number in range(20, 24):  # the whole table is listed
        rewrite(root / "day=1", number)
        analyze_table(by_day(root), config=config)
    found = set(saved_rows(place))
    assert not any(path.startswith("day=3") for path in found)
    assert {f"day=2/2-{i}.parquet" for i in range(3)} <= found


def test_an_analysis_drops_nothing_before_it_has_listed_all_files(
    tmp_path: Path, config: SplitConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "t"
    rewrite(root / "day=1", 1, files=12)
    analyze_table(by_day(root), config=config)
    monkeypatch.setattr(analyze, "FILES_TOGETHER", 1)
    monkeypatch.setattr(analyze, "FILES_SAVED", 1)
    monkeypatch.setattr(known, "LEARNED", StatisticsStore())
    for i in range(6):  # these come first in the listing
        write(root / f"day=1/0-{i}.parquet", pa.table({"item": [i]}))
    save, saved = known.SavedColumn.save, []

    def checked(*args: object, **options: object) -> None:
        save(*args, **options)  # type: ignore[arg-type] # only passed on
        saved.append(set(saved_rows(tmp_path / "stats")))

    monkeypatch.setattr(known.SavedColumn, "save", checked)
    analyze_table(by_day(root), config=config)
    old = {f"day=1/1-{i}.parquet" for i in range(12)}
    assert len(saved) == 6
    assert all(old <= each for each in saved)


def test_a_process_with_an_older_listing(tmp_path: Path, config: SplitConfig) -> None:
    """The row of a newer file may be dropped. Then its footer is read again."""
    root, place = tmp_path / "t", tmp_path / "stats"
    rewrite(root / "day=1", 1)
    column = known.SavedColumn(str(place), "t", ITEM)
    groups = groups_array([[GroupRow(1, 2, False, True, False, 4, 900)]], pa.int64())

    def rows(path: str) -> pa.Table:
        return pa.table({"path": [path], "size": [1], "modified": [1], "groups": groups})

    for path in ("/t/a/new", "/t/b/1", "/t/a/0"):
        column.save(rows(path))
    listed = pa.concat_tables([rows("/t/a/0"), rows("/t/a/1")]).drop_columns("groups")
    column.save(rows("/t/a/1"), listed)
    assert sorted(saved_rows(place)) == ["a/0", "a/1", "a/new", "b/1"]
    column.save(rows("/t/a/1"), listed)
    assert sorted(saved_rows(place)) == ["a/0", "a/1", "b/1"]


def test_rows_that_the_store_drops_while_they_are_loaded(
    tmp_path: Path, config: SplitConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "t"
    rewrite(root / "day=1", 1, files=60)
    table = by_day(root)
    analyze_table(table, config=config)
    write(root / "day=1/2.parquet", pa.table({"item": [1000]}))
    analyze_table(table, config=config)
    load = known.SavedColumn.load

    def largest_first(self: Any, known: Any = ()) -> Iterator[Any]:
        parts: list[Any] = list(load(self, known))
        return iter(sorted(parts, key=lambda part: -part[1].num_rows))

    monkeypatch.setattr(known.SavedColumn, "load", largest_first)
    full = learned().nbytes
    monkeypatch.setattr(known, "LEARNED", StatisticsStore(most_bytes=full - 1))
    files = next(splitlib.DynamicFileEnumerator(table).select_files()).files.files
    found = known.KnownStatistics(table, config).get(pa.schema([("item", pa.int64())]), files)
    assert found.columns["item"].null_count == 60
    assert not learned().loaded(ITEM)


def test_saved_rows_of_other_processes_are_loaded_later(
    tmp_path: Path, config: SplitConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merging puts rows into a file of this process that another process has just saved."""
    root = tmp_path / "t"
    for day in (1, 2):
        rewrite(root / f"day={day}", day)
    for number in range(3, 6):
        rewrite(root / "day=3", number)
        query(by_day(root), 0, config, day=3)
    own, save = learned(), known.SavedColumn.save

    def save_after_another(*args: Any, **options: Any) -> None:
        monkeypatch.setattr(known.SavedColumn, "save", save)
        monkeypatch.setattr(known, "LEARNED", StatisticsStore())
        query(by_day(root), 20, config, day=2)
        monkeypatch.setattr(known, "LEARNED", own)
        save(*args, **options)

    monkeypatch.setattr(known.SavedColumn, "save", save_after_another)
    query(by_day(root), 10, config, day=1)
    enumerator = splitlib.DynamicFileEnumerator(
        by_day(root), config, filters=[{"item": [20]}, {"day": [2]}]
    )
    assert len(list(enumerator.enumerate_splits())) == 1
    assert enumerator.metrics.footers_read == 0


def test_analyze_counts_files_without_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite(tmp_path / "t/day=1", 1, files=3)
    table = by_day(tmp_path / "t")
    for number, seconds in enumerate((0, OLD_SECONDS, 4e9)):
        os.utime(tmp_path / f"t/day=1/1-{number}.parquet", (seconds, seconds))
    found = analyze_table(table)
    assert (found.files, found.learned, found.young, found.undated) == (3, 1, 1, 1)
    assert str(found).endswith(
        "; analyze 1 new files again in a moment; nothing is kept of 1 files without a "
        "modification time"
    )
    os.unlink(tmp_path / "t/day=1/1-1.parquet")
    os.unlink(tmp_path / "t/day=1/1-2.parquet")
    assert "again" not in str(analyze_table(table))
