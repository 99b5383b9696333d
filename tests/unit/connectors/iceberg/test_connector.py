"""Opening an Iceberg table: its schema, its version, and what is refused or broken."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

import splitlib
from splitlib.model import FIELD_ID, INITIAL_DEFAULT, LOGICAL_TYPE, ReadFormat
from splitlib_iceberg import cache
from tests.support.iceberg_tables import (
    append,
    catalog_options,
    create,
    data_file,
    make_catalog,
    open_table,
    paths_of,
    select,
)

Keys = splitlib.DynamicFilteringData
SIMPLE = Schema(
    NestedField(1, "d", IntegerType(), required=False),
    NestedField(2, "c", LongType(), required=False),
)
BY_D = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "d"))


@pytest.fixture
def catalog(tmp_path):
    made = make_catalog(tmp_path)
    yield made
    made.close()


@pytest.fixture
def table(catalog):
    """Two snapshots of one file each."""
    made = create(catalog, SIMPLE, BY_D)
    append(made, [data_file(made, [{"d": 1}])])
    append(made, [data_file(made, [{"d": 2}])])
    return made


# --- schema


def test_every_type(catalog):
    inner = StructType(
        NestedField(20, "x", StringType(), required=True),
        NestedField(21, "y", UUIDType(), required=False),
    )
    types = [
        BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), DecimalType(10, 2),
        DateType(), TimestampType(), TimestamptzType(), StringType(), UUIDType(), FixedType(3),
        BinaryType(), inner, ListType(30, StringType(), element_required=False),
        MapType(40, StringType(), 41, inner, value_required=False),
    ]  # fmt: skip
    fields = [NestedField(i + 1, f"c{i}", kind, required=i == 1) for i, kind in enumerate(types)]
    metadata = open_table(catalog, create(catalog, Schema(*fields))).metadata
    assert [str(field.type) for field in metadata.schema] == [
        "bool", "int32", "int64", "float", "double", "decimal128(10, 2)", "date32[day]",
        "timestamp[us]", "timestamp[us, tz=UTC]", "string", "string", "binary", "binary",
        "struct<x: string not null, y: string>", "list<element: string>",
        "map<string, struct<x: string not null, y: string>>",
    ]  # fmt: skip
    assert [f.name for f in metadata.schema if not f.nullable] == ["c1"]
    assert [f.name for f in metadata.schema if (f.metadata or {}).get(LOGICAL_TYPE)] == ["c10"]
    assert metadata.schema.field("c10").metadata[LOGICAL_TYPE] == b"uuid"
    identifiers = list(_identifiers(metadata.schema))
    assert len(identifiers) == len(set(identifiers)) == 16 + 2 + 1 + 2 + 2
    assert metadata.read_format == ReadFormat.of("parquet", columns="id")
    assert metadata.filterable.names == [f"c{i}" for i in range(13)] + ["c13.x", "c13.y"]


def _identifiers(fields):
    for field in fields:
        yield int(field.metadata[FIELD_ID])
        kind = field.type
        if pa.types.is_struct(kind):
            yield from _identifiers(kind)
        elif pa.types.is_map(kind):
            yield from _identifiers([kind.key_field, kind.item_field])
        elif pa.types.is_list(kind):
            yield from _identifiers([kind.value_field])


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (IntegerType(), 7, "7"),
        (StringType(), "é", '"\\u00e9"'),
        (DecimalType(5, 2), "1.50", '"1.50"'),
        (DateType(), "2024-02-29", '"2024-02-29"'),
        (TimestampType(), "2024-02-29T01:02:03.000004", '"2024-02-29T01:02:03.000004"'),
        (BooleanType(), False, "false"),
    ],
    ids=str,
)
def test_initial_defaults_are_json(catalog, kind, value, text):
    """As a table's metadata has them, which any writer of version 3 may have made."""
    table = create(catalog, SIMPLE)

    def with_default(metadata):
        metadata |= VERSION_3
        schema = metadata["schemas"][0]
        schema["fields"].append(
            {"id": 9, "name": "new", "required": False, "type": str(kind), "initial-default": value}
        )

    _rewrite(table, with_default)
    schema = open_table(catalog, table).schema
    assert schema.field("new").metadata[INITIAL_DEFAULT] == text.encode()
    assert INITIAL_DEFAULT not in schema.field("d").metadata


