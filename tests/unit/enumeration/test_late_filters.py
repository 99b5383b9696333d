"""Filters that arrive while the splits of selected files are returned."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq

import splitlib
from splitlib import DynamicFileEnumerator
from splitlib.filtering.predicate import Predicate
from tests.support.memory_connector import MemoryConnector, enumerator_of


def write_numbered(path: Path, start: int, rows: int = 10) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"item": pa.array(range(start, start + rows), pa.int64())})
    pq.write_table(table, path, row_group_size=100, compression="none")


def test_a_late_filter_applies_to_the_rest_of_a_batch(tmp_path):
    """All files are in one batch, whose first split is returned before the filter arrives."""
    for number in range(40):
        write_numbered(tmp_path / f"{number:02}.parquet", number * 10)
    table = splitlib.load_table(str(tmp_path), "files", partition_schema=pa.schema([]))
    enumerator = DynamicFileEnumerator(table, filters=[{"item": [*range(200), 395]}])
    splits = enumerator.enumerate_splits()
    found = [next(splits)]
    enumerator.set_dynamic_filtering_data({"item": [3, 33, 35, 395]})
    found.append(next(splits))
    enumerator.set_dynamic_filtering_data({"item": [395]})
    found += splits
    assert [Path(split.path).stem for split in found] == ["00", "03", "39"]
    metrics, report = enumerator.metrics, enumerator.explain()
    assert (metrics.splits, metrics.bytes_selected) == (3, sum(s.length for s in found))
    assert metrics.files_dropped == {"footers": 19, "late_filters": 18}
    assert (report.files, report.row_groups) == ((3, 40), (3, 40))


def test_a_late_filter_applies_to_the_rest_of_a_file(tmp_path):
    for k in range(2):
        write_numbered(tmp_path / f"k={k}" / "f.parquet", 0, rows=2000)
    table = splitlib.load_table(str(tmp_path), "files")
    enumerator = DynamicFileEnumerator(table, splitlib.SplitConfig(target_split_bytes=1000))
    splits = enumerator.enumerate_splits()
    found = [next(splits).path, next(splits).path]
    enumerator.set_dynamic_filtering_data({"k": [1]})
    found += [split.path for split in splits]
    assert [path for path in found if "k=0" in path] == found[:2]
    assert len(found) > 10


def test_a_batch_is_compared_only_when_a_filter_arrives(monkeypatch):
    compared = []
    match = Predicate.match_each

    def counted(self, partitions):
        compared.append(len(partitions))
        return match(self, partitions)

    monkeypatch.setattr(Predicate, "match_each", counted)
    enumerator = enumerator_of(MemoryConnector(50), listing_threads=1)
    enumerator.set_dynamic_filtering_data({"k": list(range(50))})
    splits = list(enumerator.enumerate_splits())
    assert (len(splits), compared) == (100, [50])
