"""The cache of decoded manifests."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

import splitlib
from splitlib_iceberg import metadata_cache
from splitlib_iceberg.manifest_contents import Contents
from tests.support.iceberg_tables import (
    add_deletes,
    append,
    create,
    data_file,
    delete_file,
    open_table,
    paths_of,
    select,
)
from tests.unit.connectors.iceberg.simple_tables import BY_D, SIMPLE, Keys, deletes_by_path


def test_nothing_is_decoded_twice_and_a_late_filter_finds_its_statistics(catalog):
    table = create(catalog, SIMPLE, BY_D)
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
    table = create(catalog, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    opened = open_table(catalog, table)
    (batch,) = opened.list_partitions(splitlib.DynamicFileEnumerator(opened).predicate)
    monkeypatch.setattr(metadata_cache, "shared", metadata_cache.MetadataCache(max_bytes=0))
    assert len(select(opened)[0]) == 1
    other = open_table(catalog, table)
    enumerator = splitlib.DynamicFileEnumerator(other)
    (found,) = other.list_files(batch, enumerator.predicate, enumerator.config)
    assert found.requests.storage >= 1
    assert len(found) == 1


def test_manifests_are_kept_for_later_listings_of_the_table(catalog, table, monkeypatch):
    """The files of many partitions are listed in several calls. Each call needs the manifests."""
    monkeypatch.setattr(metadata_cache, "shared", metadata_cache.MetadataCache(max_bytes=0))
    opened = open_table(catalog, table)
    enumerator = splitlib.DynamicFileEnumerator(opened)
    (batch,) = opened.list_partitions(enumerator.predicate)
    for manifest in table.current_snapshot().manifests(table.io):
        Path(manifest.manifest_path.removeprefix("file://")).unlink()
    for part in (batch.take(pa.array([i])) for i in range(2)):
        (found,) = opened.list_files(part, enumerator.predicate, enumerator.config)
        assert len(found) == 1


def test_deletes_are_kept_until_the_table_is_closed(catalog, monkeypatch):
    table = create(catalog, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    add_deletes(table, delete_file(table, Record(1), DataFileContent.POSITION_DELETES))
    opened = open_table(catalog, table)
    expected, _ = deletes_by_path(opened)
    monkeypatch.setattr(metadata_cache, "shared", metadata_cache.MetadataCache(max_bytes=0))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    for manifest in snapshot.manifests(table.io):
        if manifest.content == ManifestContent.DELETES:
            Path(manifest.manifest_path.removeprefix("file://")).unlink()
    assert deletes_by_path(opened)[0] == expected
    opened.connector.close()
    with pytest.raises(splitlib.MissingFile, match="manifest"):
        deletes_by_path(opened)


def test_the_size_of_contents_is_that_of_all_parts():
    files = pa.record_batch({"size": pa.array([1, 2, 3], pa.int64())})
    keys = [pa.array([1, 2], pa.int64()), pa.array([1, 2], pa.int32())]
    statistics: Any = SimpleNamespace(nbytes=1000)
    contents = Contents(files, keys, 2, np.zeros(3, np.int64), None)
    assert contents.nbytes == 24 + 24 + 16 + 8
    assert contents._replace(statistics=statistics).nbytes == contents.nbytes + 1000


def test_the_cache_is_bounded():
    small = metadata_cache.MetadataCache(max_bytes=100)
    small.put("a", "A", 60)
    small.put("b", "B", 60)
    small.put("c", "C", 101)
    assert [small.get(key) for key in "abc"] == [None, "B", None]


def test_a_dropped_column_does_not_share_decoded_partitions(catalog):
    """Partition values of a dropped column are decoded to other text than those of a column."""
    schema = Schema(
        NestedField(1, "s", StringType(), required=False),
        NestedField(2, "c", LongType(), required=False),
    )
    table = create(
        catalog, schema, PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "s"))
    )
    append(table, [data_file(table, [{"s": s}]) for s in "ab"])
    old = table.history()[-1].snapshot_id
    with table.update_spec() as update:
        update.remove_field("s")
    with table.update_schema() as update:
        update.delete_column("s")
    assert len(select(open_table(catalog, table))[0]) == 2
    found, _ = select(open_table(catalog, table, snapshot_id=old), Keys.from_values({"s": ["a"]}))
    assert len(found) == 1


class Slow:
    """A cache key that is hashed, with the cache's lock held, until the test releases it."""

    def __init__(self) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()

    def __hash__(self) -> int:
        self.begun.set()
        self.let_go.wait()
        return 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_does_not_wait_for_another_thread():
    cache, slow = metadata_cache.MetadataCache(), Slow()
    thread = threading.Thread(target=cache.put, args=(slow, "S", 1), daemon=True)
    thread.start()
    slow.begun.wait()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        signal.alarm(20)
        cache.put("a", "A", 1)
        os._exit(0 if cache.get("a") == "A" else 1)
    slow.let_go.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