# PyIceberg reads version 3 and does not write it yet
VERSION_3 = {"format-version": 3, "next-row-id": 0}


def _rewrite(table, change):
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    change(metadata)
    path.write_text(json.dumps(metadata))


def test_partition_keys_are_the_columns_that_partitions_follow_from(catalog):
    schema = Schema(
        NestedField(1, "t", TimestampType(), required=False),
        NestedField(2, "k", LongType(), required=False),
        NestedField(3, "v", LongType(), required=False),
    )
    table = create(catalog, schema)
    with table.update_spec() as update:
        update.add_field("v", BucketTransform(2), "v_bucket")
        update.add_field("k", BucketTransform(4))
        update.add_field("t", DayTransform())
        update.add_identity("k")
    with table.update_spec() as update:
        update.remove_field("v_bucket")
    opened = open_table(catalog, table)
    assert opened.partition_keys == ("k", "t")
    assert opened.list_accepted_filter_fields() == ("t", "k", "v")


@pytest.mark.parametrize("kind", ["time", "timestamp_ns", "timestamptz_ns", "unknown"])
def test_a_type_that_spark_has_not_is_refused(catalog, kind):
    inner = StructType(NestedField(2, "x", LongType(), required=False))
    table = create(catalog, Schema(NestedField(1, "a", inner)))

    def retype(metadata):
        metadata |= VERSION_3
        metadata["schemas"][0]["fields"][0]["type"]["fields"][0]["type"] = kind

    _rewrite(table, retype)
    with pytest.raises(splitlib.UnsupportedTable, match=rf"column a\.x is of type {kind}"):
        open_table(catalog, table)


def test_an_unknown_type_is_refused(catalog, table):
    def variant(metadata):
        metadata["schemas"][0]["fields"][1]["type"] = "variant"

    _rewrite(table, variant)
    with pytest.raises(splitlib.UnsupportedTable, match="variant"):
        open_table(catalog, table)


def test_names_that_differ_in_case_only_are_refused(catalog):
    table = create(
        catalog, Schema(NestedField(1, "a", LongType()), NestedField(2, "A", LongType()))
    )
    with pytest.raises(splitlib.UnsupportedTable, match="A, a differ in case only"):
        open_table(catalog, table)


def test_columns_that_were_dropped(catalog):
    """In their last types: an equality delete may compare them still."""
    fields = [NestedField(i, f"c{i}", IntegerType(), required=False) for i in (1, 2, 3)]
    table = create(catalog, Schema(*fields))
    with table.update_schema() as update:
        update.update_column("c2", LongType())
        update.rename_column("c2", "renamed")
        update.add_column("t", TimeType())
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("renamed")
        update.delete_column("t")
        update.add_column("c2", StringType())
    dropped = open_table(catalog, table).metadata.dropped_schema
    assert dropped is not None
    assert [(f.name, f.type, f.metadata[FIELD_ID]) for f in dropped] == [
        ("renamed", pa.int64(), b"2")
    ]


def test_a_date_that_became_a_time_is_refused(catalog):
    table = create(catalog, Schema(NestedField(1, "t", DateType(), required=False)))

    def promote(metadata):
        newer = json.loads(json.dumps(metadata["schemas"][0]))
        newer["schema-id"] = 1
        newer["fields"][0]["type"] = "timestamp"
        metadata["schemas"].append(newer)
        metadata["current-schema-id"] = 1

    _rewrite(table, promote)
    with pytest.raises(splitlib.UnsupportedTable, match="t was date and is timestamp"):
        open_table(catalog, table)


# --- versions


def test_an_empty_table_reads_as_nothing(catalog):
    opened = open_table(catalog, create(catalog, SIMPLE, BY_D))
    assert opened.metadata.snapshot_id is None
    assert select(opened)[0] == []
    assert select(opened, Keys.from_values({"d": [1]}))[0] == []


def test_a_snapshot_is_pinned_when_the_table_is_opened(catalog, table):
    opened = open_table(catalog, table)
    assert opened.metadata.snapshot_id == str(table.current_snapshot().snapshot_id)
    append(table, [data_file(table, [{"d": 3}])])
    assert len(select(opened)[0]) == 2
    assert len(select(open_table(catalog, table))[0]) == 3


