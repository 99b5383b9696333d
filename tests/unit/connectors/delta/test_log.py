"""Tables whose logs are written by hand: what deltalake does not write."""

from __future__ import annotations

import json
import math
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData, SplitConfig
from splitlib.coordination.coordinator import DynamicFileSplitEnumerator
from splitlib_delta.actions import absolute
from splitlib_delta.versions import Log
from tests.support.delta_log import add, commit, field, metadata, protocol, remove
from tests.unit.connectors.delta.tables import names, opened, simple, splits


def test_paths_are_url_decoded_once(root: Path) -> None:
    paths = {"p=b%2520c/x%20y": "p=b%20c/x y", "p=%25C3%25A9": "p=%C3%A9", "a+b": "a+b"}
    paths["a:b=1/c"] = "a:b=1/c"  # deltalake 1.6 does not encode the name of a partition column
    values = {"partitionValues": {"p": "x"}}
    simple(root, *(add(path, **values) for path in paths), keys=("p",))
    found = {split.path for split in splits(root)}
    assert found == {f"{root}/{plain}" for plain in paths.values()}


@pytest.mark.parametrize("path", ["a%20b/caf%E9", "caf%E9/a", "caf%E9"])
def test_a_path_that_is_not_utf8_is_an_error(root: Path, path: str) -> None:
    """Otherwise the file that is opened would have another name."""
    simple(root, add(path))
    with pytest.raises(splitlib.CorruptMetadata, match=r"0{19}1\.json in the log.*'utf-8' codec"):
        opened(root)


def test_absolute_paths_of_shallow_clones(root: Path) -> None:
    simple(
        root, add("file:/data/a%20b"), add("file:///data/c"), add("s3://bucket/d%2520"), add("/e")
    )
    found = {split.path for split in splits(root)}
    assert found == {"/data/a b", "/data/c", "s3://bucket/d%20", "/e"}


def test_a_removed_file_may_be_spelled_differently(root: Path) -> None:
    simple(root, add("a%20b"), add("c"), add("d"))
    commit(root, [remove(f"file://{root}/a%20b"), remove("%63")])
    assert names(splits(root)) == ["d"]


def test_empty_and_missing_partition_values_are_null(root: Path) -> None:
    given: list[dict[str, Any]] = [{"p": ""}, {"p": None}, {}]
    simple(root, *(add(f"f{i}", partitionValues=v) for i, v in enumerate(given)), keys=("p",))
    assert [split.partition_values for split in splits(root)] == [{"p": None}] * 3


def test_a_file_without_partition_values_is_refused(root: Path) -> None:
    simple(root, {"add": {"path": "f", "size": 1}}, keys=("p",))
    with pytest.raises(splitlib.CorruptMetadata, match="no partition values"):
        opened(root)


def test_timestamps_with_and_without_a_time_zone(root: Path) -> None:
    commit(root, [protocol(), metadata([field("c", "long"), field("p", "timestamp")], ["p"])])
    texts = ["2024-01-01 00:00:00", "2024-01-01T00:00:00.000001Z"]
    commit(root, [add(f"f{i}", partitionValues={"p": text}) for i, text in enumerate(texts)])
    for number, moment in enumerate([datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 1)]):
        found = splits(root, {"p": [moment.replace(tzinfo=UTC)]})
        assert names(found) == [f"f{number}"]
    assert splits(root, {"p": [datetime(2020, 1, 1, tzinfo=UTC)]}) == []
    commit(root, [remove("f0"), add("f2", partitionValues={"p": "2024-02-30T24:00:00Z"})])
    assert names(splits(root)) == ["f1", "f2"]  # opened, although f2 has no time
    commit(root, [remove("f2")])
    assert splits(root, {"p": [datetime(2020, 1, 1, tzinfo=UTC)]}) == []
    assert names(splits(root, {"p": [datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]})) == ["f1"]


def test_the_sign_of_zero_is_preserved(root: Path) -> None:
    commit(root, [protocol(), metadata([field("c", "long"), field("p", "double")], ["p"])])
    path = root / "f"
    pq.write_table(pa.table({"c": [1]}), path)
    size = path.stat().st_size
    commit(root, [add("f", size=size, partitionValues={"p": "-0.0"})])
    with opened(root) as table:
        found = table.to_arrow_dataset().to_table()["p"][0].as_py()
        every = DynamicFilteringData.from_values({"p": [0.0]})
        assert len(table.files(every)) == 1
    assert math.copysign(1, found) == -1


