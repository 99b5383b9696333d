"""The ``files`` connector: metadata, partitions, number of requests, and errors."""

from __future__ import annotations

import os
import re
from inspect import getdoc
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

import splitlib
from splitlib.filtering.predicate import Predicate
from splitlib.model import PartitionBatch
from splitlib.storage import Storage
from splitlib_files import FilesConnector

ROWS = pa.table({"v": [1], "s": ["a"]})
ALL = Predicate(pa.schema([]), [])


@pytest.fixture
def root(tmp_path):
    """Create a table with two partition keys and one file in each partition."""
    for year in (2023, 2024):
        for month in (1, 2):
            directory = tmp_path / f"y={year}" / f"m={month}"
            directory.mkdir(parents=True)
            parquet.write_table(ROWS, directory / "a.parquet")
    return tmp_path


def opened(root, **options):
    return FilesConnector.open(str(root), options)


def partitions_of(connector, predicate=ALL) -> list[PartitionBatch]:
    return list(connector.list_partitions(predicate))


def test_what_is_not_declared_is_found(root):
    metadata = opened(root).describe()
    assert metadata.schema == pa.schema(
        [("v", pa.int64()), ("s", pa.string()), ("y", pa.int32()), ("m", pa.int32())]
    )
    assert metadata.partition_keys == ("y", "m")
    assert metadata.location == str(root)
    assert opened(f"{root}/").describe() == metadata


def test_what_is_declared_is_taken(root):
    declared = opened(root, partition_schema="y int, m int", schema="v int, M string")
    assert declared.describe().schema == pa.schema(
        [("v", pa.int32()), ("y", pa.int32()), ("m", pa.int32())]
    )
    given = pa.schema([("v", pa.int8())])
    assert opened(root, schema=given).describe().schema.field("v").type == pa.int8()


def test_columns_of_other_formats(tmp_path):
    directory = tmp_path / "k=1"
    directory.mkdir()
    orc.write_table(ROWS, directory / "a.orc")
    assert opened(tmp_path, format="orc").describe().data_schema == ROWS.schema
    text = opened(tmp_path, format="text").describe()
    assert text.data_schema == pa.schema([("value", pa.string())])
    for form in ("csv", "json"):
        with pytest.raises(splitlib.ConfigError, match=f"Files of {form} do not declare"):
            opened(tmp_path, format=form)


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_a_storage_that_fails_is_not_a_damaged_file(root, monkeypatch, form):
    def failing(file):
        raise ConnectionError("hung up")

    monkeypatch.setattr("splitlib.arrow.parquet_footer.read_footer", failing)
    monkeypatch.setattr(orc, "ORCFile", failing)
    once = splitlib.SplitConfig(retry_attempts=1)
    with pytest.raises(splitlib.SourceUnavailable, match="ConnectionError: hung up"):
        splitlib.load_table(str(root), "files", format=form, config=once)


def test_how_files_are_read(root):
    made = opened(root, format="csv", schema="v int", read_options={"header": "true"})
    (batch, *_) = partitions_of(made)
    (files, *_) = made.list_files(batch, ALL)
    assert files.read_format.name == "csv"
    assert files.read_format.options == (("header", "true"),)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": "avro"}, "Unknown format 'avro'"),
        ({"fromat": "csv"}, "fromat"),
        ({"schema": 5}, "not a int"),
        ({"read_options": {"pathGlobFilter": "*"}}, "'pathGlobFilter' would change"),
        ({"read_options": {"recursiveFileLookup": "true"}}, "'recursiveFileLookup' would change"),
        ({"read_options": {"basePath": "/"}}, "'basePath' would change"),
    ],
    ids=str,
)
def test_options_that_would_not_be_followed(root, options, says):
    with pytest.raises(splitlib.ConfigError, match=says):
        opened(root, **options)


def test_tables_that_are_not_there(tmp_path):
    with pytest.raises(splitlib.ConfigError, match="No root directory"):
        opened(" ")
    with pytest.raises(splitlib.TableNotFound, match="no directory"):
        opened(tmp_path / "gone")
    with pytest.raises(splitlib.TableNotFound, match="no data file"):
        opened(tmp_path)
    (tmp_path / "k=1" / "k=2").mkdir(parents=True)
    with pytest.raises(splitlib.UnsupportedTable, match="repeat partition key 'k'"):
        opened(tmp_path)


def test_the_first_file_may_be_in_a_later_directory(root):
    (root / "y=2022" / "m=1").mkdir(parents=True)
    (root / "y=2022" / "m=0").mkdir()
    assert opened(root).describe().data_schema == ROWS.schema


def test_partitions_and_their_files(root):
    connector = opened(root)
    (batch,) = partitions_of(connector)
    assert batch.values.to_pydict() == {
        "y": [2023, 2023, 2024, 2024],
        "m": [1, 2, 1, 2],
    }
    assert batch.requests.storage == 3
    alone = [batch.slice(row, 1) for row in range(len(batch))]
    listed = [files for one in alone for files in connector.list_files(one, ALL)]
    assert sum(each.requests.storage for each in listed) == 4
    paths = [path for each in listed for path in each.files["path"].to_pylist()]
    assert paths == [f"{root}/y={y}/m={m}/a.parquet" for y in (2023, 2024) for m in (1, 2)]
    assert {row for each in listed for row in each.files["partition"].to_pylist()} == {0}


