"""Saved statistics that this process has dropped or never loaded are loaded later."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib import SplitConfig
from splitlib.enumeration.analyze import analyze_table
from splitlib.statistics import known
from splitlib.statistics.store import ColumnKey, StatisticsStore
from tests.unit.statistics.tables import write

ITEM = ColumnKey("item", pa.int64())


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "LEARNED", StatisticsStore())


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

    def largest_first(self: known.SavedColumn, known: object = ()) -> Iterator[object]:
        parts = load(self, known)  # type: ignore[arg-type]
        return iter(sorted(parts, key=lambda part: -part[1].num_rows))  # type: ignore[union-attr]

    monkeypatch.setattr(known.SavedColumn, "load", largest_first)
    full = known.LEARNED.nbytes
    monkeypatch.setattr(known, "LEARNED", StatisticsStore(most_bytes=full - 1))
    files = next(splitlib.DynamicFileEnumerator(table).select_files()).files.files
    found = known.KnownStatistics(table, config).get(pa.schema([("item", pa.int64())]), files)
    assert found.columns["item"].null_count == 60
    assert not known.LEARNED.loaded(ITEM)


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
    own, save = known.LEARNED, known.SavedColumn.save

    def save_after_another(*args: object, **options: object) -> object:
        monkeypatch.setattr(known.SavedColumn, "save", save)
        monkeypatch.setattr(known, "LEARNED", StatisticsStore())
        query(by_day(root), 20, config, day=2)
        monkeypatch.setattr(known, "LEARNED", own)
        return save(*args, **options)  # type: ignore[arg-type, func-returns-value]

    monkeypatch.setattr(known.SavedColumn, "save", save_after_another)
    query(by_day(root), 10, config, day=1)
    enumerator = splitlib.DynamicFileEnumerator(
        by_day(root), config, filters=[{"item": [20]}, {"day": [2]}]
    )
    assert len(list(enumerator.enumerate_splits())) == 1
    assert enumerator.metrics.footers_read == 0
