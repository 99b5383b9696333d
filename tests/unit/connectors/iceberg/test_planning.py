"""Files that splitlib selects from an Iceberg table, in cases where mistakes are likely."""

from __future__ import annotations

import datetime as dt
import math
import threading
import uuid
from decimal import Decimal
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    TruncateTransform,
)
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

import splitlib
from splitlib.remote.calls import in_parallel
from splitlib_iceberg import metadata_cache
from splitlib_iceberg.manifests import read_entries
from splitlib_iceberg.partition_specs import Spec
from splitlib_iceberg.schema import filter_columns
from splitlib_iceberg.unpacking import GuardedFileIO
from tests.support.iceberg_tables import (
    append,
    create,
    data_file,
    open_table,
    paths_of,
    select,
)
from tests.unit.connectors.iceberg.simple_tables import BY_D, SIMPLE, Keys


def test_only_the_files_between_whose_bounds_a_key_lies(catalog):
    """Bounds prune files even with more than 200 keys, for which PyIceberg does not use them."""
    table = create(catalog, SIMPLE)
    files = [
        data_file(table, [{"d": 0, "c": 1000 * i}, {"d": 0, "c": 1000 * i + 500}])
        for i in range(200)
    ]
    append(table, files)
    keys = [1000 * (20 * (i % 10)) + 2 * (i // 10) for i in range(250)]
    gaps = [1000 * i + 700 for i in range(200)]
    selected, metrics = select(open_table(catalog, table), Keys.from_values({"c": keys + gaps}))
    assert selected == sorted(paths_of(files[::20]))
    assert metrics.files_selected == 10
    assert metrics.files_dropped["statistics"] == 190


class Counting(PyArrowFileIO):
    """A FileIO that records the names of all opened files."""

    opened: ClassVar[list[str]] = []

    def new_input(self, location):
        self.opened.append(Path(location).name)
        return super().new_input(location)


def test_only_manifests_with_a_matching_partition_are_opened(catalog):
    table = create(catalog, SIMPLE, BY_D)
    for manifest in range(10):
        append(table, [data_file(table, [{"d": 100 * manifest + i}]) for i in range(0, 100, 10)])
    options = {"py-io-impl": f"{__name__}.Counting"}
    opened = splitlib.load_table(
        ".".join(table.name()), "iceberg", **{**catalog.properties, **options}
    )
    Counting.opened.clear()
    keys = Keys.from_values({"d": [310, 330, 777, 780, 95, 905]})
    selected, metrics = select(opened, keys)
    assert len(selected) == 3
    # The keys 777 and 95 lie between files. Comparing them with only one bound excludes no file,
    # for example because 95 > 90 and 777 < 780.
    assert (metrics.manifests_total, metrics.manifests_opened) == (10, 3)
    assert (metrics.files_total, metrics.files_dropped["manifests"]) == (100, 70)
    assert metrics.storage_requests == len(Counting.opened) == 4
    again, metrics = select(opened, keys)
    assert again == selected
    assert metrics.storage_requests == 0
    opened.close()


def test_a_manifest_without_a_match_is_reported_though_nothing_is_listed(catalog):
    table = create(catalog, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    selected, metrics = select(open_table(catalog, table), Keys.from_values({"d": [2]}))
    assert (selected, metrics.manifests_opened, metrics.files_dropped["manifests"]) == ([], 0, 1)


def test_a_manifest_of_null_partitions_is_opened_for_null_only(catalog):
    table = create(catalog, SIMPLE, BY_D)
    for d in (None, 1):
        append(table, [data_file(table, [{"d": d}])])
    opened = open_table(catalog, table)
    for d in (None, 1):
        selected, metrics = select(opened, Keys.from_values({"d": pa.array([d], pa.int32())}))
        assert (len(selected), metrics.manifests_opened) == (1, 1)


def test_an_unpartitioned_table_is_one_partition_whose_files_have_bounds(catalog):
    table = create(catalog, SIMPLE)
    files = [data_file(table, [{"c": 10 * i}, {"c": 10 * i + 5}]) for i in range(20)]
    append(table, files[:12])
    append(table, files[12:])
    opened = open_table(catalog, table)
    (batch,) = opened.list_partitions(splitlib.DynamicFileEnumerator(opened).predicate)
    assert (len(batch), batch.values.num_columns) == (1, 0)
    assert batch.file_counts is not None
    assert batch.file_counts.to_pylist() == [20]
    # The key 48 lies between the bounds of two files.
    selected, metrics = select(opened, Keys.from_values({"c": [31, 48, 50, 195]}))
    assert sorted(selected) == sorted(paths_of([files[3], files[5], files[19]]))
    assert (metrics.partitions_matched, metrics.files_dropped["statistics"]) == (1, 17)
    assert sorted(select(opened)[0]) == sorted(paths_of(files))


def test_tuples_over_a_partition_and_a_column_with_bounds(catalog):
    table = create(catalog, SIMPLE, BY_D)
    files = [data_file(table, [{"d": d, "c": c}]) for d in (1, 2) for c in (7, 8)]
    append(table, files)
    selected, _ = select(open_table(catalog, table), Keys.from_values({"d": [1, 2], "c": [7, 8]}))
    assert sorted(selected) == sorted(paths_of([files[0], files[3]]))


def test_a_partition_is_listed_once_whatever_manifests_it_is_in(catalog):
    table = create(catalog, SIMPLE, BY_D)
    files = [data_file(table, [{"d": d}]) for d in (1, 2, 1, 3, 1, None, None)]
    for file in files:
        append(table, [file])
    opened = open_table(catalog, table)
    predicate = splitlib.DynamicFileEnumerator(opened).predicate
    (batch,) = opened.list_partitions(predicate)
    assert sorted(batch.values["d"].to_pylist(), key=str) == [1, 2, 3, None]
    assert batch.file_counts is not None
    counts = dict(zip(batch.values["d"].to_pylist(), batch.file_counts.to_pylist(), strict=True))
    assert counts == {1: 3, 2: 1, 3: 1, None: 2}
    assert sorted(select(opened)[0]) == sorted(paths_of(files))


def test_doubles_of_partitions_keep_every_digit(catalog):
    """Partition values of type double are exact.

    PyIceberg rounds them to floats, so that 0.1 changes and 1e300 is out of range.
    """
    schema = Schema(NestedField(1, "f", DoubleType(), required=False))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "f"))
    table = create(catalog, schema, spec)
    values = [0.1, 1e300, -0.0, math.nan, math.inf, None, 5e-324]
    files = [data_file(table, [{"f": value}], statistics=False) for value in values]
    append(table, files)
    opened = open_table(catalog, table)
    (batch,) = opened.list_partitions(splitlib.DynamicFileEnumerator(opened).predicate)
    assert repr(batch.values["f"].to_pylist()) == repr(values)
    for value, path in zip(values, paths_of(files), strict=True):
        keys = Keys.from_arrow(pa.table({"f": pa.array([value], pa.float64())}))
        assert select(opened, keys)[0] == [path]


def test_nan_is_one_partition(catalog):
    schema = Schema(NestedField(1, "k", DoubleType(), required=False))
    table = create(
        catalog, schema, PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "k"))
    )
    append(table, [data_file(table, [{"k": math.nan}]), data_file(table, [{"k": math.nan}])])
    append(table, [data_file(table, [{"k": -0.0}]), data_file(table, [{"k": 1.0}])])
    opened = open_table(catalog, table)
    assert len(select(opened, Keys.from_values({"k": [math.nan]}))[0]) == 2
    assert len(select(opened, Keys.from_values({"k": [0.0]}))[0]) == 1


