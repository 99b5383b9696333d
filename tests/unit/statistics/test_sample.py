"""Which footers belong to the sample, and how long files wait for it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib import (
    DynamicFileEnumerator,
    DynamicFilteringData,
    DynamicFilteringDataCollector,
    SplitConfig,
)
from splitlib.enumeration.footer_reads import SAMPLED_FILES
from splitlib.remote.calls import BoundedCalls, Task
from splitlib.statistics import known
from splitlib.statistics.store import StatisticsStore
from tests.unit.statistics.tables import write

FILES = 100
EVERY = range(0, FILES * 10)


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "LEARNED", StatisticsStore())


@pytest.fixture
def calls_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each call to the storage end before the next one starts."""

    def submit(self: BoundedCalls, work: Callable[[], Any], most_seconds: float = 0) -> Task[Any]:
        task = Task(work, most_seconds)
        task.run()
        return task

    monkeypatch.setattr(BoundedCalls, "submit", submit)


def write_items(path: Path, *values: int) -> None:
    write(path, pa.table({"item": pa.array(values, pa.int64())}))


def write_file(root: Path, number: int, each: int, *, clustered: bool) -> None:
    """Write the file ``number`` of a table with ``each`` files in a partition."""
    path = root / f"day={number // each:03}/{number:03}.parquet"
    own = number * 10
    write_items(path, *((own, own + 9) if clustered else (0, own, FILES * 10)))


def opened(root: Path) -> splitlib.Table:
    schema = pa.schema([("item", pa.int64())])
    days = pa.schema([("day", pa.int32())])
    return splitlib.load_table(str(root), "files", schema=schema, partition_schema=days)


def enumerated(root: Path, *values: int) -> tuple[list[str], DynamicFileEnumerator]:
    """Return the names of the files that may have the values, in the order of the splits."""
    data = DynamicFilteringData.from_values({"item": list(values)})
    enumerator = DynamicFileEnumerator(opened(root), SplitConfig(), filters=[data])
    return [Path(split.path).name for split in enumerator.enumerate_splits()], enumerator


@pytest.mark.parametrize("each", [1, 10, FILES])
def test_the_sample_is_read_only_once(tmp_path: Path, each: int) -> None:
    """A column by which the table is not sorted costs no more footers in later queries."""
    for number in range(FILES):
        write_file(tmp_path, number, each, clustered=False)
    drawn = random.Random(each)
    read = []
    for _ in range(3):
        found, enumerator = enumerated(tmp_path, *drawn.sample(EVERY, 3))
        read.append(enumerator.metrics.footers_read)
        assert len(found) == FILES
        assert "values (16 files were sampled)" in str(enumerator.explain())
    # The footers of the first partition are read before the number of other files is known.
    assert SAMPLED_FILES <= read[0] < SAMPLED_FILES * 1.5
    assert read[1:] == [0, 0]


@pytest.mark.parametrize("each", [1, 10, FILES])
@pytest.mark.parametrize("clustered", [True, False])
def test_a_few_known_files_do_not_decide(tmp_path: Path, each: int, clustered: bool) -> None:
    """The known files are sorted differently from the others."""
    few = random.Random(each).sample(range(FILES), 4)
    for number in few:
        write_file(tmp_path, number, each, clustered=not clustered)
    enumerated(tmp_path, 5)
    for number in set(range(FILES)).difference(few):
        write_file(tmp_path, number, each, clustered=clustered)
    found, enumerator = enumerated(tmp_path, 5)
    read = enumerator.metrics.footers_read
    assert read == FILES - 4 if clustered else read < SAMPLED_FILES * 1.5
    wide = set(range(FILES)).difference(few) if not clustered else set(few)
    assert {f"{number:03}.parquet" for number in wide} <= set(found)


@pytest.mark.parametrize("new", [(0,), (0, 30), tuple(range(40))])
def test_known_files_do_not_wait_for_the_whole_listing(
    tmp_path: Path, calls_at_once: None, new: tuple[int, ...]
) -> None:
    for number in range(FILES):
        write_file(tmp_path, number, 1, clustered=True)
    enumerated(tmp_path, 5)
    for day in new:
        write_items(tmp_path / f"day={day:03}/new.parquet", 5, 6)
    enumerator = DynamicFileEnumerator(opened(tmp_path), SplitConfig(listing_threads=1))
    enumerator.set_dynamic_filtering_data(DynamicFilteringData.from_range({"item": (0, 999)}))
    splits = enumerator.enumerate_splits()
    paths = [next(splits).path]
    assert enumerator.metrics.files_listed <= 6
    paths += [split.path for split in splits]
    assert paths == sorted(paths)
    assert len(paths) == FILES + len(new)
    assert enumerator.metrics.footers_read == len(new)


def test_the_first_files_do_not_wait_for_the_sample(tmp_path: Path, calls_at_once: None) -> None:
    for number in range(FILES):
        write_file(tmp_path, number, 1, clustered=True)
    enumerator = DynamicFileEnumerator(opened(tmp_path), SplitConfig(listing_threads=1))
    enumerator.set_dynamic_filtering_data(DynamicFilteringData.from_range({"item": (0, 999)}))
    splits = enumerator.enumerate_splits()
    next(splits)
    assert enumerator.metrics.files_listed <= 3
    assert len(list(splits)) == FILES - 1


def test_files_without_statistics_of_the_column(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / f"day={number}/f.parquet"
        path.parent.mkdir()
        pq.write_table(pa.table({"item": range(10)}), path, write_statistics=False)
    found, enumerator = enumerated(tmp_path, 5)
    assert len(found) == 20
    why = "item: the files have no statistics of it (16 files were sampled). Write the files with"
    assert why in str(enumerator.explain())


@pytest.mark.parametrize(("files", "sampled"), [(1, "1 file was"), (3, "3 files were")])
def test_the_reason_if_all_footers_were_read(tmp_path: Path, files: int, sampled: str) -> None:
    for number in range(files):
        write_file(tmp_path, number, 1, clustered=False)
    found, enumerator = enumerated(tmp_path, 5)
    assert (len(found), enumerator.metrics.footers_read) == (files, files)
    why = f"item: most row groups have nearly all of its values ({sampled} sampled)."
    assert why in str(enumerator.explain())


def test_a_filter_without_values_compares_no_files(tmp_path: Path) -> None:
    write_items(tmp_path / "day=1/f.parquet", *range(10))
    item = pa.schema([("item", pa.int64())])
    collector = DynamicFilteringDataCollector(item, max_values=1, on_exceed="all")
    collector.add(pa.table({"item": [1, 2, 3]}))
    filters = [collector.finish()]
    enumerator = DynamicFileEnumerator(opened(tmp_path), SplitConfig(), filters=filters)
    assert len(list(enumerator.enumerate_splits())) == 1
    assert enumerator.metrics.files_not_compared == 0