@pytest.mark.parametrize("feature", ["catalogManaged", "variantShredding-preview", "x"])
def test_unknown_features_are_refused_by_name(root: Path, feature: str) -> None:
    commit(root, [protocol("columnMapping", feature), metadata([field("c", "long")])])
    with pytest.raises(splitlib.UnsupportedTable, match=feature):
        opened(root)


def test_a_newer_reader_version_is_refused(root: Path) -> None:
    commit(root, [{"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}])
    commit(root, [metadata([field("c", "long")])])
    with pytest.raises(splitlib.UnsupportedTable, match="version 4"):
        opened(root)


def test_unknown_type_changes_are_refused(root: Path) -> None:
    changes = [{"fromType": "string", "toType": "long"}]
    column = field("c", "long", **{"delta.typeChanges": changes})
    commit(root, [protocol("typeWidening"), metadata([column])])
    with pytest.raises(splitlib.UnsupportedTable, match="column c was changed from string to long"):
        opened(root)


@pytest.mark.parametrize("size", [0, -1])
def test_a_file_without_bytes_is_an_error(root: Path, size: int) -> None:
    """Otherwise its rows would be lost."""
    simple(root, add("a"), add("b", size=size))
    with pytest.raises(splitlib.CorruptMetadata, match=rf"/b in the log .* the size {size}\."):
        opened(root)
    commit(root, [remove("b")])
    assert names(splits(root)) == ["a"]


ARRAY = {"type": "array", "containsNull": True}
UDT = {"type": "udt", "pyClass": "x", "sqlType": "string"}
MAP = {"type": "map", "keyType": "long", "valueContainsNull": True}
CHAR = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}


@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        ("string", CHAR),
        ("char(5)", {}),
        ("string", {"__COLLATIONS": {"c": "spark.UTF8_LCASE"}}),
        ("void", {}),
        ({**ARRAY, "elementType": "void"}, {}),
        ({**ARRAY, "elementType": "interval day"}, {}),
        ({**MAP, "valueType": "interval day"}, {}),
        ({"type": "struct", "fields": [field("f", "string", **CHAR)]}, {}),
        (UDT, {}),
        ({**ARRAY, "elementType": UDT}, {}),
    ],
)
def test_types_that_cannot_be_read_by_field_id_are_refused(
    root: Path, kind: Any, properties: Any
) -> None:
    commit(root, [protocol("deletionVectors"), metadata([field("c", kind, **properties)])])
    with pytest.raises(splitlib.UnsupportedTable, match="Column c of type"):
        opened(root)