def test_every_way_to_pin_a_version(catalog, table):
    first, second = table.history()
    table.manage_snapshots().create_tag(first.snapshot_id, "old").commit()
    table.manage_snapshots().create_branch(first.snapshot_id, "side").commit()
    iso = dt.datetime.fromtimestamp(first.timestamp_ms / 1000, dt.UTC)
    for pin in (
        {"snapshot_id": first.snapshot_id},
        {"snapshot_id": str(first.snapshot_id)},
        {"ref": "old"},
        {"ref": "side"},
        {"as_of": first.timestamp_ms},
        {"as_of": str(first.timestamp_ms)},
        {"as_of": iso},
        {"as_of": iso.isoformat()},
    ):
        opened = open_table(catalog, table, **pin)
        assert opened.metadata.snapshot_id == str(first.snapshot_id), pin
        assert len(select(opened)[0]) == 1
    for pin in ({"ref": "main"}, {"as_of": second.timestamp_ms + 1}):
        assert len(select(open_table(catalog, table, **pin))[0]) == 2


def test_which_schema_a_version_is_shown_with(catalog, table):
    """A branch with the table's of now, all else pinned with its own, as Iceberg's Spark does."""
    old = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(old, "tag").create_branch(old, "branch").commit()
    with table.update_schema() as update:
        update.rename_column("c", "renamed")
    names = {
        str(pin): open_table(catalog, table, **pin).schema.names
        for pin in ({"snapshot_id": old}, {"ref": "tag"}, {"ref": "branch"}, {"ref": "main"}, {})
    }
    assert list(names.values()) == [["d", "c"]] * 2 + [["d", "renamed"]] * 3


def test_a_version_that_is_not_there(catalog, table):
    for pin, message in (
        ({"snapshot_id": 1}, "no snapshot 1"),
        ({"ref": "nope"}, "no branch or tag 'nope'"),
        ({"as_of": 1000}, "no snapshot as old"),
    ):
        with pytest.raises(splitlib.SnapshotNotFound, match=message):
            open_table(catalog, table, **pin)


def test_an_expired_snapshot(catalog, table):
    first = table.history()[0]
    table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    for pin in ({"snapshot_id": first.snapshot_id}, {"as_of": first.timestamp_ms}):
        with pytest.raises(splitlib.SnapshotNotFound):
            open_table(catalog, table, **pin)


@pytest.mark.parametrize(
    "pins",
    [
        {"snapshot_id": 1, "ref": "main"},
        {"ref": "main", "as_of": 1},
        {"snapshot_id": "one"},
        {"as_of": "yesterday"},
        {"as_of": "2024-01-01T00:00:00"},
        {"as_of": dt.datetime(2024, 1, 1)},
        {"as_of": [1]},
        {"ref": 1},
    ],
    ids=str,
)
def test_malformed_pins(catalog, table, pins):
    with pytest.raises(splitlib.ConfigError):
        open_table(catalog, table, **pins)


# --- catalogs


def test_by_the_properties_of_pyiceberg(catalog, table, tmp_path):
    name = ".".join(table.name())
    with splitlib.load_table(name, "iceberg", **catalog_options(tmp_path)) as opened:
        assert len(select(opened)[0]) == 2


def test_by_the_name_of_a_configured_catalog(tmp_path, monkeypatch):
    # what is configured is read when PyIceberg is imported
    made = make_catalog(tmp_path / "lake", "lake")
    made_table = create(made, SIMPLE, BY_D)
    append(made_table, [data_file(made_table, [{"d": 1}])])
    made.close()
    options = catalog_options(tmp_path / "lake")
    environment = {f"PYICEBERG_CATALOG__LAKE__{key.upper()}": v for key, v in options.items()}
    code = (
        "import splitlib\n"
        f"t = splitlib.load_table({'.'.join(made_table.name())!r}, 'iceberg', catalog='lake')\n"
        "print(len(splitlib.paths(t)))"
    )
    assert _python(code, environment) == "1"


def _python(code, environment):
    import subprocess
    import sys

    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    return done.stdout.strip()


