"""Does the connector list what is in the table: all of it, once, and nothing else?"""

from __future__ import annotations

import pyarrow as pa

from splitlib import DynamicFilteringData
from splitlib_conformance.base import (
    DATA_SCHEMA,
    ONE_KEY,
    KitBase,
    Subject,
    everything,
    frozen,
    listed_values,
    partition,
    read_from,
    some_rows,
    written,
)
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
    """The schema, the partitions and the files of a table."""

    def test_schema_is_the_data_columns_then_the_keys(self, subject: Subject) -> None:
        """The catalog's names, order and types; keys are last."""
        with self.open(subject.address) as table:
            expected = pa.schema([*DATA_SCHEMA, *subject.partition_schema])
            assert table.schema.names == expected.names
            assert table.schema.types == expected.types
            assert list(table.partition_keys) == subject.partition_schema.names
            assert table.metadata.read_format.name == "parquet"

    def test_every_file_is_read_once(self, subject: Subject) -> None:
        """The splits are the files written: none lost, none twice, each with its values."""
        assert read_from(self.splits(subject)) == written(subject.files)

    def test_partition_values_are_those_written(self, subject: Subject, key_case: KeyCase) -> None:
        """Whatever the spelling in the catalog, the value comes back; null too."""
        with self.open(subject.address) as table:
            listed = listed_values(table, table.list_partitions(everything(table)))
        assert set(listed) == {frozen(values) for values in key_case.partitions}

    def test_no_partition_is_listed_twice(self, subject: Subject, key_case: KeyCase) -> None:
        """One row per partition over all batches."""
        with self.open(subject.address) as table:
            listed = listed_values(table, table.list_partitions(everything(table)))
        assert len(listed) == len(key_case.partitions)

    def test_sizes_are_exact(self, simple: Subject) -> None:
        """The length that the storage has, not one that is rounded, cached or decompressed."""
        sizes = {split.path: split.file_size for split in self.splits(simple)}
        assert sizes == {file.path: file.size for file in simple.files}

    def test_files_belong_to_their_partition(self, simple: Subject) -> None:
        """Files name the row of their partition, in whatever order the partitions are given."""
        with self.open(simple.address) as table:
            found = []
            for batch in table.list_partitions(everything(table)):
                backwards = batch.take(pa.array(reversed(range(len(batch)))))
                values = listed_values(table, [backwards])
                for files in self.files_of(table, backwards):
                    rows = zip(
                        files.files["path"].to_pylist(),
                        files.files["partition"].to_pylist(),
                        strict=True,
                    )
                    found += [(path, values[row]) for path, row in rows]
        assert sorted(found) == written(simple.files)

    def test_rows_come_back(self, harness: Harness) -> None:
        """The files of the splits plus their partition values are the rows that were written."""
        new = [partition({"k": k}, files=2) for k in range(4)]
        subject = self.create(harness, ONE_KEY, new)
        rows = []
        for split in self.splits(subject, DynamicFilteringData.from_values({"k": [1, 3]})):
            file = harness.read_file(split.path).select(DATA_SCHEMA.names)
            rows += [{**row, **split.partition_values} for row in file.to_pylist()]
        expected = [
            {**row, **each.values}
            for each in new[1::2]
            for t in each.tables
            for row in t.to_pylist()
        ]
        assert sorted(rows, key=lambda row: row["id"]) == expected

    def test_unpartitioned_table(self, harness: Harness) -> None:
        """It has one partition, without values."""
        subject = self.create(harness, pa.schema([]), [partition({}, files=3)])
        with self.open(subject.address) as table:
            assert table.partition_keys == ()
            assert [len(batch) for batch in table.list_partitions(everything(table))] == [1]
        assert read_from(self.splits(subject)) == written(subject.files)

    def test_table_without_partitions(self, harness: Harness) -> None:
        """It has keys, no partitions, no splits, and is no error."""
        subject = self.create(harness, ONE_KEY, [])
        with self.open(subject.address) as table:
            assert table.partition_keys == ("k",)
            assert listed_values(table, table.list_partitions(everything(table))) == []
        assert self.splits(subject) == []

    def test_empty_partition(self, harness: Harness) -> None:
        """A partition without files is no error and has no splits."""
        subject = self.create(harness, ONE_KEY, [partition({"k": 1}), NewPartition({"k": 2})])
        assert read_from(self.splits(subject)) == written(subject.files)

    def test_hidden_files_are_not_data(self, harness: Harness) -> None:
        """Names that start with ``_`` or ``.``, and what lies below them, are not read."""
        hidden = [NewPartition({"k": k}, [some_rows()], _HIDDEN) for k in range(2)]
        subject = self.create(harness, ONE_KEY, hidden)
        assert read_from(self.splits(subject)) == written(subject.files)