def test_tuples_over_a_partition_of_doubles_and_a_column_with_bounds(catalog):
    fields = NestedField(1, "k", DoubleType(), required=False), SIMPLE.find_field("c")
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "k"))
    table = create(catalog, Schema(*fields), spec)
    keys = (math.nan, 1.0, None)
    files = [data_file(table, [{"k": k, "c": c}]) for k in keys for c in (7, 8)]
    append(table, files)
    opened = open_table(catalog, table)
    for tuples, expected in (
        ([(math.nan, 7), (1.0, 8)], [0, 3]),
        ([(1.0, 7), (None, 8)], [2, 5]),
        ([(2.0, 7), (1.0, 9)], []),
    ):
        ks, cs = zip(*tuples, strict=True)
        found, _ = select(opened, Keys.from_values({"k": list(ks), "c": list(cs)}))
        assert sorted(found) == sorted(paths_of([files[i] for i in expected]))


def test_a_dropped_source_column_prunes_nothing(catalog):
    table = create(catalog, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": 1, "c": 1}]), data_file(table, [{"d": 2, "c": 1}])])
    with table.update_spec() as update:
        update.remove_field("d")
    with table.update_schema() as update:
        update.delete_column("d")
    opened = open_table(catalog, table)
    assert opened.partition_keys == ()
    assert len(select(opened, Keys.from_values({"c": [1]}))[0]) == 2
    assert len(select(opened, Keys.from_values({"d": [1]}))[0]) == 2
    assert select(opened, Keys.from_values({"c": [2]}))[0] == []


def test_partitions_of_a_dropped_source_column_and_another(catalog):
    by_both = PartitionSpec(
        PartitionField(1, 1000, IdentityTransform(), "d"),
        PartitionField(2, 1001, IdentityTransform(), "c"),
    )
    table = create(catalog, SIMPLE, by_both)
    files = [data_file(table, [{"d": d, "c": c}]) for d, c in ((1, 7), (2, 7), (1, 8), (3, 9))]
    append(table, files[:3])
    append(table, files[3:])
    with table.update_spec() as update:
        update.remove_field("d")
    with table.update_schema() as update:
        update.delete_column("d")
    opened = open_table(catalog, table)
    assert opened.partition_keys == ("c",)
    selected, metrics = select(opened, Keys.from_values({"c": [7]}))
    assert sorted(selected) == sorted(paths_of(files[:2]))
    assert (metrics.manifests_opened, metrics.partitions_matched) == (1, 2)


def test_names_of_partitions_that_differ_in_case_alone(catalog):
    by_both = PartitionSpec(
        PartitionField(1, 1000, BucketTransform(4), "k"),
        PartitionField(2, 1001, IdentityTransform(), "K"),
    )
    table = create(catalog, SIMPLE, by_both)
    files = [data_file(table, [{"d": d, "c": c}]) for d in (1, 2) for c in (1, 2)]
    append(table, files)
    opened = open_table(catalog, table)
    assert len(select(opened)[0]) == 4
    found, metrics = select(opened, Keys.from_values({"d": [1], "c": [2]}))
    assert found == paths_of([files[1]])
    assert metrics.partitions_matched == 1


def test_a_renamed_column_and_one_of_its_old_name(catalog):
    table = create(catalog, SIMPLE, BY_D)
    first = data_file(table, [{"d": 1, "c": 5}])
    append(table, [first])
    with table.update_schema() as update:
        update.rename_column("c", "old")
    with table.update_schema() as update:
        update.add_column("c", LongType())
    second = data_file(table, [{"d": 1, "c": 5, "old": 9}])
    append(table, [second])
    opened = open_table(catalog, table)
    assert select(opened, Keys.from_values({"old": [5]}))[0] == paths_of([first])
    # The first file is older than the column, so its values are unknown and it may match.
    assert sorted(select(opened, Keys.from_values({"c": [5]}))[0]) == sorted(
        paths_of([first, second])
    )
    assert select(opened, Keys.from_values({"c": [9]}))[0] == paths_of([first])


def test_promoted_columns(catalog):
    schema = Schema(
        NestedField(1, "i", IntegerType(), required=False),
        NestedField(2, "f", FloatType(), required=False),
        NestedField(3, "n", DecimalType(4, 2), required=False),
    )
    spec = PartitionSpec(
        PartitionField(1, 1000, TruncateTransform(10), "i_trunc"),
        PartitionField(3, 1001, BucketTransform(4), "n_bucket"),
    )
    table = create(catalog, schema, spec)
    old = data_file(table, [{"i": 11, "f": 0.5, "n": Decimal("1.10")}])
    append(table, [old])
    with table.update_schema() as update:
        update.update_column("i", LongType())
        update.update_column("f", DoubleType())
        update.update_column("n", DecimalType(20, 2))
    new = data_file(table, [{"i": 2**40, "f": 0.1, "n": Decimal("123456789.10")}])
    append(table, [new])
    opened = open_table(catalog, table)
    for keys, expected in (
        ({"i": [11]}, [old]),
        ({"i": [2**40]}, [new]),
        ({"i": [12]}, []),
        ({"f": [0.5]}, [old]),
        ({"f": [0.1]}, [new]),
        ({"n": [Decimal("1.10")]}, [old]),
        ({"n": [Decimal("123456789.10")]}, [new]),
    ):
        assert select(opened, Keys.from_values(keys))[0] == paths_of(expected), keys


def test_fields_of_structs(catalog):
    inner = StructType(NestedField(3, "b", LongType(), required=False))
    schema = Schema(
        NestedField(1, "d", IntegerType(), required=False),
        NestedField(2, "a", inner, required=False),
    )
    table = create(catalog, schema)
    with table.update_spec() as update:
        update.add_identity("a.b")
    spec = table.spec().fields[0]
    assert table.schema().find_column_name(spec.source_id) == "a.b"
    files = [data_file(table, [{"a.b": b}]) for b in (1, 2)]
    append(table, files)
    opened = open_table(catalog, table)
    assert opened.partition_keys == ("a.b",)
    assert select(opened, Keys.from_values({"a.b": [2]}))[0] == paths_of(files[1:])


def test_ranges_through_transforms(catalog):
    schema = Schema(NestedField(1, "t", TimestamptzType(), required=False))
    spec = PartitionSpec(PartitionField(1, 1000, DayTransform(), "t_day"))
    table = create(catalog, schema, spec)
    days = [dt.datetime(2024, 1, day, 12, tzinfo=dt.UTC) for day in range(1, 11)]
    files = [data_file(table, [{"t": day}], statistics=False) for day in days]
    append(table, files)
    opened = open_table(catalog, table).in_time_zone("America/New_York")
    keys = Keys.from_range({"t": (days[2], days[4])}).in_time_zone("Asia/Tokyo")
    assert sorted(select(opened, keys)[0]) == sorted(paths_of(files[2:5]))
    one = Keys.from_values({"t": [days[7]]}).in_time_zone("Asia/Tokyo")
    assert select(opened, one)[0] == paths_of(files[7:8])


@pytest.mark.parametrize("transform", [BucketTransform(7), TruncateTransform(2)], ids=str)
def test_keys_that_a_transform_cannot_convert_prune_nothing(catalog, transform):
    """Keys of Spark may be invalid UTF-8, and decimals may need a 39th digit."""
    text = pa.array([b"\xff\xfe", b"abc"], pa.binary()).view(pa.string())
    ends = (Decimal(-(10**38) + 1), Decimal(5))
    schema = Schema(
        NestedField(1, "s", StringType(), required=False),
        NestedField(2, "n", DecimalType(38, 0), required=False),
    )
    for source, row, data in (
        (1, {"s": "abc"}, Keys.from_arrow(pa.table({"s": text}))),
        (2, {"n": ends[1]}, Keys.from_values({"n": ends})),
        (2, {"n": ends[1]}, Keys.from_range({"n": ends})),
    ):
        table = create(catalog, schema, PartitionSpec(PartitionField(source, 1000, transform, "p")))
        file = data_file(table, [row])
        append(table, [file])
        selected, _ = select(open_table(catalog, table), data)
        assert selected == paths_of([file])


def test_a_failed_read_of_another_specification_is_retried(catalog, monkeypatch):
    table = create(catalog, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    with table.update_spec() as update:
        update.add_identity("c")
    append(table, [data_file(table, [{"d": 1, "c": 2}])])
    failed = list[int]()

    def busy_once(files, manifest):
        if manifest.partition_spec_id not in failed:
            failed.append(manifest.partition_spec_id)
            raise splitlib.SourceUnavailable("busy")
        return read_entries(files, manifest)

    monkeypatch.setattr("splitlib_iceberg.snapshot.read_entries", busy_once)
    monkeypatch.setattr("splitlib.remote.retry.random.uniform", lambda *_: 0)
    metadata_cache.shared.clear()
    selected, _ = select(open_table(catalog, table))
    assert len(selected) == 2
    assert len(failed) == 2


def test_a_uuid_is_found_by_its_text_and_never_lost_by_its_bounds(catalog):
    """Keys prune UUID partitions by text, but never by bounds. Writers sort UUIDs differently."""
    low, high = uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)
    schema = Schema(NestedField(1, "u", UUIDType(), required=False))
    plain = create(catalog, schema)
    signed = data_file(
        plain,
        [],
        lower_bounds={1: high.bytes},  # some writers compare the halves as signed numbers
        upper_bounds={1: low.bytes},
        value_counts={1: 2},
        null_value_counts={1: 0},
    )
    append(plain, [signed])
    opened = open_table(catalog, plain)
    assert len(select(opened, Keys.from_values({"u": [str(high)]}))[0]) == 1
    assert select(opened, Keys.from_arrow(pa.table({"u": pa.array([None], pa.string())})))[0] == []
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "u_bucket"))
    bucketed = create(catalog, schema, spec)
    append(bucketed, [data_file(bucketed, [{"u": u}], statistics=False) for u in (low, high)])
    assert len(select(open_table(catalog, bucketed), Keys.from_values({"u": [str(low)]}))[0]) == 1


def test_a_uuid_whose_type_a_manifest_leaves_out():
    """Without the logical type, PyIceberg returns its bytes."""
    value = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    schema = Schema(NestedField(1, "u", UUIDType(), required=False))
    spec = Spec(
        PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "u")),
        {column.id: column for column in filter_columns(schema)},
    )
    for stored in (value, value.bytes, str(value)):
        (column,) = spec.partitions([[stored]], (1000,))
        assert column.to_pylist() == [str(value)]


def test_one_client_serves_all_local_files(tmp_path, monkeypatch):
    made = []

    def load(properties, location):
        made.append(location)
        return load_file_io(properties, location)

    monkeypatch.setattr("splitlib_iceberg.unpacking.load_file_io", load)
    files = GuardedFileIO({})
    for name in ("a", "b:c", "d"):
        (tmp_path / name).write_bytes(b"x")
        with files.new_input(str(tmp_path / name)).open() as stream:
            assert stream.read() == b"x"
    assert len(made) == 1


def test_threads_that_read_manifests_keep_no_process_alive():
    """Threads that read are daemons, because Python waits at exit for all other threads.

    A read that hangs cannot be stopped.
    """
    assert in_parallel(lambda _: threading.current_thread().daemon, [1, 2]) == [True, True]