def test_a_catalog_in_memory(tmp_path):
    memory = load_catalog("m", type="in-memory", warehouse=tmp_path.as_uri())
    memory.create_namespace("ns")
    table = create(memory, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    assert len(select(open_table(memory, table))[0]) == 1
    memory.close()


def test_a_database_of_a_catalog_of_another_name(tmp_path):
    """A SQL catalog keeps its name in its rows, which nobody has to know who reads it."""
    options = catalog_options(tmp_path)
    lake, mill = make_catalog(tmp_path, "lake"), make_catalog(tmp_path, "mill")
    for catalog, name, value in ((lake, "only", 1), (lake, "both", 2), (mill, "both", 3)):
        made = catalog.create_table(f"ns.{name}", SIMPLE, partition_spec=BY_D)
        append(made, [data_file(made, [{"d": value}])])
    with splitlib.load_table("ns.only", "iceberg", **options) as opened:
        assert len(select(opened)[0]) == 1
    with pytest.raises(splitlib.ConfigError, match="named lake, mill") as caught:
        splitlib.load_table("ns.both", "iceberg", **options)
    assert "catalog=" in str(caught.value)
    with splitlib.load_table("ns.both", "iceberg", catalog="mill", **options) as opened:
        keys = Keys.from_values({"d": [3]})
        assert len(select(opened, keys)[0]) == 1
    # a name that is given is meant
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("ns.only", {"catalog": "mill"}),
        ("ns.none", {}),
        ("other.only", {}),
    ]
    for name, named in wrong:
        with pytest.raises(splitlib.TableNotFound):
            splitlib.load_table(name, "iceberg", **named, **options)
    lake.close()
    mill.close()


def test_no_such_table(catalog):
    for name in ("ns.missing", "missing.t", "missing"):
        with pytest.raises(splitlib.TableNotFound):
            splitlib.load_table(name, "iceberg", catalog=catalog)


def test_no_such_catalog(tmp_path):
    with pytest.raises(splitlib.ConfigError, match="cannot be opened"):
        splitlib.load_table("ns.t", "iceberg", catalog="nobody configured this")
    with pytest.raises(splitlib.ConfigError, match="cannot be opened"):
        splitlib.load_table("ns.t", "iceberg", type="fancy")
    # a database that is not there is not made either
    with pytest.raises(splitlib.TableNotFound):
        splitlib.load_table("ns.t", "iceberg", type="sql", uri=f"sqlite:///{tmp_path}/none.db")


def test_a_given_catalog_and_properties_contradict_each_other(catalog, table):
    with pytest.raises(splitlib.ConfigError, match="uri"):
        open_table(catalog, table, uri="sqlite://")


def test_secrets_stay_out_of_messages(tmp_path):
    secrets: dict[str, Any] = {
        "uri": "sqlite:////no/pass:word@dir/x.db",
        "s3.secret-access-key": "hunter2",
    }
    config = splitlib.SplitConfig(retry_attempts=1)
    with pytest.raises(splitlib.SplitlibError) as caught:
        splitlib.load_table("ns.t", "iceberg", config=config, type="sql", **secrets)
    assert "hunter2" not in repr(caught.value)
    with pytest.raises(splitlib.SplitlibError) as caught:
        splitlib.load_table("ns.t", "iceberg", type="nonsense", token="hunter2")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_catalog_that_does_not_answer():
    config = splitlib.SplitConfig(retry_attempts=1)
    with pytest.raises(splitlib.SourceUnavailable):
        splitlib.load_table("ns.t", "iceberg", config=config, type="rest", uri="http://127.0.0.1:9")


# --- files that are not what they should be


def metadata_files(table, pattern):
    root = Path(table.location().removeprefix("file://")) / "metadata"
    return sorted(root.glob(pattern))


def test_a_metadata_file_that_does_not_parse(catalog, table):
    path = Path(table.metadata_location.removeprefix("file://"))
    good = path.read_text()
    for bad, error in (
        ("", splitlib.CorruptMetadata),
        ("{", splitlib.CorruptMetadata),
        (good[: len(good) // 2], splitlib.CorruptMetadata),
        (json.dumps({**json.loads(good), "schemas": 5}), splitlib.CorruptMetadata),
        (json.dumps({**json.loads(good), "format-version": 9}), splitlib.UnsupportedTable),
    ):
        path.write_text(bad)
        with pytest.raises(error) as caught:
            open_table(catalog, table)
        assert len(str(caught.value)) < 400
    path.unlink()
    with pytest.raises(splitlib.MissingFile):
        open_table(catalog, table)


def damaged(path, how):
    data = path.read_bytes()
    match how:
        case "gone":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "garbage":
            path.write_bytes(b"\xff" * len(data))
        case "cut":
            path.write_bytes(data[:-40])
        case "a directory":
            path.unlink()
            path.mkdir()


@pytest.mark.parametrize("what", ["snap-*.avro", "*-m0.avro"])
@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("gone", splitlib.MissingFile),
        ("empty", splitlib.CorruptMetadata),
        ("garbage", splitlib.CorruptMetadata),
        ("cut", splitlib.CorruptMetadata),
        ("a directory", splitlib.SourceUnavailable),
    ],
)
def test_a_damaged_manifest_or_list(catalog, table, what, how, error):
    for path in metadata_files(table, what):
        damaged(path, how)
    opened = open_table(catalog, table)
    with pytest.raises(error) as caught:
        select(opened)
    assert "metadata/" in str(caught.value)
    assert caught.value.table == ".".join(table.name())