def test_what_an_upper_level_excludes_is_not_entered(root):
    keys = splitlib.DynamicFilteringData.from_values({"y": [2024]})
    enumerator = splitlib.DynamicFileEnumerator(splitlib.load_table(str(root), "files"))
    enumerator.set_dynamic_filtering_data(keys)
    assert len(list(enumerator.enumerate_splits())) == 2
    # The root, y=2024 and two partitions are listed.
    assert enumerator.metrics.storage_requests == 4


def test_many_directories_come_in_several_batches(tmp_path):
    for k in range(300):
        (tmp_path / f"a={k}" / "b=1").mkdir(parents=True)
    batches = partitions_of(opened(tmp_path, schema="v int"))
    assert [len(batch) for batch in batches] == [256, 44]
    # The first batch needs listings of the root and of 256 directories, the second of 44.
    assert [batch.requests.storage for batch in batches] == [257, 44]


def test_a_level_without_directories_has_no_partitions(tmp_path):
    for k in (1, 2):
        (tmp_path / f"a={k}").mkdir()
    assert partitions_of(opened(tmp_path, schema="v int", partition_schema="a int, b int")) == []


@pytest.mark.parametrize("name", ["b=1", "a", "aa=1"])
def test_a_directory_of_another_key_is_refused(root, name):
    connector = opened(root)
    before = partitions_of(connector)
    (root / name / "deep" / "_hidden").mkdir(parents=True)
    (root / name / "_SUCCESS").touch()
    assert partitions_of(connector) == before  # as in Spark, directories without files do not count
    (root / name / "deep" / "f").touch()
    with pytest.raises(splitlib.SourceError, match="is not a partition of 'y'"):
        partitions_of(connector)


def test_a_directory_of_another_key_that_is_deleted_has_no_files(root, monkeypatch):
    connector = opened(root)
    before = partitions_of(connector)
    (root / "a").mkdir()
    levels = Storage.levels_below

    def deleting(self, location, **how):
        (root / "a").rmdir()
        return levels(self, location, **how)

    monkeypatch.setattr(Storage, "levels_below", deleting)
    assert partitions_of(connector) == before
    assert not (root / "a").exists()


@pytest.mark.parametrize("name", [b"y=\xff/f", b"y=2024/m=1/\xff"])
def test_names_that_are_not_utf8(root, name):
    path = os.path.join(os.fsencode(root), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb"):
        pass

    def listed():
        with splitlib.load_table(str(root), "files") as table:
            return list(splitlib.DynamicFileEnumerator(table).enumerate_splits())

    with pytest.raises(splitlib.SourceError, match=r"'(y=)?\\udcff' in '.*' is not UTF-8"):
        listed()


def test_keys_in_another_case_are_the_same(root):
    (root / "Y=2025" / "M=1").mkdir(parents=True)
    (batch,) = partitions_of(opened(root, partition_schema="y int, m int"))
    assert "2025" in batch.values["y"].to_pylist()


def test_a_table_without_partitions_is_its_root(tmp_path):
    parquet.write_table(ROWS, tmp_path / "a.parquet")
    connector = opened(tmp_path)
    assert connector.describe().partition_keys == ()
    (batch,) = partitions_of(connector)
    assert len(batch) == 1
    assert batch.requests.storage == 0
    (files,) = connector.list_files(batch, ALL)
    assert files.files["path"].to_pylist() == [f"{tmp_path}/a.parquet"]


@pytest.mark.parametrize("others", [{}, {"path_glob": "*.parquet"}])
def test_options_of_the_storage_are_handed_on(root, others):
    given = {"auto_mkdir": False}
    connector = opened(root, storage_options=given, **others)
    assert connector.storage_options("file") == given


def test_a_table_whose_root_has_gone(root):
    connector = opened(root)
    connector.check_identity()
    root.rename(root.with_name("elsewhere"))
    with pytest.raises(splitlib.TableNotFound, match="no longer exists"):
        connector.check_identity()


def test_the_table_of_options_is_complete():
    text = (Path(__file__).parents[4] / "docs" / "files.md").read_text("utf-8")
    documented = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    with pytest.raises(splitlib.ConfigError) as raised:
        FilesConnector.open("/", {"none": 1})
    known = raised.value.hint.partition("are ")[2].strip(".").split(", ")
    assert sorted(documented) == known
    options = re.findall(r"^ {4}(\w+) \(.*\): ", str(getdoc(FilesConnector)), re.MULTILINE)
    assert set(known) == set(options)


@pytest.mark.parametrize("name", ["sales", "./sales", "~/sales"])
def test_files_of_a_relative_path_have_absolute_paths(tmp_path, monkeypatch, name):
    file = tmp_path / "sales" / "part.parquet"
    file.parent.mkdir()
    parquet.write_table(ROWS, file)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert splitlib.paths(splitlib.load_table(name, connector="files")) == [str(file)]
