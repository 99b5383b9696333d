"""Executors detect files that changed after planning."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from splitlib import FileChanged, FileSplit, LocationNotAllowed, ReadFormat, SplitConfig
from splitlib.reading.formats import RowGroupFilter
from splitlib.spark.datasource.plan import SplitReader, SplitsPartition

SCHEMA = pa.schema([("v", pa.int64())])


@pytest.fixture
def split(tmp_path: Path) -> FileSplit:
    path = tmp_path / "inside" / "f.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"v": [1]}), path)
    found = path.stat()
    modified = int(found.st_mtime * 1000)
    form = ReadFormat.of("parquet")
    return FileSplit("1", str(path), 0, found.st_size, found.st_size, modified, {}, form)


def rows_of(split: FileSplit, **settings: Any) -> list[dict[str, Any]]:
    reader = SplitReader(SCHEMA, {}, RowGroupFilter(SCHEMA, []), SplitConfig(**settings))
    sent = pickle.loads(pickle.dumps(reader))
    found: list[dict[str, Any]] = pa.Table.from_batches(
        sent.read(SplitsPartition([split]))
    ).to_pylist()
    return found


def test_the_time_is_compared_on_request(split: FileSplit) -> None:
    assert rows_of(split, verify_files=True) == [{"v": 1}]
    os.utime(split.path, (0, 5))
    assert rows_of(split) == [{"v": 1}]
    with pytest.raises(FileChanged, match=r"is 1970-01-01T00:00:05\.000\+00:00"):
        rows_of(split, verify_files=True)


def test_a_link_that_leads_elsewhere_by_now(split: FileSplit, tmp_path: Path) -> None:
    allowed = (str(tmp_path / "inside"),)
    assert rows_of(split, allowed_locations=allowed) == [{"v": 1}]
    path = Path(split.path)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert rows_of(split) == [{"v": 1}]
    with pytest.raises(LocationNotAllowed, match=r"f\.parquet"):
        rows_of(split, allowed_locations=allowed)
