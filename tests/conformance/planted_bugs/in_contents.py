"""Connectors with mistakes in the schema, partitions or files that they list."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import MissingPartition, TableNotFound
from splitlib.hive.partition_values import NULL_PARTITION, unescape
from splitlib.model import FILE_SCHEMA, PartitionBatch, ReadFormat, TableMetadata
from splitlib.storage import is_data
from tests.conformance.memory_connectors import PlainConnector
from tests.conformance.memory_source import StoredTable
from tests.conformance.planted_bugs.plant import (
    TEXT,
    Batches,
    Files,
    caught_by,
    in_row,
    mapped,
    with_column,
)


@caught_by(
    "every_file_is_read_once",
    "partition_values_are_those_written",
    "one_value_reads_its_partition_alone",
    "filter_on_a_part_of_the_keys",
    "no_match_is_lost",
    "large_pages_join_up",
)
class LosesPartitionsBeyondTen(Batches):
    def change(self, batch):
        return replace(batch.slice(0, 10), requests=batch.requests)


@caught_by("no_partition_is_listed_twice")
class ListsAPartitionTwice(Batches):
    def change(self, batch):
        twice = [0] if len(batch) == 12 else []
        rows = pa.array([*twice, *range(len(batch))], pa.int64())
        return replace(batch.take(rows), requests=batch.requests)


@caught_by(
    "partition_values_are_those_written",
    "every_file_is_read_once",
    "one_value_reads_its_partition_alone",
    "no_partition_is_listed_twice",
    types=TEXT,
)
class InfersNumbers(Batches):
    def change(self, batch):
        return mapped(batch, lambda text: str(int(text)) if text.isdigit() else text)


@caught_by(
    "partition_values_are_those_written",
    "every_file_is_read_once",
    "one_value_reads_its_partition_alone",
    "no_match_is_lost",
    types=TEXT,
)
class UnescapesTwice(Batches):
    def change(self, batch):
        return mapped(batch, unescape)


@caught_by(
    "partition_values_are_those_written",
    "every_file_is_read_once",
    "one_value_reads_its_partition_alone",
    "filter_on_a_part_of_the_keys",
    "no_match_is_lost",
    types=TEXT,
)
class NeverUnescapes(PlainConnector):
    def batch_of(self, names):
        batch = super().batch_of(names)
        if not self.metadata.partition_keys:
            return batch
        parts = [[part.partition("=")[2] for part in name.split("/")] for name in names]
        columns = [pa.array(column, pa.string()) for column in zip(*parts, strict=True)]
        keys = list(self.metadata.partition_keys)
        return replace(batch, values=pa.RecordBatch.from_arrays(columns, names=keys))


@caught_by(
    "partition_values_are_those_written",
    "every_file_is_read_once",
    "one_value_reads_its_partition_alone",
    "no_match_is_lost",
    types=TEXT,
)
class StripsText(Batches):
    def change(self, batch):
        return mapped(batch, str.strip)


@caught_by(
    "partition_values_are_those_written",
    "every_file_is_read_once",
    "one_value_reads_its_partition_alone",
    "filter_on_a_part_of_the_keys",
    "no_match_is_lost",
    types=TEXT,
)
class TakesNullForText(Batches):
    def change(self, batch):
        if not batch.values.num_columns:
            return batch
        columns = [column.fill_null(NULL_PARTITION) for column in batch.values.columns]
        names = batch.values.schema.names
        return replace(batch, values=pa.RecordBatch.from_arrays(columns, names=names))


@caught_by(
    "schema_is_the_data_columns_then_the_keys",
    "partition_values_are_those_written",
    "every_file_is_read_once",
    "one_value_reads_its_partition_alone",
    "filter_on_a_part_of_the_keys",
    "no_match_is_lost",
)
class SaysThatDatesAreText(PlainConnector):
    def metadata_of(self, table: StoredTable) -> TableMetadata:
        metadata = super().metadata_of(table)
        fields = [
            field.with_type(pa.string()) if field.type == pa.date32() else field
            for field in metadata.schema
        ]
        return replace(metadata, schema=pa.schema(fields), filter_schema=None)


@caught_by("schema_is_the_data_columns_then_the_keys")
class HasKeysFirst(PlainConnector):
    def metadata_of(self, table: StoredTable) -> TableMetadata:
        metadata = super().metadata_of(table)
        schema = pa.schema([*table.partition_schema, *table.data_schema])
        return replace(metadata, schema=schema)


@caught_by("schema_is_the_data_columns_then_the_keys")
class TakesFilesForOrc(PlainConnector):
    form = ReadFormat.of("orc")


def _with_column_of(batch: PartitionBatch, key: str, change: Callable[[pa.Array], Any]) -> Any:
    """Return the batch with ``change`` applied to the values of a key, if it has this key."""
    names = batch.values.schema.names
    columns = [
        change(column) if name == key else column
        for name, column in zip(names, batch.values.columns, strict=True)
    ]
    return replace(batch, values=pa.RecordBatch.from_arrays(columns, names=names))


@caught_by(
    "partitions_have_a_column_for_each_key",
    "every_file_is_read_once",
    "filter_on_a_part_of_the_keys",
    "no_match_is_lost",
    "one_value_reads_its_partition_alone",
    "partition_values_are_those_written",
    "same_splits_in_the_same_order",
    "splits_pickle",
)
class GivesDictionaries(Batches):
    def change(self, batch):
        return _with_column_of(batch, "s", lambda column: column.dictionary_encode())


@caught_by(
    "partitions_have_a_column_for_each_key",
    "every_file_is_read_once",
    "filter_on_a_part_of_the_keys",
    "no_match_is_lost",
    "one_value_reads_its_partition_alone",
    "partition_values_are_those_written",
    "same_splits_in_the_same_order",
    "splits_pickle",
)
class GivesWiderNumbers(Batches):
    def change(self, batch):
        return _with_column_of(batch, "y", lambda column: column.cast(pa.int64()))


@caught_by("sizes_are_exact")
class RoundsSizes(Files):
    def change(self, batch):
        blocks = pa.array([-(-size // 512) * 512 for size in batch.files["size"].to_pylist()])
        return with_column(batch, "size", blocks.cast(pa.int64()))


@caught_by("files_belong_to_their_partition")
class TakesPartitionsForInOrder(PlainConnector):
    """Assumes that partitions come in the catalog's order."""

    partitions_per_listing = 2

    def batch_of(self, names):
        self.order = [*getattr(self, "order", []), *names]
        return super().batch_of(names)

    def list_files(self, partitions, predicate):
        refs = partitions.refs.to_pylist()
        rows = {ref: row for row, ref in enumerate(sorted(refs, key=self.order.index))}
        for row, batch in enumerate(super().list_files(partitions, predicate)):
            yield in_row(batch, rows[refs[row]])


