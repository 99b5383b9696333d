"""Saved files with changed content are ignored, and merging loses no rows."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

from splitlib.statistics import known as saved
from splitlib.statistics.footers import GroupRow
from splitlib.statistics.row_groups import groups_array
from splitlib.statistics.store import ColumnKey


def files_in(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.is_file())


@pytest.mark.parametrize("scheme", ["", "memory://"])
def test_every_damaged_byte_is_noticed(tmp_path: Path, scheme: str) -> None:
    column = saved.SavedColumn(f"{scheme}{tmp_path}/stats", "t", ColumnKey("item", pa.int64()))
    groups = groups_array(
        [[GroupRow(i, i + 9, False, True, False, 4, 900)] for i in range(50)], pa.int64()
    )
    paths = [f"/t/{i}.parquet" for i in range(50)]
    rows = pa.table({"path": paths, "size": range(50), "modified": range(50), "groups": groups})
    column.save(rows)
    ((path, _),) = column.load()
    assert list(column.load([path])) == []
    fs = fsspec.filesystem("memory" if scheme else "file")
    content = fs.cat_file(path)
    assert [found.num_rows for _, found in column.load() if found] == [50]
    # One changed bit in each byte in memory, and in some bytes on disk.
    for position in range(0, len(content), 1 if scheme else 50):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        fs.pipe_file(path, bytes(damaged))
        assert list(column.load()) == [(path, None)]
        if position % 50 == 0:
            fs.pipe_file(path, content[:position])
            assert list(column.load()) == [(path, None)]
    fs.pipe_file(path, content)
    assert [found.num_rows for _, found in column.load() if found] == [50]


@pytest.mark.parametrize("most", [1, 4])
def test_merging_keeps_the_rows_that_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(saved, "MOST_FILES", most)
    column = saved.SavedColumn(str(tmp_path), "t", ColumnKey("item", pa.int64()))
    groups = groups_array([[GroupRow(1, 2, False, True, False, 4, 900)]], pa.int64())
    rows = pa.table({"path": ["a"], "size": [1], "modified": [1], "groups": groups})
    written: set[Path] = set()
    for number in range(9):
        column.save(rows)
        assert [found for _, found in column.load()] == [rows] * len(files_in(tmp_path))
        written.update(files_in(tmp_path))
        assert len(written) == number + 1
