"""Wrong results of a connector raise an error that names the connector. No rows are lost."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from splitlib import (
    CorruptMetadata,
    DynamicFileEnumerator,
    DynamicFilteringData,
    SourceUnavailable,
    SplitConfig,
)
from splitlib.checks import name_parts
from splitlib.errors import InvalidFilter
from splitlib.filtering.predicate import Predicate
from splitlib.model import (
    ColumnStatistics,
    DeleteFile,
    FileBatch,
    PartitionBatch,
    PartitionField,
    TableMetadata,
)
from splitlib.storage import StoredFile, file_batch
from splitlib.table import Table
from tests.support.memory_connector import PARQUET, MemoryConnector

FILES = file_batch((0, StoredFile(f"/t/{name}", 10, 1)) for name in "abc")
KNOWN = [True] * 3
ALL = Predicate(pa.schema([("k", pa.int32())]))
INT64, BOOL = pa.int64(), pa.bool_()
LISTS = pa.list_(INT64)


def statistics(lower=(1, 2, 3), upper=(1, 2, 3), kind=INT64, value=KNOWN, flag=BOOL):
    flags = pa.array([False] * 3).cast(flag)
    return ColumnStatistics(
        pa.array(lower, kind), pa.array(upper, kind), flags, flags, pa.array(value, pa.bool_())
    )


class Wrong(MemoryConnector):
    """A connector for a table with one partition and three files. The test sets its batches."""

    def __init__(self, partitions=None, **batch):
        values = pa.record_batch({"k": ["0"]})
        super().__init__([partitions or PartitionBatch(values, pa.array(["0"]))])
        self.batch_of_files = replace(FileBatch(FILES, PARQUET), **batch)

    def describe(self):
        instant = pa.timestamp("us", "UTC")
        kinds = pa.schema(
            [("a", INT64), ("x", pa.float64()), ("t", instant), ("l", LISTS), ("k", pa.int32())]
        )
        return TableMetadata(kinds, ("k",), PARQUET, filter_schema=kinds)

    def list_files(self, partitions, predicate):
        yield self.batch_of_files


def files_of(connector, **keys):
    enumerator = DynamicFileEnumerator(Table("t", "wrong", connector))
    enumerator.set_dynamic_filtering_data(DynamicFilteringData.from_values(keys))
    return [split.path for split in enumerator.enumerate_splits()]


def test_what_is_right_prunes():
    assert files_of(Wrong(statistics={"A": statistics()}), a=[2]) == ["/t/b"]


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"a": statistics((1,), (1,))}, "1 values of a.lower for 3 files"),
        ({"a": statistics(upper=(1, 2, 3, 4))}, "4 values of a.upper for 3 files"),
        ({"a": statistics(value=[True])}, "1 values of a.has_value for 3 files"),
        ({"a": statistics(kind=pa.int32())}, "a.lower has type int32, not int64"),
        ({"a": statistics("abc", "abc", pa.string())}, "a.lower has type string, not int64"),
        ({"a": statistics(kind=pa.timestamp("us"))}, "a.lower has type timestamp.us., not int64"),
        ({"t": statistics(kind=pa.timestamp("us"))}, r"t.lower has type timestamp\[us\], not"),
        ({"t": statistics(kind=pa.timestamp("ms", "UTC"))}, r"t.lower has type timestamp\[ms, "),
        ({"a": statistics(flag=pa.int8())}, "a.has_null has type int8, not bool"),
        ({"no": statistics()}, "statistics of 'no'"),
        ({"a": statistics((1, 2, 3), (1, 1, 3))}, "lower bound of a is above its upper bound in 1"),
    ],
)
def test_statistics(known, message):
    with pytest.raises(CorruptMetadata, match=message) as caught:
        files_of(Wrong(statistics=known), a=[2])
    assert (caught.value.connector, caught.value.table) == ("wrong", "t")


def test_bounds_of_instants_may_be_in_any_time_zone():
    known = {"t": statistics(kind=pa.timestamp("us", "Asia/Tokyo"))}
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=2)
    assert files_of(Wrong(statistics=known), t=[moment]) == ["/t/b"]


def test_nan_and_null_are_no_bounds():
    ends = (math.nan, 1.0, None)
    known = {"x": statistics(ends, (0.0, math.nan, None), pa.float64())}
    assert files_of(Wrong(statistics=known), x=[5.0]) == ["/t/b", "/t/c"]


def test_bounds_that_have_no_order_prune_nothing():
    known = {"l": statistics([[1], [3], None], [[2], [1], [1]], LISTS), "a": statistics()}
    assert files_of(Wrong(statistics=known), a=[1]) == ["/t/a"]
    assert files_of(Wrong(statistics={"l": known["l"]}), a=[1]) == ["/t/a", "/t/b", "/t/c"]


def test_a_file_with_bounds_has_values():
    known = {"a": statistics((1, 2, None), (1, 2, None), value=[False] * 3)}
    assert files_of(Wrong(statistics=known), a=[2]) == ["/t/b"]


SET = (DeleteFile("position", "/t/d", 1, "parquet"),)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"files": FILES.drop_columns(["modified"])}, "files has the columns"),
        ({"files": FILES.set_column(1, "size", pa.array([1, 2, 3], pa.int32()))}, "files has the"),
        ({"files": FILES.set_column(1, "size", pa.array([1, None, 3]))}, "Column 'size' .* nulls"),
        ({"files": FILES.set_column(3, "partition", pa.array([0, 0, 1]))}, "the 1 requested"),
        ({"files": FILES.set_column(3, "partition", pa.array([0, -1, 0]))}, "the 1 requested"),
        ({"deletes": pa.array([0]), "delete_sets": (SET,)}, "deletes for 1 files"),
        (
            {"deletes": pa.array([0, 1, None]), "delete_sets": (SET,)},
            "outside of the 1 delete sets",
        ),
    ],
)
def test_files(batch, message):
    with pytest.raises(CorruptMetadata, match=message):
        files_of(Wrong(**batch), k=[0])


def partitions(values, refs=("0",), **more):
    return PartitionBatch(pa.record_batch(values), pa.array(refs), **more)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (partitions({"other": ["0"]}), r"columns \['other'\], not \['k'\]"),
        (partitions({"k": ["0"], "l": ["0"]}), r"columns \['k', 'l'\]"),
        (partitions({"k": ["0", "1"]}), "1 partitions has 2 rows of values"),
        (partitions({"k": pa.array([0], pa.int64())}), "key k have type int64, not int32"),
        (partitions({"k": ["0"]}, file_counts=pa.array([1, 2])), "2 file counts"),
        (partitions({"k": ["0"]}, fields=(PartitionField("x", "a"),)), r"not \['x'\]"),
        (
            partitions({"x": [0]}, fields=(PartitionField("x", "a"),)),
            r"columns \['a'\], not \['k'\]",
        ),
        (
            partitions({"x": [0]}, fields=(PartitionField("x", "k"),)),
            "key x have type int64, not int32",
        ),
    ],
)
def test_partitions(batch, message):
    with pytest.raises(CorruptMetadata, match=message) as caught:
        files_of(Wrong(partitions=batch), k=[0])
    assert caught.value.connector == "wrong"


def named(*names: str) -> PartitionBatch:
    values = pa.array([name.rpartition("/")[2] for name in names], pa.string())
    return PartitionBatch(pa.record_batch({"k": values}), pa.array(names, pa.string()))


@pytest.mark.parametrize(
    ("batches", "once"),
    [
        ([["1", "2", "2", "3"]], ["1", "2", "3"]),
        ([["1", "2"], ["2", "3"]], ["1", "2", "3"]),
        ([["2", "3"], ["1", "4"], ["3", "5", "1"]], ["2", "3", "1", "4", "5"]),
        ([["1"], ["1"], []], ["1"]),
        # Two directories with the same partition value are two partitions.
        ([["a/1", "b/1", "a/1"]], ["a/1", "b/1"]),
    ],
)
def test_a_partition_that_is_named_twice_counts_once(batches, once):
    connector = MemoryConnector([named(*names) for names in batches])
    found = Table("t", "memory", connector).list_partitions(ALL)
    assert [ref for batch in found for ref in batch.refs.to_pylist()] == once


def test_partitions_that_share_a_handle_are_not_the_same():
    shared = PartitionBatch(pa.record_batch({"k": ["1", "2", "1"]}), pa.array(["x"] * 3))
    (batch,) = Table("t", "memory", MemoryConnector([shared])).list_partitions(ALL)
    assert batch.values["k"].to_pylist() == ["1", "2"]


def two_files(*files: tuple[int, str, int]) -> FileBatch:
    rows = ((partition, StoredFile(path, size, 1)) for partition, path, size in files)
    return FileBatch(file_batch(rows), PARQUET)


class Lists(MemoryConnector):
    """A connector for a table with two partitions. It lists files in the given batches."""

    def __init__(self, *batches: FileBatch, snapshot: str | None = None) -> None:
        super().__init__(2, snapshot=snapshot)
        self.files_of_both = batches

    partitions_per_listing = 2

    def list_files(self, partitions, predicate):
        yield from self.files_of_both


def test_a_file_that_is_listed_twice_counts_once():
    first = two_files((0, "/t/a", 1), (0, "/t/b", 1), (0, "/t/a", 1))
    # The second partition has the same directory as the first.
    again = two_files((0, "/t/b", 1), (1, "/t/a", 1))
    paths = [path for path, _ in listed(Lists(first, again))]
    assert sorted(paths) == ["/t/a", "/t/a", "/t/b"]
    # A snapshot may contain a file twice. The file is then read twice.
    assert len(listed(Lists(first, again, snapshot="1"))) == 5


def test_a_file_that_is_listed_twice_with_another_size_is_listed_again():
    with pytest.raises(SourceUnavailable, match="'/t/a' is listed twice"):
        listed(Lists(two_files((0, "/t/a", 1), (0, "/t/a", 2))))


def listed(connector):
    enumerator = DynamicFileEnumerator(
        Table("t", "lists", connector), SplitConfig(retry_attempts=1)
    )
    return [(split.path, split.partition_values["k"]) for split in enumerator.enumerate_splits()]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a", ["a"]),
        ("t.`a.b`", ["t", "a.b"]),
        ("`a``b`.c", ["a`b", "c"]),
        *((wrong, None) for wrong in ("", "a.", ".a", "a..b", "`a", "a`b", "`a`b")),
    ],
)
def test_names_of_columns(name, parts):
    if parts is not None:
        assert name_parts(name) == parts
        return
    with pytest.raises(
        InvalidFilter, match=f"{re.escape(repr(name))} is not a column name"
    ) as caught:
        name_parts(name)
    assert "backticks" in str(caught.value.hint)
