"""The command ``export`` writes to object stores, which PyArrow's filesystems represent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from splitlib.cli.export import write_file

SCHEMA = pa.schema([("x", pa.int64())])


def batches(error: BaseException | None) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"x": [1, 2]})
    if error:
        raise error
    yield pa.record_batch({"x": [3]})


@pytest.fixture
def store(tmp_path: Path) -> fs.FileSystem:
    """Create a filesystem that is not the local one, like that of an object store."""
    return fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())


def test_a_file_is_uploaded(store: fs.FileSystem, tmp_path: Path) -> None:
    write_file(batches(None), SCHEMA, (store, "out"), "parquet")
    assert pq.read_table(tmp_path / "out" / "part-0.parquet")["x"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("The disk is full.")])
def test_an_incomplete_file_is_not_uploaded(
    store: fs.FileSystem, tmp_path: Path, error: BaseException
) -> None:
    with pytest.raises(type(error)):
        write_file(batches(error), SCHEMA, (store, "out"), "parquet")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_incomplete_local_file_is_removed(tmp_path: Path) -> None:
    place = fs.LocalFileSystem(), str(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        write_file(batches(KeyboardInterrupt()), SCHEMA, place, "parquet")
    assert list((tmp_path / "out").iterdir()) == []
