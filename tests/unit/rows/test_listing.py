"""Partitions and files as Arrow tables."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib import DynamicFilteringData
from splitlib.errors import SourceError, TableNotFound, UnsupportedTable
from splitlib.storage import Storage

PARTITION = pa.struct([("k", pa.int32()), ("s", pa.string())])
EMPTY = "k=4/s=z"


@pytest.fixture
def root(tmp_path):
    for name in ("k=1/s=a%2Fb", "k=2/s=__HIVE_DEFAULT_PARTITION__", EMPTY):
        (tmp_path / "t" / name).mkdir(parents=True)
        if name != EMPTY:
            path = tmp_path / "t" / name / "f.parquet"
            pq.write_table(pa.table({"x": [1]}), path)
            os.utime(path, (10, 10))
    return tmp_path / "t"


def test_partitions(root):
    with splitlib.load_table(str(root), "files") as table:
        found = table.partitions()
        assert found.to_pylist() == [
            {"partition": "k=1/s=a%2Fb", "values": {"k": 1, "s": "a/b"}},
            {
                "partition": "k=2/s=__HIVE_DEFAULT_PARTITION__",
                "values": {"k": 2, "s": None},
            },
            {"partition": "k=4/s=z", "values": {"k": 4, "s": "z"}},
        ]
        assert found.schema == pa.schema([("partition", pa.string()), ("values", PARTITION)])
        some = table.partitions(DynamicFilteringData.from_values({"s": ["z", "a/b"], "k": [4, 4]}))
        assert some["partition"].to_pylist() == ["k=4/s=z"]
        none = table.partitions(DynamicFilteringData.from_values({"k": pa.array([], pa.int32())}))
        assert none.schema == found.schema
        assert none.num_rows == 0


def test_a_table_is_html_in_a_notebook(root):
    (root / "k=1/s=a%2Fb" / "f.parquet").unlink()
    pq.write_table(pa.table({"<x>": [1]}), root / EMPTY / "f.parquet")
    with splitlib.load_table(str(root), "files", schema=pa.schema({"<x>": pa.int64()})) as table:
        html = table._repr_html_()
    assert "<td>&lt;x&gt;</td><td>int64</td><td></td>" in html
    assert "<td>k</td><td>int32</td><td>partition key</td>" in html
    assert "<x>" not in html


def test_files(root):
    with splitlib.load_table(str(root), "files") as table:
        found = table.files(DynamicFilteringData.from_values({"k": [1, 4]}))
        (path,) = root.glob("k=1/*/*")
        assert found.to_pylist() == [
            {
                "path": str(path),
                "size": path.stat().st_size,
                "modified": datetime.fromtimestamp(10, UTC),
                "format": "parquet",
                "delete_files": 0,
                "partition": "k=1/s=a%2Fb",
                "values": {"k": 1, "s": "a/b"},
            }
        ]
        assert table.files().schema == found.schema
        assert table.files().num_rows == 2


def test_unpartitioned(root):
    with splitlib.load_table(str(next(root.glob("k=1/*"))), "files") as table:
        assert table.partitions().to_pylist() == [{"partition": "", "values": {}}]
        assert table.files()["partition"].to_pylist() == [""]


def test_a_value_that_is_none_of_its_type_is_refused(root):
    keys = pa.schema([("k", pa.int32()), ("s", pa.int32())])
    with splitlib.load_table(str(root), "files", partition_schema=keys) as table:
        for listing in (table.partitions, table.files):
            with pytest.raises(UnsupportedTable, match="'a/b' of 's' is ambiguous as int32"):
                listing()


def test_a_file_instead_of_a_directory(root):
    (path,) = root.glob("k=1/*/f.parquet")
    for name in (str(path), f"{path}/"):
        with pytest.raises(TableNotFound, match="is a file, not a directory"):
            splitlib.load_table(name, "files", schema=pa.schema({"x": pa.int64()}))
        with pytest.raises(SourceError, match="is a file, not a directory"):
            Storage().list_files([name])


def test_directories_that_look_like_credentials(root):
    (root / "k=4" / "s=pwd=abc").mkdir()
    pq.write_table(pa.table({"x": [1]}), root / "k=4" / "s=pwd=abc" / "f.parquet")
    with splitlib.load_table(str(root), "files") as table:
        paths = table.files(DynamicFilteringData.from_values({"k": [4]}))["path"].to_pylist()
        assert paths == [str(root / "k=4" / "s=pwd=abc" / "f.parquet")]
        coordinator = splitlib.DynamicFileSplitEnumerator(splitlib.DynamicFileEnumerator(table))
        with coordinator:
            coordinator.register_reader("r")
            coordinator.handle_split_request("r")
            assert coordinator.snapshot_state()
