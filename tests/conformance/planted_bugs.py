"""The kit on connectors that are wrong on purpose.

Run by ``test_kit.py``, which expects the failures; pytest does not find it by its name.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import Phase, settings

import splitlib
from splitlib.errors import MissingPartition
from splitlib.filtering.predicate import Predicate
from splitlib.hive.partition_values import unescape
from splitlib.model import (
    FILE_SCHEMA,
    FileBatch,
    PartitionBatch,
    ReadFormat,
    Requests,
    TableMetadata,
)
from splitlib.spi import Connector
from splitlib.storage import Storage, StoredFile, file_batch
from splitlib_conformance import ConnectorConformance, Harness
from splitlib_files import FilesConnector
from tests.conformance.files_harness import FilesHarness

# that a property fails is enough here, and the shortest example of it takes long to find
settings.register_profile("no shrinking", phases=[Phase.generate])
settings.load_profile("no shrinking")

CAUGHT_BY: dict[str, tuple[str, ...]] = {}
"""The tests of the kit that must fail, by the name of the test class."""


class _FilesKit(ConnectorConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        return FilesHarness(tmp_path)


def caught_by(*tests: str) -> Callable[[type[Connector]], type[Connector]]:
    """Put the kit on the connector; ``tests`` are those written for its mistake."""

    def plant(connector: type[Connector]) -> type[Connector]:
        splitlib.register(connector.__name__, connector)
        name = f"Test{connector.__name__}"
        globals()[name] = type(name, (_FilesKit,), {"connector": connector.__name__})
        CAUGHT_BY[name] = tests
        return connector

    return plant


class _Batches(FilesConnector):
    """Changes batches of partitions as they pass."""

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        for batch in super().list_partitions(predicate):
            yield self.change(batch, predicate)

    def change(self, batch: PartitionBatch, predicate: Predicate) -> PartitionBatch:
        raise NotImplementedError


class _Files(FilesConnector):
    """Changes batches of files as they pass."""

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        for batch in super().list_files(partitions, predicate):
            yield self.change(batch)

    def change(self, batch: FileBatch) -> FileBatch:
        raise NotImplementedError


def _with(batch: FileBatch, column: str, values: pa.Array) -> FileBatch:
    i = FILE_SCHEMA.get_field_index(column)
    return replace(batch, files=batch.files.set_column(i, FILE_SCHEMA.field(i), values))


def _in_row(batch: FileBatch, row: int) -> FileBatch:
    return _with(batch, "partition", pa.repeat(pa.scalar(row, pa.int64()), len(batch)))


def _mapped(batch: PartitionBatch, spell: Callable[[str], str]) -> PartitionBatch:
    """The values of a column, each changed by a function."""
    columns = [
        pa.array([None if v is None else spell(v) for v in column.to_pylist()], pa.string())
        for column in batch.values.columns
    ]
    values = pa.RecordBatch.from_arrays(columns, names=batch.values.schema.names)
    return replace(batch, values=values) if columns else batch


@caught_by("test_every_file_is_read_once", "test_rows_come_back", "test_marker_reads_everything")
class LosesTheLastPartition(_Batches):
    def change(self, batch: PartitionBatch, predicate: Predicate) -> PartitionBatch:
        return batch.slice(0, len(batch) - 1)


@caught_by("test_no_partition_is_listed_twice")
class ListsAPartitionTwice(_Batches):
    def change(self, batch: PartitionBatch, predicate: Predicate) -> PartitionBatch:
        return batch.take(pa.array([0, *range(len(batch))]))


@caught_by("test_partition_values_are_those_written", "test_one_value_reads_its_partition_alone")
class InfersNumbers(_Batches):
    def change(self, batch: PartitionBatch, predicate: Predicate) -> PartitionBatch:
        return _mapped(batch, lambda text: str(int(text)) if text.isdigit() else text)


@caught_by("test_partition_values_are_those_written")
class UnescapesTwice(_Batches):
    def change(self, batch: PartitionBatch, predicate: Predicate) -> PartitionBatch:
        return _mapped(batch, unescape)


@caught_by("test_partition_values_are_those_written")
class NeverUnescapes(FilesConnector):
    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        for batch in super().list_partitions(predicate):
            names = batch.refs.to_pylist()
            parts = [[p.partition("=")[2] for p in n.split("/")[1:]] for n in names]
            columns = zip(*parts, strict=True)
            keys = batch.values.schema.names
            values = pa.record_batch([pa.array(c, pa.string()) for c in columns], names=keys)
            yield replace(batch, values=values) if keys else batch


@caught_by("test_no_match_is_lost")
class PrunesWithoutCase(_Batches):
    """Compares in lower case, as if values were names."""

    def change(self, batch: PartitionBatch, predicate: Predicate) -> PartitionBatch:
        matching = predicate.match(_mapped(batch, str.lower).values)
        return batch.take(pc.indices_nonzero(matching)) if predicate.keys else batch


@caught_by("test_no_match_is_lost", "test_filter_on_a_part_of_the_keys")
class PrunesNull(_Batches):
    """Takes a filter for ``k IN (…)`` alone, which drops null partitions that it asks for."""

    def change(self, batch: PartitionBatch, predicate: Predicate) -> PartitionBatch:
        if not predicate.keys:
            return batch
        return batch.take(pc.indices_nonzero(pc.is_valid(batch.values.column(0))))


@caught_by("test_partitions_have_a_column_for_each_key")
class GivesDictionaries(_Batches):
    def change(self, batch: PartitionBatch, predicate: Predicate) -> PartitionBatch:
        columns = [column.dictionary_encode() for column in batch.values.columns]
        values = pa.RecordBatch.from_arrays(columns, names=batch.values.schema.names)
        return replace(batch, values=values)


@caught_by("test_sizes_are_exact")
class RoundsSizes(_Files):
    def change(self, batch: FileBatch) -> FileBatch:
        blocks = pa.array([-(-size // 512) * 512 for size in batch.files["size"].to_pylist()])
        return _with(batch, "size", blocks)


@caught_by("test_same_splits_in_the_same_order")
class Shuffles(_Batches):
    def change(self, batch: PartitionBatch, predicate: Predicate) -> PartitionBatch:
        return batch.take(pa.array(random.sample(range(len(batch)), len(batch))))


@caught_by("test_files_belong_to_their_partition")
class MixesUpRows(_Files):
    def change(self, batch: FileBatch) -> FileBatch:
        return _in_row(batch, 0)


class _ListsAllFirst(FilesConnector):
    """Lists every file of the table together with its partitions."""

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        for batch in super().list_partitions(predicate):
            self._known = {
                ref: list(super(_ListsAllFirst, self).list_files(one, predicate))
                for ref, one in ((batch.refs[i], batch.slice(i, 1)) for i in range(len(batch)))
            }
            yield replace(batch, requests=Requests(storage=self.requests_of(batch)))

    def requests_of(self, batch: PartitionBatch) -> int:
        return batch.requests.storage + len(batch)

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        for row, ref in enumerate(partitions.refs):
            for batch in self._known[ref]:
                yield replace(_in_row(batch, row), requests=Requests())


@caught_by("test_pruned_partitions_are_not_listed")
class ListsAllFirst(_ListsAllFirst):
    pass


@caught_by("test_first_split_waits_for_few_listings")
class ListsAllFirstInSecret(_ListsAllFirst):
    def requests_of(self, batch: PartitionBatch) -> int:
        return 1


@caught_by("test_opening_lists_no_files")
class ListsAllWhenOpened(_ListsAllFirst):
    batches_when_opened: list[PartitionBatch]

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        opened = super().open(name, options)
        everything = Predicate(opened.describe().partition_schema)
        opened.batches_when_opened = list(_ListsAllFirst.list_partitions(opened, everything))
        return opened

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        yield from self.batches_when_opened


@caught_by("test_partitions_are_listed_when_asked_for")
class ListsWhenCalled(FilesConnector):
    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        return iter(list(super().list_partitions(predicate)))


@caught_by("test_requests_are_counted")
class CountsNothing(FilesConnector):
    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        for batch in super().list_partitions(predicate):
            yield replace(batch, requests=Requests())

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        for batch in super().list_files(partitions, predicate):
            yield replace(batch, requests=Requests())


@caught_by("test_opening_again_shows_what_is_new")
class RemembersListings(FilesConnector):
    _listings: ClassVar[dict[tuple[str, str], FileBatch]] = {}

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        files = super().list_files(partitions, predicate)
        for ref, batch in zip(partitions.refs.to_pylist(), files, strict=True):
            yield self._listings.setdefault((self._root, ref), batch)


@caught_by("test_open_table_stays_as_described")
class DescribesAnew(FilesConnector):
    def describe(self) -> TableMetadata:
        return replace(super().describe(), snapshot_id=str(time.time_ns()))


@caught_by("test_dropped_partition_is_no_silent_hole")
class IgnoresMissingDirectories(FilesConnector):
    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        for row in range(len(partitions)):
            with suppress(MissingPartition):
                for batch in super().list_files(partitions.slice(row, 1), predicate):
                    yield _in_row(batch, row)


@caught_by("test_several_threads_at_once", "test_half_read_listing_can_be_left")
class ServesOneAtATime(FilesConnector):
    _busy = False

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        if self._busy:
            raise RuntimeError("the connection is in use")
        self._busy = True
        time.sleep(0.1)
        yield from super().list_partitions(predicate)
        self._busy = False


@caught_by("test_hidden_files_are_not_data")
class ListsHiddenFiles(FilesConnector):
    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        for row, below in enumerate(partitions.refs.to_pylist()):
            fs, path = Storage().filesystem(self._root + below)
            found = [
                (row, StoredFile(info["name"], info["size"], 0))
                for info in fs.ls(path, detail=True)
                if info["type"] == "file"
            ]
            yield FileBatch(file_batch(found), self.describe().read_format, Requests(storage=1))


@caught_by("test_hidden_files_are_not_data")
class WalksIntoHiddenDirectories(FilesConnector):
    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        for row, below in enumerate(partitions.refs.to_pylist()):
            fs, path = Storage().filesystem(self._root + below)
            found = [
                (row, StoredFile(name, info["size"], 0))
                for name, info in fs.find(path, detail=True).items()
                if name.rpartition("/")[2][0] not in "_."
            ]
            yield FileBatch(file_batch(found), self.describe().read_format, Requests(storage=1))


@dataclass(frozen=True)
class _WithLock(ReadFormat):
    lock: Any = threading.Lock()


@caught_by("test_splits_pickle")
class KeepsALock(_Files):
    def change(self, batch: FileBatch) -> FileBatch:
        return replace(batch, read_format=_WithLock(batch.read_format.name))


@caught_by("test_file_batches_have_the_schema")
class TellsTimeInSeconds(_Files):
    def change(self, batch: FileBatch) -> FileBatch:
        return _with(batch, "modified", pc.divide(batch.files["modified"], 1000))


@caught_by("test_schema_is_the_data_columns_then_the_keys")
class SaysAllKeysAreText(FilesConnector):
    def describe(self) -> TableMetadata:
        metadata = super().describe()
        keys = [pa.field(key, pa.string()) for key in metadata.partition_keys]
        return replace(metadata, schema=pa.schema([*metadata.data_schema, *keys]))


@caught_by("test_unpartitioned_table")
class KnowsNoUnpartitionedTable(_Batches):
    def change(self, batch: PartitionBatch, predicate: Predicate) -> PartitionBatch:
        return batch if batch.values.num_columns else batch.slice(0, 0)


@caught_by("test_table_without_partitions")
class GuessesTheKeys(FilesConnector):
    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        return super().open(name, {k: v for k, v in options.items() if k != "partition_schema"})


@caught_by("test_empty_partition")
class TakesEmptyForMissing(_Files):
    """Takes an empty directory for a missing one, as an object store without directories may."""

    def change(self, batch: FileBatch) -> FileBatch:
        if not len(batch):
            raise MissingPartition("There is nothing.")
        return batch


@caught_by("test_missing_table")
class TakesMissingForEmpty(FilesConnector):
    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        try:
            return super().open(name, options)
        except LookupError:
            nothing = TableMetadata(pa.schema([]), (), ReadFormat("parquet"))
            return cls(name, Storage(), nothing)


@caught_by("test_unknown_option")
class TakesAnyOption(FilesConnector):
    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        return super().open(name, {k: v for k, v in options.items() if "schema" in k})


class _Details(FilesConnector):
    partitions_per_details = 100


@caught_by("test_capabilities_are_those_declared")
class HidesAnAbility(_Details):
    def load_details(self, partitions: PartitionBatch) -> PartitionBatch:
        return partitions


@caught_by("test_files_belong_to_their_partition")
class SortsDetails(_Details):
    def load_details(self, partitions: PartitionBatch) -> PartitionBatch:
        return partitions.take(pc.sort_indices(partitions.refs))