@caught_by("file_batches_have_the_schema")
class TellsTimeInSeconds(Files):
    def change(self, batch):
        return with_column(batch, "modified", pc.divide(batch.files["modified"], 1000))


@caught_by("file_batches_have_the_schema")
class AddsAColumn(Files):
    def change(self, batch):
        owner = pa.array(["me"] * len(batch), pa.string())
        return replace(batch, files=batch.files.append_column("owner", owner))


@dataclass(frozen=True)
class _WithLock(ReadFormat):
    lock: Any = threading.Lock()


@caught_by("splits_pickle")
class KeepsALock(Files):
    def change(self, batch):
        return replace(batch, read_format=_WithLock(batch.read_format.name))


@caught_by("unpartitioned_table")
class KnowsNoUnpartitionedTable(Batches):
    def change(self, batch):
        return batch if batch.values.num_columns else batch.slice(0, 0)


@caught_by("table_without_partitions")
class GuessesTheKeys(PlainConnector):
    def metadata_of(self, table: StoredTable) -> TableMetadata:
        metadata = super().metadata_of(table)
        if table.partitions:
            return metadata
        return TableMetadata(metadata.data_schema, (), metadata.read_format)


@caught_by("empty_partition")
class TakesEmptyForMissing(Files):
    def change(self, batch):
        if not len(batch):
            raise MissingPartition("There is nothing.")
        return batch


@caught_by("hidden_files_are_not_data")
class ListsHiddenFiles(PlainConnector):
    def is_data(self, below):
        return all(map(is_data, below.split("/")[:-1]))


@caught_by("hidden_files_are_not_data")
class WalksIntoHiddenDirectories(PlainConnector):
    def is_data(self, below):
        return is_data(below.rpartition("/")[2])


@caught_by("missing_table", "failed_opening_gives_connections_back")
class TakesMissingForEmpty(PlainConnector):
    @classmethod
    def open(cls, name, options):
        try:
            return super().open(name, options)
        except TableNotFound:
            client = cls.sources[options["source"]].connect()
            schema = pa.schema([])
            return cls(client, name, StoredTable(-1, schema, schema), 1000)


@caught_by("missing_table")
class NamesAnotherTable(PlainConnector):
    @classmethod
    def open(cls, name, options):
        try:
            return super().open(name, options)
        except TableNotFound as error:
            error.table = "something"
            raise


@caught_by("unknown_option")
class TakesAnyOption(PlainConnector):
    @classmethod
    def open(cls, name, options):
        known = {key: value for key, value in options.items() if key in ("source", "page")}
        return super().open(name, known)


@caught_by(
    "statistics_lose_no_match",
    "opening_lists_no_files",
    "first_split_waits_for_few_listings",
    "requests_are_counted",
    "opening_again_shows_what_is_new",
    "several_threads_at_once",
    "no_match_is_lost",
    "several_filters_at_once",
    "one_value_reads_its_partition_alone",
    "filter_on_a_part_of_the_keys",
    "half_read_listing_can_be_left",
    "marker_reads_everything",
    "every_file_is_read_once",
    "rows_come_back",
    "unpartitioned_table",
)
class ListsTheFirstFileAgain(PlainConnector):
    """Lists the first file of a partition again in place of its second, with the second's size."""

    def list_files(self, partitions, predicate):
        for batch in super().list_files(partitions, predicate):
            rows = batch.files.to_pylist()
            for before, row in itertools.pairwise(rows):
                if before["partition"] == row["partition"]:
                    row["path"] = before["path"]
            yield replace(batch, files=pa.RecordBatch.from_pylist(rows, FILE_SCHEMA))
