"""Reading footers that hang, or that late filters make useless."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import splitlib
from splitlib import DynamicFileEnumerator, SplitConfig
from splitlib.enumeration import footer_reads, learning
from splitlib.remote.calls import BoundedCalls
from splitlib.statistics import known
from splitlib.statistics.store import StatisticsStore
from splitlib.storage import Storage
from tests.unit.statistics.tables import selected, write
from tests.unit.statistics.test_learning import SCHEMA, clustered, items, rows


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "LEARNED", StatisticsStore())


def test_a_storage_that_hangs_ends_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, release = clustered(tmp_path, 20), threading.Event()
    monkeypatch.setattr(learning, "FOOTER_SECONDS", 0.01)
    monkeypatch.setattr(Storage, "read_end", lambda *_: release.wait())
    try:
        found, enumerator = selected(table, items(5))
    finally:
        release.set()
    assert len(found) == 20
    assert "the storage is too slow" in str(enumerator.explain())


def test_a_footer_of_the_sample_that_hangs_ends_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one hangs. With an earlier one, it depends on the threads which others are read."""
    table, release, submit = clustered(tmp_path, 40), threading.Event(), BoundedCalls.submit
    submitted: list[Callable[[], Any]] = []

    def submit_footer(self: BoundedCalls, work: Callable[[], Any], most_seconds: float = 0) -> Any:
        if most_seconds:
            submitted.append(work)
            if len(submitted) == footer_reads.SAMPLED_FILES:
                return submit(self, release.wait, 0.01)
        return submit(self, work, most_seconds)

    monkeypatch.setattr(BoundedCalls, "submit", submit_footer)
    try:
        found, enumerator = selected(table, items(395))
    finally:
        release.set()
    assert enumerator.metrics.footers_read == len(submitted) == footer_reads.SAMPLED_FILES
    # Files of the sample are dropped, except for the one whose footer was not read.
    assert len(found) == 40 - footer_reads.SAMPLED_FILES + 1
    assert "the storage is too slow" in str(enumerator.explain())


def test_footers_that_hang_in_all_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither waiting reads nor later listings wait for the threads that hang."""
    for k in range(3):
        clustered(tmp_path / f"k={k}", 20)
    keys = pa.schema([("k", pa.int32())])
    table = splitlib.load_table(str(tmp_path), "files", schema=SCHEMA, partition_schema=keys)
    release = threading.Event()
    for module in (footer_reads, learning):
        monkeypatch.setattr(module, "FOOTER_SECONDS", 0.01)
    monkeypatch.setattr(Storage, "read_end", lambda *_: release.wait())
    try:
        enumerator = DynamicFileEnumerator(table, SplitConfig(listing_threads=2))
        enumerator.set_dynamic_filtering_data(items(5))
        assert len(list(enumerator.enumerate_splits())) == 60
        files = pa.Table.from_batches([s.files.files for s in enumerator.select_files()])
        two_threads = SplitConfig(listing_threads=2)
        (batch,) = files.combine_chunks().to_batches()
        found = footer_reads.sample(
            table, table.metadata.data_schema, batch.slice(0, 6), two_threads
        )
    finally:
        release.set()
    assert found.footers_read == 6
    assert len(found.groups.unknown) == 6


def test_a_late_filter_drops_partitions_whose_footers_were_being_read(tmp_path: Path) -> None:
    for k in range(40):
        write(tmp_path / f"k={k:02}" / "f.parquet", rows([k, 100]))
    keys = pa.schema([("k", pa.int32())])
    table = splitlib.load_table(str(tmp_path), "files", schema=SCHEMA, partition_schema=keys)
    enumerator = DynamicFileEnumerator(table)
    enumerator.set_dynamic_filtering_data(items(100))
    splits = enumerator.enumerate_splits()
    found = [next(splits).partition_values["k"]]
    enumerator.set_dynamic_filtering_data({"k": [39]})
    found += [split.partition_values["k"] for split in splits]
    assert found == [0, 39]


def test_files_that_a_late_filter_drops_are_counted(tmp_path: Path) -> None:
    """Files read, dropped and of unknown row groups add up, whatever is known when it arrives."""
    for k in range(40):
        write(tmp_path / f"k={k:02}" / "f.parquet", rows([k, 100]))
        write(tmp_path / f"k={k:02}" / "g.parquet", rows([k]))
    (tmp_path / "k=39" / "h.parquet").write_bytes(b"PAR1 no footer PAR1")
    keys = pa.schema([("k", pa.int32())])
    table = splitlib.load_table(str(tmp_path), "files", schema=SCHEMA, partition_schema=keys)
    for late in ({"k": [1, 39]}, {"item": [100, 1]}):
        enumerator = DynamicFileEnumerator(table, filters=[items(39, 100)])
        found = []
        for files in enumerator.select_files():
            found += files.files.files["path"].to_pylist()
            enumerator.set_dynamic_filtering_data(late)
        metrics, report = enumerator.metrics, enumerator.explain()
        assert metrics.files_selected == len(found) == report.files.matched
        late_drops = metrics.files_dropped.get("late_filters", 0)
        assert (late_drops > 0) == ("k" in late)
        assert report.files.total == len(found) + metrics.files_dropped["footers"] + late_drops
        # Each file has one row group.
        assert metrics.files_not_compared == 1
        assert report.row_groups.matched == len(found) - 1
        assert metrics.files_listed == 81
    assert "dropped: 40 by footers" in str(report)
    assert "row groups 40 of 80 (from footers; files not compared: 1)" in str(report)


def test_files_of_excluded_partitions_are_counted(tmp_path: Path) -> None:
    """A filter on partitions arrives while their files are being listed."""
    for k in range(40):
        write(tmp_path / f"k={k:02}" / "f.parquet", rows([k]))
    keys = pa.schema([("k", pa.int32())])
    table = splitlib.load_table(str(tmp_path), "files", schema=SCHEMA, partition_schema=keys)
    enumerator = DynamicFileEnumerator(table, filters=[{"k": list(range(40))}])
    files = enumerator.select_files()
    found = len(next(files).files)
    enumerator.set_dynamic_filtering_data({"k": [39]})
    found += sum(len(some.files) for some in files)
    metrics = enumerator.metrics
    assert (found, metrics.files_selected) == (2, 2)
    late_drops = metrics.files_dropped["late_filters"]
    assert late_drops == metrics.files_listed - 2 > 0
    assert f"dropped: {late_drops} by late filters" in str(enumerator.explain())
