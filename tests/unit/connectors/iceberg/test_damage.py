"""Damaged files of Iceberg tables raise an error or have no effect. No rows are lost silently."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestFile, write_manifest_list
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType
from pyroaring import BitMap64

import splitlib
from splitlib.model import DeleteFile
from splitlib_iceberg import metadata_cache
from splitlib_iceberg.manifests import read_list
from splitlib_iceberg.unpacking import read_vector
from tests.support.iceberg_tables import (
    append,
    create,
    data_file,
    open_table,
    select,
)
from tests.unit.connectors.iceberg.simple_tables import BY_D

SCHEMA = Schema(
    NestedField(1, "d", IntegerType(), required=False),
    NestedField(2, "c", LongType(), required=False),
    NestedField(3, "s", StringType(), required=False),
    NestedField(4, "x", DoubleType(), required=False),
)
IO = PyArrowFileIO()


def row(i: int) -> dict[str, Any]:
    return {"d": i, "c": i * 1000, "s": "text" * (i % 40), "x": i / 3}


def local(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


def counts_of(manifest: ManifestFile) -> dict[str, Any]:
    names = [
        "manifest_length", "partition_spec_id", "content", "sequence_number",
        "min_sequence_number", "added_snapshot_id", "added_files_count", "existing_files_count",
        "deleted_files_count", "added_rows_count", "existing_rows_count", "deleted_rows_count",
    ]  # fmt: skip
    return {name: getattr(manifest, name) for name in names}


def framed(bitmap: bytes) -> bytes:
    """Return a deletion vector with length, magic number and checksum, as in a Puffin file."""
    body = b"\xd1\xd3\x39\x64" + bitmap
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def vector_at(path: Path, bitmap: bytes, records: int | None) -> DeleteFile:
    data = framed(bitmap)
    path.write_bytes(b"PFA1" + data)
    return DeleteFile("vector", str(path), 1, "puffin", 4, len(data), records=records)


@pytest.mark.parametrize("records", [3, 1, 0])
def test_a_vector_that_unpacks_to_more_than_it_declares(tmp_path, records):
    """Such a vector is refused first: a few hundred kilobytes would become 8 GiB of positions."""
    bitmap = BitMap64(range(2**20, 2**20 + 2**16))
    bitmap.run_optimize()
    full = bitmap.serialize()[12:]
    data = b"".join(
        [(2**14).to_bytes(8, "little"), *(i.to_bytes(4, "little") + full for i in range(2**14))]
    )
    delete = vector_at(tmp_path / "v.puffin", data, records)
    with pytest.raises(splitlib.CorruptMetadata, match=f"has {2**30} numbers, not {records}"):
        read_vector(IO, delete)


# --- Manifest lists that are truncated, but can still be decoded.


def cut_after_blocks(path: Path, blocks: int) -> None:
    """Truncate a manifest list after its first blocks."""
    with AvroFile[Any](IO.new_input(path.as_uri())) as reader:
        sync = reader.header.sync
    pieces = path.read_bytes().split(sync)
    path.write_bytes(sync.join(pieces[: blocks + 1]) + sync)


def in_many_blocks(path: Path) -> None:
    """Rewrite a manifest list with one block per manifest. Only long lists have several blocks."""
    manifests = read_list(IO, path.as_uri())
    with write_manifest_list(2, IO.new_output(path.as_uri()), 1, None, 9, "deflate") as writer:
        for manifest in manifests:
            writer.add_manifests([manifest])


@pytest.fixture
def two_lists(catalog):
    """Return a table and its two latest manifest lists, which have two and three manifests."""
    made = create(catalog, SCHEMA, BY_D)
    for _ in range(3):
        append(made, [data_file(made, [row(i)]) for i in range(2)])
    paths = [local(snapshot.manifest_list) for snapshot in made.snapshots()[1:]]
    for path in paths:
        in_many_blocks(path)
    return made, *paths


def with_summaries(table: Table, change: Callable[[dict[str, str]], object], *which: int) -> None:
    """Change the summaries of snapshots, given by position. The newest is -1."""
    path = local(table.metadata_location)
    metadata = json.loads(path.read_text())
    for number in which:
        change(metadata["snapshots"][number]["summary"])
    path.write_text(json.dumps(metadata))
    metadata_cache.shared.clear()


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_a_list_cut_between_its_blocks(catalog, two_lists, blocks):
    table, _, newest = two_lists
    assert len(select(open_table(catalog, table))[0]) == 6
    cut_after_blocks(newest, blocks)
    metadata_cache.shared.clear()
    with pytest.raises(
        splitlib.CorruptMetadata,
        match=f"total-data-files is 6 in the snapshot's summary, and {2 * blocks} in the manifests",
    ) as caught:
        select(open_table(catalog, table))
    assert "rewrite_manifests" in str(caught.value)


def test_a_list_is_compared_by_rows_where_files_are_not_counted(catalog, two_lists):
    table, _, newest = two_lists
    with_summaries(table, lambda summary: summary.pop("total-data-files"), -1)
    assert len(select(open_table(catalog, table))[0]) == 6
    cut_after_blocks(newest, 2)
    metadata_cache.shared.clear()
    with pytest.raises(splitlib.CorruptMetadata, match=r"total-records is 6 .*, and 4 in"):
        select(open_table(catalog, table))


@pytest.mark.parametrize(
    "summary",
    [
        {},
        {"total-data-files": "2", "total-records": "2"},  # some writers count only their own commit
        {"total-data-files": "none"},
        {"total-data-files": "-1"},
    ],
    ids=str,
)
def test_a_list_with_no_less_than_its_snapshot_says(catalog, two_lists, summary):
    table, *_ = two_lists

    def change(old: dict[str, str]) -> None:
        for key in [key for key in old if key.startswith("total-")]:
            del old[key]
        old.update(summary)

    with_summaries(table, change, -1)
    assert len(select(open_table(catalog, table))[0]) == 6


def test_totals_that_were_wrong_before_prove_nothing(catalog, two_lists):
    """Wrong totals do not cause an error if the previous snapshot has the same mistake.

    Writers add to the previous snapshot's totals, so that mistakes persist.
    """
    table, older, newest = two_lists

    def three_more(summary: dict[str, str]) -> None:
        summary["total-data-files"] = str(int(summary["total-data-files"]) + 3)

    with_summaries(table, three_more, -1, -2)
    assert len(select(open_table(catalog, table))[0]) == 6
    cut_after_blocks(newest, 2)
    metadata_cache.shared.clear()
    with pytest.raises(splitlib.CorruptMetadata, match=r"is 9 .*, and 4 in"):
        select(open_table(catalog, table))
    older.unlink()
    metadata_cache.shared.clear()
    with pytest.raises(splitlib.CorruptMetadata, match=r"is 9 .*, and 4 in"):
        select(open_table(catalog, table))


def test_the_number_of_manifests_says_whether_a_list_is_whole(catalog, two_lists):
    table, _, newest = two_lists

    def counted(summary: dict[str, str]) -> None:
        summary |= {"manifests-created": "1", "manifests-kept": "2", "total-data-files": "100"}

    with_summaries(table, counted, -1)
    assert len(select(open_table(catalog, table))[0]) == 6
    cut_after_blocks(newest, 2)
    metadata_cache.shared.clear()
    with pytest.raises(
        splitlib.CorruptMetadata, match="has 2 manifests, but its snapshot counts 3"
    ):
        select(open_table(catalog, table))


def test_delete_manifests_are_counted_by_themselves(catalog):
    table = create(catalog, SCHEMA, BY_D)
    append(table, [data_file(table, [row(1)])])
    with_summaries(table, lambda summary: summary.update({"total-delete-files": "1"}), -1)
    with pytest.raises(splitlib.CorruptMetadata, match=r"total-delete-files is 1 .*, and 0 in"):
        select(open_table(catalog, table))


def test_an_older_snapshot_is_compared_with_what_it_says(catalog, two_lists):
    table, older, _ = two_lists
    cut_after_blocks(older, 1)
    metadata_cache.shared.clear()
    assert len(select(open_table(catalog, table))[0]) == 6
    pinned = table.snapshots()[1].snapshot_id
    with pytest.raises(splitlib.CorruptMetadata, match=r"is 4 .*, and 2 in"):
        select(open_table(catalog, table, snapshot_id=pinned))


def of_list(path: Path, **changes: Any) -> None:
    """Change fields of the first manifest in a manifest list."""
    first, *others = read_list(IO, path.as_uri())
    same = {"manifest_path": first.manifest_path, "partitions": first.partitions}
    changed = ManifestFile.from_args(**{**counts_of(first), **same, **changes})
    with write_manifest_list(2, IO.new_output(path.as_uri()), 1, None, 9, "deflate") as writer:
        writer.add_manifests([changed, *others])
    metadata_cache.shared.clear()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"added_files_count": 3}, "has 2 files, but the manifest list counts 3"),
        ({"added_files_count": 0, "existing_files_count": 0}, "total-data-files is 6 .*, and 4 in"),
        ({"added_rows_count": 1}, "has 2 rows, but the manifest list counts 1"),
        ({"added_files_count": -1, "manifest_length": 5}, "gives its size as 5"),
    ],
    ids=str,
)
def test_a_manifest_that_is_not_what_its_list_says(catalog, two_lists, changes, match):
    table, _, newest = two_lists
    of_list(newest, **changes)
    with pytest.raises(splitlib.CorruptMetadata, match=match):
        select(open_table(catalog, table))


@pytest.mark.parametrize(("few", "says"), [(0, "has at least 2 files"), (1, "has 2 files")])
def test_a_manifest_with_far_more_files_than_its_list_says(
    catalog, two_lists, monkeypatch, few, says
):
    table, _, newest = two_lists
    with_summaries(table, lambda summary: summary.pop("total-data-files"), -1)
    of_list(newest, added_files_count=1)
    monkeypatch.setattr("splitlib_iceberg.manifests.FEW", few)
    with pytest.raises(splitlib.CorruptMetadata, match=f"{says}, but the manifest list counts 1"):
        select(open_table(catalog, table))


def test_a_manifest_of_a_specification_that_is_not_known(catalog, two_lists):
    table, _, newest = two_lists
    of_list(newest, partition_spec_id=7)
    with pytest.raises(
        splitlib.CorruptMetadata, match=r"-m0.avro uses the partition specification 7, which"
    ):
        select(open_table(catalog, table))


@pytest.mark.parametrize(("status", "sequence"), [(0, 5), (1, 5), (0, 0)])
def test_an_older_entry_without_a_sequence_number(catalog, status, sequence):
    """Only new entries inherit the number of their manifest, unless it is of version 1."""
    table = create(catalog, SCHEMA, BY_D)
    append(table, [data_file(table, [row(1)])])
    snapshot = table.current_snapshot()
    assert snapshot is not None
    newest = local(snapshot.manifest_list)
    (manifest,) = read_list(IO, newest.as_uri())
    entries = AvroFile[Any](IO.new_input(manifest.manifest_path))
    with entries as reader:
        (entry,) = reader
        schema, metadata = reader.schema, reader.header.meta
    entry[0] = status
    assert entry[2] is None
    place = IO.new_output(manifest.manifest_path)
    local(manifest.manifest_path).unlink()
    with AvroOutputFile[Any](place, schema, "manifest_entry", metadata=metadata) as writer:
        writer.write_block([entry])
    of_list(newest, manifest_length=len(place.to_input_file()), sequence_number=sequence)
    if status == 1 or sequence == 0:
        assert len(select(open_table(catalog, table))[0]) == 1
        return
    with pytest.raises(splitlib.CorruptMetadata, match=r"-m0.avro lacks sequence numbers"):
        select(open_table(catalog, table))


def test_a_manifest_that_is_listed_twice(catalog, two_lists):
    """One changed letter in a path can cause this. The counts are right, but the rows are wrong."""
    table, _, newest = two_lists
    _, second, _ = read_list(IO, newest.as_uri())
    of_list(newest, manifest_path=second.manifest_path)
    with pytest.raises(splitlib.CorruptMetadata, match="is listed twice"):
        select(open_table(catalog, table))


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"key_metadata": b"key"}, "encrypted"), ({"content": 2}, "unknown content")],
)
def test_a_manifest_that_cannot_be_read_is_refused(catalog, two_lists, changes, says):
    table, _, newest = two_lists
    of_list(newest, **changes)
    with pytest.raises(splitlib.UnsupportedTable, match=rf"-m0.avro .*{says}"):
        select(open_table(catalog, table))


def test_a_file_of_less_than_no_bytes(catalog):
    table = create(catalog, SCHEMA, BY_D)
    append(table, [data_file(table, [row(1)], file_size_in_bytes=-1)])
    with pytest.raises(splitlib.CorruptMetadata, match="invalid status or size"):
        select(open_table(catalog, table))


def test_a_count_of_no_files_is_not_believed_beside_one_of_rows(catalog, two_lists):
    """A manifest with file count 0 is read if its row count is not 0. Only bounds may prune it."""
    table, _, newest = two_lists
    with_summaries(table, lambda summary: summary.pop("total-data-files"), -1)
    of_list(newest, added_files_count=0)
    with pytest.raises(
        splitlib.CorruptMetadata, match="has 2 files, but the manifest list counts 0"
    ):
        select(open_table(catalog, table))


def test_a_manifest_of_deleted_files_only_whose_files_are_not_counted(catalog):
    table = create(catalog, SCHEMA, BY_D)
    append(table, [data_file(table, [row(1)])])
    table.delete("d = 1")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    of_list(local(snapshot.manifest_list), added_files_count=-1, added_rows_count=-1)
    selected, metrics = select(open_table(catalog, table))
    assert (selected, metrics.manifests_opened) == ([], 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"manifest_length": 5},  # the procedure ``rewrite_table_path`` writes a wrong length
        {"manifest_length": 10**6},
        {"added_files_count": 1, "existing_files_count": 1},
        {"added_rows_count": -2},
        {"deleted_files_count": 7, "deleted_rows_count": 7},
    ],
    ids=str,
)
def test_what_does_not_matter_is_not_compared(catalog, two_lists, changes):
    table, _, newest = two_lists
    of_list(newest, **changes)
    assert len(select(open_table(catalog, table))[0]) == 6


def test_counts_below_zero_are_unknown(catalog):
    """Negative counts are ignored, because some writers store -1 for an unknown count."""
    table = create(catalog, SCHEMA, BY_D)
    unknown: dict[str, Any] = {"value_counts": {2: -1}, "null_value_counts": {2: -1}}
    append(table, [data_file(table, [row(1)], **unknown)])
    keys = splitlib.DynamicFilteringData.from_values({"c": [1000]})
    assert len(select(open_table(catalog, table), keys)[0]) == 1


def test_more_nulls_than_values_prove_nothing(catalog):
    table = create(catalog, SCHEMA, BY_D)
    wrong: dict[str, Any] = {"value_counts": {2: 5}, "null_value_counts": {2: 10}}
    no_bounds: dict[str, Any] = {"lower_bounds": {}, "upper_bounds": {}}
    append(table, [data_file(table, [row(1)], **wrong, **no_bounds)])
    keys = splitlib.DynamicFilteringData.from_values({"c": [1000]})
    assert len(select(open_table(catalog, table), keys)[0]) == 1