@pytest.mark.parametrize("inside", [False, True])
def test_varchar_can_be_read_by_field_id(root: Path, inside: bool) -> None:
    column = field("c", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(5)")
    kind: Any = {"type": "struct", "fields": [column]} if inside else "varchar(5)"
    commit(root, [protocol("deletionVectors"), metadata([field("s", kind), column])])
    opened(root).close()


@pytest.mark.parametrize("bucket", ["s3://bucket", "s3://bucket/t/"])
def test_paths_from_the_root_of_a_bucket(bucket: str) -> None:
    paths = pa.array(["/a", "b%20c", "s3://other/d"])
    below = f"{bucket.rstrip('/')}/b c"
    assert absolute(paths, bucket).to_pylist() == ["s3://bucket/a", below, "s3://other/d"]


def test_the_schema_for_spark_has_no_properties_of_delta(root: Path) -> None:
    properties = {"delta.generationExpression": "1", "comment": "x"}
    inner = {"type": "struct", "fields": [field("f", "long", **properties)]}
    commit(
        root, [protocol(), metadata([field("c", {**ARRAY, "elementType": inner}, **properties)])]
    )
    with opened(root) as table:
        (found,) = json.loads(table.metadata.spark_schema or "")["fields"]
    assert found["metadata"] == {"comment": "x"}
    assert found["type"]["elementType"]["fields"] == [field("f", "long", comment="x")]


@pytest.mark.parametrize("wanted", [-1, 3, 99, 1_700_000_000_000])
def test_a_version_that_does_not_exist(root: Path, wanted: int) -> None:
    simple(root, add("a"))
    with pytest.raises(splitlib.SnapshotNotFound, match=f"no version {wanted}"):
        opened(root, version=wanted)


def test_stray_files_with_very_large_numbers(root: Path) -> None:
    simple(root, add("a"))
    part = f"{1:020}.checkpoint.{1:010}.{9_999_999_999:010}.parquet"
    (root / "_delta_log" / part).write_text("not complete")
    assert names(splits(root)) == ["a"]
    (root / "_delta_log" / f"{1_700_000_000_000:020}.json").write_text("{}")
    with pytest.raises(splitlib.CorruptMetadata, match="no commit 2"):
        opened(root)


def test_a_table_that_is_created_again_has_another_id(root: Path) -> None:
    """Both tables have the same versions, so only the id shows that a checkpoint is too old."""
    states: list[bytes] = []
    for _ in range(2):
        shutil.rmtree(root, ignore_errors=True)
        deltalake.write_deltalake(str(root), pa.table({"c": [1]}))
        table = opened(root)
        enumerator = DynamicFileEnumerator(table, SplitConfig())
        if states:
            with pytest.raises(splitlib.InvalidCheckpoint, match="another table id"):
                DynamicFileSplitEnumerator.restore(states[0], enumerator)
        states.append(DynamicFileSplitEnumerator(enumerator).snapshot_state())
    DynamicFileSplitEnumerator.restore(states[1], enumerator).close()


def test_a_version_is_pinned(root: Path) -> None:
    simple(root, add("a"))
    commit(root, [add("b"), remove("a")])
    deltalake.DeltaTable(str(root)).create_checkpoint()
    assert names(splits(root, version="1")) == ["a"]
    with opened(root) as table:
        commit(root, [remove("b")])
        assert table.metadata.snapshot_id == "2"
        assert names(list(DynamicFileEnumerator(table, SplitConfig()).enumerate_splits())) == ["b"]


@pytest.mark.parametrize("lost", ["metaData", "protocol"])
def test_a_log_without_schema_or_protocol_is_an_error(root: Path, lost: str) -> None:
    entries = {**protocol(), **metadata([field("c", "long")])}
    commit(root, [{name: entry} for name, entry in entries.items() if name != lost])
    with pytest.raises(splitlib.CorruptMetadata, match=f"has no {lost}"):
        opened(root)


def test_a_missing_commit_is_an_error(root: Path) -> None:
    simple(root, add("a"))
    commit(root, [add("b")])
    (root / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(splitlib.CorruptMetadata, match="no commit 1"):
        opened(root)


def test_incomplete_checkpoints_are_not_used(root: Path) -> None:
    simple(root, add("a"))
    log = root / "_delta_log"
    (log / f"{1:020}.checkpoint.{1:010}.{2:010}.parquet").write_bytes(b"part 1 of 2")
    (log / f"{1:020}.checkpoint.parquet").write_bytes(b"")
    assert names(splits(root)) == ["a"]


def test_a_damaged_checkpoint_is_an_error(root: Path) -> None:
    simple(root, add("a"))
    (root / "_delta_log" / f"{1:020}.checkpoint.parquet").write_bytes(b"no parquet")
    with pytest.raises(splitlib.CorruptMetadata, match="checkpoint"):
        opened(root)


@pytest.mark.parametrize(
    "damage",
    [
        b"{",
        b'{"add": {"path": 1}}\n',
        b"\xff\xfe",
        b'{"add": {"path": "x", "size": "y"}}',
        b'{"add": {"path": "x"}}',
        b'{"add": {"path": "a\xff", "partitionValues": {}, "size": 1}}',
    ],
)
def test_a_damaged_commit_is_an_error(root: Path, damage: bytes) -> None:
    simple(root)
    (root / "_delta_log" / f"{1:020}.json").write_bytes(damage)
    with pytest.raises(splitlib.CorruptMetadata):
        opened(root)


def test_a_commit_that_was_read_in_part_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that ends after one of its lines is valid, but lacks files."""
    simple(root, add("a"), add("b"))
    listed = Log.listed
    commit_file = root / "_delta_log" / f"{1:020}.json"

    def then_cut(*arguments: Any) -> Log:
        found = listed(*arguments)
        commit_file.write_text(commit_file.read_text().splitlines(keepends=True)[0])
        return found

    monkeypatch.setattr(Log, "listed", then_cut)
    config = SplitConfig(retry_attempts=1)
    with pytest.raises(splitlib.errors.SourceUnavailable, match=r"Read \d+ of \d+ bytes"):
        splitlib.load_table(str(root), connector="delta", config=config)


def test_a_file_of_the_log_that_arrow_cannot_parse_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simple(root, add("a"))
    largest = max(path.stat().st_size for path in (root / "_delta_log").iterdir())
    monkeypatch.setattr("splitlib_delta.log.MOST_BYTES", largest)
    assert names(splits(root)) == ["a"]
    monkeypatch.setattr("splitlib_delta.log.MOST_BYTES", largest - 1)
    with pytest.raises(splitlib.UnsupportedTable, match=r"\.json .* more than 2 GiB"):
        opened(root)


def test_a_commit_that_is_deleted_after_the_listing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simple(root, add("a"))
    listed = Log.listed

    def then_gone(*arguments: Any) -> Log:
        found = listed(*arguments)
        (root / "_delta_log" / f"{1:020}.json").unlink()
        return found

    monkeypatch.setattr(Log, "listed", then_gone)
    with pytest.raises(splitlib.MissingFile, match="open the table again"):
        opened(root)


@pytest.mark.parametrize("kind", ["json", "parquet"])
@pytest.mark.parametrize("keys", [(), ("p",)])
def test_checkpoints_with_sidecars(root: Path, kind: str, keys: tuple[str, ...]) -> None:
    values = dict.fromkeys(keys, "x")
    simple(root, *(add(f"f{i}", partitionValues=values) for i in range(4)), keys=keys)
    log = root / "_delta_log"
    (log / "_sidecars").mkdir()
    deltalake.DeltaTable(str(root)).create_checkpoint()
    whole = pq.read_table(log / f"{1:020}.checkpoint.parquet")
    adds = whole.filter(pc.is_valid(pc.struct_field(whole["add"], "path"))).select(["add"])
    for i in range(2):
        pq.write_table(adds.slice(2 * i, 2), log / "_sidecars" / f"s{i}.parquet")
    for each in [*log.glob("*.json"), *log.glob("*.parquet")]:
        each.unlink()
    sidecars = [
        {"path": ("", "file:/x/")[i] + f"s{i}.parquet", "sizeInBytes": 1, "modificationTime": 0}
        for i in range(2)
    ]
    entries = [
        protocol("v2Checkpoint"),
        metadata([field("c", "long"), *(field(key, "string") for key in keys)], keys),
        {"checkpointMetadata": {"version": 1}},
        *({"sidecar": s} for s in sidecars),
    ]
    name = log / f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.{kind}"
    if kind == "json":
        name.write_text("".join(json.dumps(e) + "\n" for e in entries))
    else:
        # Parquet has no empty structs.
        entries[1]["metaData"]["format"].pop("options")
        entries[1]["metaData"]["configuration"] = {"x": "y"}
        kinds = dict.fromkeys(kind for entry in entries for kind in entry)
        pq.write_table(pa.Table.from_pylist([kinds | entry for entry in entries]), name)
    commit_two = {"remove": {"path": "f1", "dataChange": True}}
    (log / f"{2:020}.json").write_text(json.dumps(commit_two) + "\n")
    found = splits(root)
    assert names(found) == ["f0", "f2", "f3"]
    assert all(split.partition_values == values for split in found)


def test_no_delta_table(tmp_path: Path) -> None:
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    for path in (tmp_path, tmp_path / "missing", tmp_path / "empty"):
        with pytest.raises(splitlib.TableNotFound, match="no _delta_log"):
            opened(path)


def test_a_table_without_a_path() -> None:
    with pytest.raises(splitlib.ConfigError, match="No root directory is given"):
        splitlib.load_table(" ", connector="delta", config=SplitConfig())