def test_a_manifest_cut_between_its_blocks(catalog):
    """It decodes without an error, to fewer files."""
    table = create(catalog, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": d}]) for d in range(50)])
    (path,) = metadata_files(table, "*-m0.avro")
    with AvroFile[Any](PyArrowFileIO().new_input(path.as_uri())) as reader:
        next(reader)
        sync = reader.header.sync
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(sync, 0, -20) + len(sync)])
    with pytest.raises(splitlib.CorruptMetadata, match="49 files, its list says 50"):
        select(open_table(catalog, table))


@pytest.mark.parametrize("what", ["snap-*.avro", "*-m0.avro"])
def test_a_manifest_or_list_of_a_version_to_come(catalog, table, what):
    for path in metadata_files(table, what):
        data = path.read_bytes()
        assert b"format-version\x022" in data
        path.write_bytes(data.replace(b"format-version\x022", b"format-version\x029"))
    with pytest.raises(splitlib.UnsupportedTable, match="version 9"):
        select(open_table(catalog, table))


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"file_format": "ORC"}, "is of format orc"),
        ({"file_format": "AVRO"}, "is of format avro"),
        ({"key_metadata": b"key"}, "is encrypted"),
    ],
    ids=str,
)
def test_files_that_cannot_be_read_are_refused_if_they_matter(catalog, overrides, reason):
    table = create(catalog, SIMPLE, BY_D)
    bad, good = data_file(table, [{"d": 1}], **overrides), data_file(table, [{"d": 2}])
    append(table, [bad, good])
    opened = open_table(catalog, table)
    assert select(opened, Keys.from_values({"d": [2]}))[0] == paths_of([good])
    with pytest.raises(splitlib.UnsupportedTable, match=reason):
        select(opened, Keys.from_values({"d": [1]}))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_format_version(catalog, version):
    written = {"format-version": str(min(version, 2))}
    table = create(catalog, SIMPLE, BY_D, properties=written)
    files = [data_file(table, [{"d": d, "c": 5}]) for d in (1, 2)]
    append(table, files)
    if version == 3:
        _rewrite(table, lambda metadata: metadata.update(VERSION_3))
    opened = open_table(catalog, table)
    assert select(opened, Keys.from_values({"d": [2], "c": [5]}))[0] == paths_of(files[1:])


def test_paths_are_spelled_as_hadoop_does(tmp_path):
    """Percent signs are part of a name, in the catalog as on the disk."""
    root = tmp_path / "a b%20é"
    catalog = make_catalog(tmp_path)
    location = f"file://{root}/t x"
    table = catalog.create_table("ns.t", SIMPLE, location=location, partition_spec=BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    (path,) = select(open_table(catalog, table))[0]
    assert path.startswith(f"{root}/t x/data/")
    catalog.close()


def test_what_is_cached_belongs_to_the_credentials(catalog, table, tmp_path):
    opened = open_table(catalog, table)
    assert select(opened)[1].storage_requests == 3
    again = open_table(catalog, table)
    assert select(again)[1].storage_requests == 0
    options = {**catalog_options(tmp_path), "s3.access-key-id": "someone else"}
    other = splitlib.load_table(".".join(table.name()), "iceberg", **options)
    assert select(other)[1].storage_requests == 3
    other.close()
    cache.shared.clear()
    assert select(open_table(catalog, table))[1].storage_requests == 3


def test_a_plan_outlives_the_files_it_was_made_from(catalog, table):
    """What was decoded stays true: manifests are never written twice."""
    opened = open_table(catalog, table)
    before = select(opened)[0]
    shutil.rmtree(metadata_files(table, "*-m0.avro")[0].parent)
    assert select(opened)[0] == before
