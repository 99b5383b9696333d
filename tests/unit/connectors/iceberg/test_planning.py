"""Which files of an Iceberg table are selected, against a model and against PyIceberg."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import In, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

import splitlib
from splitlib_iceberg import cache
from splitlib_iceberg.schema import arrow_type
from tests.support.iceberg_tables import (
    append,
    create,
    data_file,
    internal,
    make_catalog,
    open_table,
    partition_of,
    paths_of,
    select,
)

Keys = splitlib.DynamicFilteringData
NAN = math.nan
MOMENTS = [dt.datetime(1969, 12, 30, 23, 59), dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 1)]
DOMAINS: dict[IcebergType, list[Any]] = {
    BooleanType(): [False, True],
    IntegerType(): [-(2**31) + 99, -11, -1, 0, 1, 11, 2**31 - 1],
    LongType(): [-(2**53) - 1, -11, 0, 1, 11, 2**53, 2**53 + 1],
    FloatType(): [-1.5, 0.0, 0.5, NAN],
    DoubleType(): [-1.5, -0.0, 0.1, NAN],
    DecimalType(9, 2): [Decimal("-1.01"), Decimal("0.00"), Decimal("0.10"), Decimal("9.99")],
    DateType(): [moment.date() for moment in MOMENTS],
    TimestampType(): MOMENTS,
    TimestamptzType(): [moment.replace(tzinfo=dt.UTC) for moment in MOMENTS],
    StringType(): ["", "a", "ab", "abc", "b", "é", "\U0001f600"],
    BinaryType(): [b"", b"\x00", b"ab", b"\xff\x00"],
    FixedType(2): [b"\x00\x00", b"ab", b"\xff\x00"],
}
TRANSFORMS: list[Transform[Any, Any]] = [
    IdentityTransform(),
    BucketTransform(3),
    TruncateTransform(2),
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
    VoidTransform(),
]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    made = make_catalog(tmp_path_factory.mktemp("iceberg"))
    yield made
    made.close()


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


def same(one, other):
    return one == other or (is_nan(one) and is_nan(other))


def spec_of(kind, draw):
    possible = [t for t in TRANSFORMS if t.can_transform(kind)]
    return draw(st.lists(st.sampled_from(possible), max_size=2, unique_by=lambda t: t.dedup_name))


@given(data=st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_transform_type_and_evolution(catalog, data):
    kind = data.draw(st.sampled_from(list(DOMAINS)))
    value = st.one_of(st.none(), st.sampled_from(DOMAINS[kind]))
    number = st.sampled_from([None, 1, 2, 3])
    schema = Schema(
        NestedField(1, "k", kind, required=False), NestedField(2, "v", LongType(), required=False)
    )
    table = create(catalog, schema)
    files = []
    for generation in range(data.draw(st.integers(1, 3))):
        transforms = spec_of(kind, data.draw)
        with table.update_spec() as update:
            for field in table.spec().fields:
                update.remove_field(field.name)
            for transform in transforms:
                update.add_field("k", transform, f"p{generation}_{type(transform).__name__}")
        rows = data.draw(st.lists(st.tuples(value, number), min_size=1, max_size=6))
        by_partition: dict[str, list[dict[str, Any]]] = {}
        for k, v in rows:
            key = repr(partition_of(table, {"k": k}))
            by_partition.setdefault(key, []).append({"k": k, "v": v})
        made = [
            (data_file(table, chunk, statistics=data.draw(st.booleans())), chunk)
            for chunk in by_partition.values()
        ]
        append(table, [file for file, _ in made])
        files += made
    keys = data.draw(st.lists(st.tuples(value, number), max_size=4))
    together = data.draw(st.booleans())
    columns = {"k": pa.array([k for k, _ in keys], arrow_type(kind))}
    if together:
        columns["v"] = pa.array([v for _, v in keys], pa.int64())
    opened = open_table(catalog, table)
    selected = set(select(opened, Keys.from_arrow(pa.table(columns)))[0])

    for file, rows in files:
        path = paths_of([file])[0]
        matching = any(
            same(row["k"], k) and (row["v"] == v or not together) for row in rows for k, v in keys
        )
        assert not matching or path in selected, (rows, keys)
        if not matching and file.lower_bounds is not None and file.value_counts:
            # with statistics, only what lies between the bounds of both columns is kept
            enclosed = any(
                encloses([r["k"] for r in rows], k)
                and (not together or encloses([r["v"] for r in rows], v))
                for k, v in keys
            )
            assert enclosed or path not in selected, (rows, keys)

    plain = [k for k, _ in keys if k is not None and not is_nan(k) and not isinstance(k, bool)]
    if not together and plain and len(plain) == len(keys) and not isinstance(kind, FixedType):
        among = In(term=Reference("k"), values=set(map(literal, plain)))
        planned = catalog.load_table(table.name()).scan(row_filter=among).plan_files()
        assert selected <= set(paths_of(task.file for task in planned)) | mistaken(files, kind)


def mistaken(files, kind):
    """Files without statistics whose partitions older writers may have rounded to."""
    if not isinstance(kind, DateType | TimestampType | TimestamptzType):
        return set()
    return {path for file, _ in files if not file.value_counts for path in paths_of([file])}


def encloses(values, key):
    if key is None:
        return None in values
    if is_nan(key):
        return any(map(is_nan, values))
    plain = [v for v in values if v is not None and not is_nan(v)]
    return bool(plain) and min(plain) <= key <= max(plain)


LONGS = Schema(
    NestedField(1, "d", IntegerType(), required=False),
    NestedField(2, "c", LongType(), required=False),
)
BY_D = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "d"))


def test_only_the_files_between_whose_bounds_a_key_lies(catalog):
    """More keys than the 200 above which PyIceberg gives up bounds."""
    table = create(catalog, LONGS)
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
    """Counts from outside what is opened."""

    opened: ClassVar[list[str]] = []

    def new_input(self, location):
        self.opened.append(Path(location).name)
        return super().new_input(location)


def test_only_manifests_with_a_matching_partition_are_opened(catalog):
    table = create(catalog, LONGS, BY_D)
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
    # 777 and 95 lie in the gaps, where a bound alone does not tell: 95 > 90, 777 < 780
    assert (metrics.manifests_total, metrics.manifests_opened) == (10, 3)
    assert (metrics.files_total, metrics.files_dropped["manifests"]) == (100, 70)
    assert metrics.storage_requests == len(Counting.opened) == 4
    again, metrics = select(opened, keys)
    assert again == selected
    assert metrics.storage_requests == 0
    opened.close()


def test_a_manifest_without_a_match_is_reported_though_nothing_is_listed(catalog):
    table = create(catalog, LONGS, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    selected, metrics = select(open_table(catalog, table), Keys.from_values({"d": [2]}))
    assert (selected, metrics.manifests_opened, metrics.files_dropped["manifests"]) == ([], 0, 1)


def test_an_unpartitioned_table_is_one_partition_whose_files_have_bounds(catalog):
    table = create(catalog, LONGS)
    files = [data_file(table, [{"c": 10 * i}, {"c": 10 * i + 5}]) for i in range(20)]
    append(table, files[:12])
    append(table, files[12:])
    opened = open_table(catalog, table)
    (batch,) = opened.list_partitions(splitlib.DynamicFileEnumerator(opened).predicate)
    assert (len(batch), batch.values.num_columns) == (1, 0)
    assert batch.file_counts is not None
    assert batch.file_counts.to_pylist() == [20]
    # 48 lies between two files
    selected, metrics = select(opened, Keys.from_values({"c": [31, 48, 50, 195]}))
    assert sorted(selected) == sorted(paths_of([files[3], files[5], files[19]]))
    assert (metrics.partitions_matched, metrics.files_dropped["statistics"]) == (1, 17)
    assert sorted(select(opened)[0]) == sorted(paths_of(files))


def test_tuples_over_a_partition_and_a_column_with_bounds(catalog):
    table = create(catalog, LONGS, BY_D)
    files = [data_file(table, [{"d": d, "c": c}]) for d in (1, 2) for c in (7, 8)]
    append(table, files)
    selected, _ = select(open_table(catalog, table), Keys.from_values({"d": [1, 2], "c": [7, 8]}))
    assert sorted(selected) == sorted(paths_of([files[0], files[3]]))


def test_a_partition_is_listed_once_whatever_manifests_it_is_in(catalog):
    table = create(catalog, LONGS, BY_D)
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
    """PyIceberg rounds them to floats, where 0.1 is another number and 1e300 none."""
    schema = Schema(NestedField(1, "f", DoubleType(), required=False))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "f"))
    table = create(catalog, schema, spec)
    values = [0.1, 1e300, -0.0, NAN, math.inf, None, 5e-324]
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
    append(table, [data_file(table, [{"k": NAN}]), data_file(table, [{"k": NAN}])])
    append(table, [data_file(table, [{"k": -0.0}]), data_file(table, [{"k": 1.0}])])
    opened = open_table(catalog, table)
    assert len(select(opened, Keys.from_values({"k": [NAN]}))[0]) == 2
    assert len(select(opened, Keys.from_values({"k": [0.0]}))[0]) == 1


def test_a_dropped_source_column_prunes_nothing(catalog):
    table = create(catalog, LONGS, BY_D)
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


def test_a_renamed_column_and_one_of_its_old_name(catalog):
    table = create(catalog, LONGS, BY_D)
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
    # what a column holds in files older than it is not known
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


def test_a_uuid_is_found_by_its_text_and_never_lost_by_its_bounds(catalog):
    """Writers disagree on the order of UUIDs, so that their bounds are not to be used."""
    low, high = uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)
    schema = Schema(NestedField(1, "u", UUIDType(), required=False))
    plain = create(catalog, schema)
    signed = data_file(
        plain,
        [],
        lower_bounds={1: high.bytes},  # the lesser one where halves are signed
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


def test_nothing_is_decoded_twice_and_a_late_filter_finds_its_statistics(catalog):
    table = create(catalog, LONGS, BY_D)
    files = [data_file(table, [{"d": i % 3, "c": i}]) for i in range(9)]
    append(table, files)
    opened = open_table(catalog, table)
    enumerator = splitlib.DynamicFileEnumerator(opened)
    enumerator.set_dynamic_filtering_data(Keys.from_values({"d": [0, 1]}))
    assert enumerator.predicate.keys == {"d"}
    batches = list(opened.list_partitions(enumerator.predicate))
    enumerator.set_dynamic_filtering_data(Keys.from_values({"c": [4]}))
    (found,) = opened.list_files(batches[0], enumerator.predicate, enumerator.config)
    assert set(found.statistics) == {"d", "c"}
    assert found.requests.storage == 1
    kept = found.filter(enumerator.predicate.match_bounds(found.statistics))
    assert kept.files["path"].to_pylist() == paths_of([files[4]])


def test_what_the_cache_drops_is_read_again(catalog, monkeypatch):
    table = create(catalog, LONGS, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    opened = open_table(catalog, table)
    (batch,) = opened.list_partitions(splitlib.DynamicFileEnumerator(opened).predicate)
    monkeypatch.setattr(cache, "shared", cache.ManifestCache(max_bytes=0))
    assert len(select(opened)[0]) == 1
    other = open_table(catalog, table)
    enumerator = splitlib.DynamicFileEnumerator(other)
    (found,) = other.list_files(batch, enumerator.predicate, enumerator.config)
    assert found.requests.storage >= 1
    assert len(found) == 1


def test_the_cache_is_bounded():
    small = cache.ManifestCache(max_bytes=100)
    small.put("a", "A", 60)
    small.put("b", "B", 60)
    small.put("c", "C", 101)
    assert [small.get(key) for key in "abc"] == [None, "B", None]


def test_nulls_are_found_as_pyiceberg_finds_them(catalog):
    table = create(catalog, LONGS, BY_D)
    files = [data_file(table, [{"d": d, "c": c}]) for d, c in ((None, 1), (1, None), (1, 1))]
    append(table, files)
    keys = Keys.from_arrow(pa.table({"c": pa.array([None], pa.int64())}))
    selected, _ = select(open_table(catalog, table), keys)
    planned = table.scan(row_filter="c is null").plan_files()
    assert selected == paths_of(task.file for task in planned) == paths_of(files[1:2])


def test_internal_values_of_the_model():
    """The model itself: a wrong one would agree with a wrong connector."""
    assert internal(dt.date(1969, 12, 31)) == -1
    assert internal(dt.datetime(1970, 1, 1, 0, 0, 1)) == 1_000_000
