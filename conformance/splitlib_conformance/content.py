"""Tests that a connector lists every partition and file of a table once, and no others."""

from __future__ import annotations

import pyarrow as pa

from splitlib import DynamicFilteringData
from splitlib_conformance.base import (
    DATA_SCHEMA,
    ONE_KEY,
    KitBase,
    Subject,
    enumerator,
    everything,
    listed_values,
    partition,
    some_rows,
)
from splitlib_conformance.expectations import expect, expect_files, expect_partitions, frozen
from splitlib_conformance.harness import Harness, NewPartition
from splitlib_conformance.key_cases import KeyCase

_HIDDEN = (
    "_SUCCESS",
    "_metadata",
    ".part-00000.parquet.crc",
    ".hidden.parquet",
    "_temporary/0/part-00000.parquet",
    ".hive-staging_1/part-00000.parquet",
)


class ContentTests(KitBase):
    """Tests of the schema, the partitions and the files of a table."""

    def test_schema_is_the_data_columns_then_the_keys(self, subject: Subject) -> None:
        """The schema has the columns of the created table, with the partition keys last."""
        with self.open(subject.address) as table:
            found = [(f.name, _without_zone(f.type)) for f in table.schema]
            form = table.metadata.read_format.name
            keys = list(table.partition_keys)
        expected = [
            (f.name, _without_zone(f.type)) for f in (*DATA_SCHEMA, *subject.partition_schema)
        ]
        expect(
            found == expected,
            f"describes a table with the columns {_columns(found)}",
            f"the data columns, then the partition keys: {_columns(expected)}",
        )
        expect(
            keys == subject.partition_schema.names,
            f"describes a table with the partition_keys {keys}",
            f"{subject.partition_schema.names}",
        )
        expect(form == "parquet", f"describes files of format {form!r}", "'parquet'")

    def test_every_file_is_read_once(self, subject: Subject) -> None:
        """The splits cover each written file once, with the values of its partition."""
        expect_files(self.splits(subject), subject.files)

    def test_partition_values_are_those_written(self, subject: Subject, key_case: KeyCase) -> None:
        """Partition values, including null, equal the values that were written."""
        with self.open(subject.address) as table:
            listed = set(listed_values(table, table.list_partitions(everything(table))))
        expect_partitions(list(listed), key_case.partitions, "list_partitions")

    def test_no_partition_is_listed_twice(self, subject: Subject, key_case: KeyCase) -> None:
        """The batches of ``list_partitions`` together contain each partition once.

        The engine removes duplicates, but this takes time and memory.
        """
        with self.open(subject.address) as table:
            listed = listed_values(table, table.connector.list_partitions(everything(table)))
        twice = {values for values in listed if listed.count(values) > 1}
        expect(
            not twice,
            f"listed some partitions more than once: {sorted(map(str, twice))[:3]}",
            "each partition once over all batches of list_partitions",
        )

    def test_sizes_are_exact(self, simple: Subject) -> None:
        """File sizes are exact: not rounded, and not the sizes of decompressed data."""
        real = {file.path: file.size for file in simple.files}
        for split in self.splits(simple):
            expect(
                split.file_size == real.get(split.path, split.file_size),
                f"returned {split.file_size} bytes as the size of {split.path}",
                f"{real.get(split.path)}, its exact size in the storage",
            )

    def test_files_belong_to_their_partition(self, simple: Subject) -> None:
        """Each file belongs to the right partition, even if partitions are passed in reverse."""
        real = {file.path: frozen(file.values) for file in simple.files}
        with self.open(simple.address) as table:
            for batch in table.list_partitions(everything(table)):
                backwards = batch.take(pa.array(range(len(batch))[::-1], pa.int64()))
                for partitions, found in self.files_of(table, backwards):
                    values = listed_values(table, [partitions])
                    for file in found.files.select(["path", "partition"]).to_pylist():
                        given = values[file["partition"]]
                        expect(
                            real.get(file["path"], given) == given,
                            f"returned {file['path']} as a file of partition {dict(given)}",
                            f"in column 'partition', the row of {real.get(file['path'])} in the "
                            "batch that was passed to list_files or load_details, in any order",
                        )

    def test_rows_come_back(self, harness: Harness) -> None:
        """Rows read from the splits, with their partition values, equal the written rows."""
        new = [partition({"k": k}, files=2) for k in range(4)]
        subject = self.create(harness, ONE_KEY, new)
        rows = []
        for split in self.splits(subject, DynamicFilteringData.from_values({"k": [1, 3]})):
            file = harness.read_file(split.path).select(DATA_SCHEMA.names)
            rows += [{**row, **split.partition_values} for row in file.to_pylist()]
        rows.sort(key=lambda row: row["id"])
        expected = [
            {**row, **each.values}
            for each in new[1::2]
            for t in each.tables
            for row in t.to_pylist()
        ]
        expect(
            rows == expected,
            f"led to {len(rows)} rows in the partitions k=1 and k=3: {rows[:3]} …",
            f"the {len(expected)} rows that were written into them: {expected[:3]} …",
        )

    def test_unpartitioned_table(self, harness: Harness) -> None:
        """An unpartitioned table has one partition without values."""
        subject = self.create(harness, pa.schema([]), [partition({}, files=3)])
        with self.open(subject.address) as table:
            batches = list(table.list_partitions(everything(table)))
            shape = [(len(batch), batch.values.num_columns) for batch in batches]
            expect(
                shape == [(1, 0)],
                f"listed a table without partition keys as batches of {shape} (partitions, value "
                "columns)",
                "one batch of one partition, without value columns",
            )
            expect_files(enumerator(table).enumerate_splits(), subject.files)

    def test_table_without_partitions(self, harness: Harness) -> None:
        """A table with keys but without partitions has no splits and raises no error."""
        subject = self.create(harness, ONE_KEY, [])
        with self.open(subject.address) as table:
            keys = table.partition_keys
            expect(
                keys == ("k",),
                f"describes a table without partitions with the partition_keys {keys}",
                "('k',), as the table was created",
            )
            listed = listed_values(table, table.list_partitions(everything(table)))
            expect_partitions(listed, [], "list_partitions")
            expect_files(enumerator(table).enumerate_splits(), [])

    def test_empty_partition(self, harness: Harness) -> None:
        """A partition without files raises no error and has no splits."""
        subject = self.create(harness, ONE_KEY, [partition({"k": 1}), NewPartition({"k": 2})])
        expect_files(self.splits(subject), subject.files, "with a partition that has no file")

    def test_hidden_files_are_not_data(self, harness: Harness) -> None:
        """Files and directories whose names start with ``_`` or ``.`` are not read."""
        hidden = [NewPartition({"k": k}, [some_rows()], _HIDDEN) for k in range(2)]
        subject = self.create(harness, ONE_KEY, hidden)
        when = "with additional files whose names or directories begin with _ or ."
        expect_files(self.splits(subject), subject.files, when)


def _without_zone(kind: pa.DataType) -> pa.DataType:
    """Replace a timestamp type's time zone by UTC, because the zone does not affect the values."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    return kind


def _columns(columns: list[tuple[str, pa.DataType]]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)
