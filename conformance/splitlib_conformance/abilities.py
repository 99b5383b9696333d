"""Tests for the optional protocols in :mod:`splitlib.spi` that a connector implements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from splitlib import CorruptMetadata, MissingFile, Table, TableNotFound
from splitlib.model import FIELD_ID, DeleteFile, FileBatch, PartitionBatch
from splitlib.registry import connector_class
from splitlib.spi import (
    SupportsDeletionVectors,
    SupportsHosts,
    SupportsIdentityCheck,
    SupportsPartitionDetails,
    SupportsPhysicalNames,
    SupportsStorageOptions,
    SupportsTableNames,
)
from splitlib_conformance.base import (
    ONE_KEY,
    KitBase,
    Subject,
    enumerator,
    everything,
    listed_values,
    partition,
)
from splitlib_conformance.expectations import expect, expect_error, expect_files, frozen
from splitlib_conformance.harness import Harness, not_tried

_ABILITIES = (
    SupportsDeletionVectors,
    SupportsHosts,
    SupportsIdentityCheck,
    SupportsPartitionDetails,
    SupportsPhysicalNames,
    SupportsStorageOptions,
    SupportsTableNames,
)


class AbilitiesTests(KitBase):
    """Tests for the :mod:`splitlib.spi` protocols that the connector implements."""

    def test_abilities_are_there(self, simple: Subject) -> None:
        """The connector implements every declared protocol, without a misspelled method."""
        with self.open(simple.address) as table:
            found = {each for each in _ABILITIES if isinstance(table.connector, each)}
        if issubclass(connector_class(self.connector), SupportsTableNames):
            found.add(SupportsTableNames)  # Its method is a class method, so check the class.
        missing = sorted(each.__name__ for each in self.capabilities - found)
        expect(
            not missing,
            f"does not implement the capabilities declared in its test class: {', '.join(missing)}",
            "every method and attribute of these protocols, spelled as in splitlib.spi",
        )

    def test_details_are_of_the_partitions_given(self, harness: Harness) -> None:
        """``load_details`` returns the given partitions in the given order."""
        subject = self.create_numbered(harness, 9)
        with self._able(subject, SupportsPartitionDetails) as table:
            most = table.partitions_per_details
            expect(
                isinstance(most, int) and most > 0,
                f"has partitions_per_details = {most!r}",
                "the maximum number of partitions per call of load_details, at least 1",
            )
            for batch in table.list_partitions(everything(table)):
                for order in ([4, 1, 7], [8], [], list(range(9))):
                    some = batch.take(pa.array(order, pa.int64())).slice(0, most or 1)
                    found = listed_values(table, [table.load_details(some)])
                    expect(
                        found == listed_values(table, [some]),
                        f"returned the details of {found}",
                        f"the details of the given partitions, in the same order: "
                        f"{listed_values(table, [some])}",
                    )

    def test_details_leave_out_what_was_dropped(self, harness: Harness) -> None:
        """``load_details`` leaves out exactly the partitions that were dropped."""
        subject = self.create_numbered(harness, 4)
        with self._able(subject, SupportsPartitionDetails) as table:
            batches = list(table.list_partitions(everything(table)))
            harness.drop(subject.address, {"k": 2})
            left = [v for b in batches for v in listed_values(table, list(_detailed(table, b)))]
            pinned = table.metadata.snapshot_id is not None
        expected = [frozen({"k": k}) for k in range(4) if k != 2 or pinned]
        expect(
            sorted(left) == expected,
            f"returned the details of {left} after k=2 was dropped",
            f"the details of {expected}",
        )

    def test_identity_is_that_of_the_table(self, simple: Subject) -> None:
        """``check_identity`` raises no error while the table exists, even if partitions change."""
        with self._able(simple, SupportsIdentityCheck) as table:
            table.check_identity()
            simple.add(partition({"k": 99}))
            simple.harness.drop(simple.address, {"k": 0})
            table.check_identity()

    def test_identity_ends_with_the_table(self, simple: Subject) -> None:
        """``check_identity`` raises an error after the table was dropped."""
        with self._able(simple, SupportsIdentityCheck) as table:
            list(enumerator(table).enumerate_splits())
            simple.harness.drop_table(simple.address)
            with expect_error(TableNotFound, "by check_identity after the table was dropped"):
                table.check_identity()

    def test_identity_is_not_that_of_a_successor(self, simple: Subject) -> None:
        """``check_identity`` raises an error after another table has replaced the opened one."""
        with self._able(simple, SupportsIdentityCheck) as table:
            list(enumerator(table).enumerate_splits())
            simple.harness.replace_table(simple.address)
            when = "by check_identity after another table had replaced the opened one"
            with expect_error(TableNotFound, when):
                table.check_identity()

    def test_table_names(self, simple: Subject) -> None:
        """``table_names`` lists the tables in one or all databases, without duplicates, sorted."""
        names_of = self._names_of(simple)
        database, _, table = simple.address.name.rpartition(".")
        every, some = names_of(None), names_of(database)
        for names, which in ((every, "None"), (some, repr(database))):
            expect(
                (database, table) in names,
                f"did not return {(database, table)} from table_names({which})",
                "database and name of each table, as in the name that opens it",
            )
            expect(
                names == sorted(set(names)),
                f"returned {names[:5]} … from table_names({which})",
                "each table once, in order",
            )
        expect(
            some == [each for each in every if each[0] == database],
            f"returned {some[:5]} … from table_names({database!r})",
            "the tables of table_names(None) that are in this database",
        )

    def test_table_names_of_no_database(self, simple: Subject) -> None:
        """``table_names`` raises an error for a missing database, instead of an empty result."""
        names_of = self._names_of(simple)
        with expect_error(TableNotFound, "by table_names of a database that does not exist"):
            names_of("no_such_database")

    def test_storage_options(self, simple: Subject) -> None:
        """Storage options have string names, and are the same in every call."""
        with self._able(simple, SupportsStorageOptions) as table:
            found = table.storage_options("s3")
            expect(
                isinstance(found, Mapping) and all(isinstance(name, str) for name in found),
                f"returned a {type(found).__name__} as the storage options of s3",
                "a mapping from the names of fsspec's options",
            )
            expect(
                table.storage_options("s3") == found,
                "returned different storage options of s3 in the second call",
                "the options as of when the table was opened",
            )

    def test_hosts(self, simple: Subject) -> None:
        """``hosts`` returns a sequence of host names for each file, in the order of the paths."""
        with self._able(simple, SupportsHosts) as table:
            paths = [file.path for file in simple.files]
            found = table.hosts(paths) or []
            expect(
                all(isinstance(host, str) for hosts in found for host in hosts)
                and not any(isinstance(hosts, str) for hosts in found),
                f"returned the hosts {found}",
                "a sequence of host names for each file",
            )
            backwards = table.hosts(paths[::-1]) or []
            expect(
                [list(hosts) for hosts in backwards[::-1]] == [list(hosts) for hosts in found],
                f"returned the hosts {found}, and {backwards} for the same files in reverse",
                "the hosts of each file, in the order of the given paths",
            )
            splits = list(enumerator(table).enumerate_splits())
        known = {path: tuple(hosts) for path, hosts in zip(paths, found, strict=True)}
        for split in splits:
            expect(
                split.hosts == known.get(split.path, split.hosts),
                f"returned the hosts {split.hosts} for {split.path} in an enumeration",
                f"{known.get(split.path)}, as in the call for all files",
            )

    def test_names_of_columns_in_files(self, simple: Subject) -> None:
        """If ``read_format.columns`` has names by field id, the files have these column names."""
        with self.open(simple.address) as table:
            found = [
                batch
                for listed in table.list_partitions(everything(table))
                for _, batch in self.files_of(table, listed)
                if not isinstance(batch.read_format.columns, str)
            ]
            if not found:
                pytest.skip("not tried: the connector has no names of columns by field id")
            for batch in found:
                _expect_names(simple, table, batch)

    def test_physical_names(self, simple: Subject) -> None:
        """``with_physical_names`` returns the column names in each file, by field id."""
        with self._able(simple, SupportsPhysicalNames) as table:
            for files in self._files(table):
                for batch in table.with_physical_names(files):
                    _expect_names(simple, table, batch)

    def test_physical_names_of_a_file_that_has_gone(self, simple: Subject) -> None:
        """``with_physical_names`` raises an error if a file does not exist."""
        with self._able(simple, SupportsPhysicalNames) as table:
            found = list(self._files(table))
            simple.harness.delete_file(found[0].files["path"][0].as_py())
            when = "by with_physical_names for a file that does not exist"
            with expect_error(MissingFile, when):
                table.with_physical_names(found[0])

    def test_deletion_vectors(self, harness: Harness) -> None:
        """A deletion vector has exactly the positions of the file's deleted rows, ascending."""
        subject, path, positions = self._with_deleted_rows(harness)
        with self._able(subject, SupportsDeletionVectors) as table:
            splits = list(enumerator(table).enumerate_splits())
            expect_files(splits, subject.files, "with deleted rows in one file")
            for split in splits:
                vectors = [delete for delete in split.deletes if delete.kind == "vector"]
                found = [table.read_vector(delete).to_pylist() for delete in vectors]
                expected = [positions] if split.path == path else []
                expect(
                    found == expected,
                    f"returned deletion vectors with the positions {found} for {split.path}",
                    f"{expected}, the rows that the harness deleted from this file",
                )

    def test_vectors_that_cannot_be_read(self, harness: Harness) -> None:
        """A damaged or missing deletion vector raises an error.

        If the connector returned an empty vector instead, deleted rows would be read again.
        """
        subject, path, _ = self._with_deleted_rows(harness)
        with self._able(subject, SupportsDeletionVectors) as table:
            [vector] = self._vectors(table)
            # This refers to the bytes of a data file, or has invalid text in place of a vector.
            other = replace(vector, path=path, inline="~" if vector.inline else "")
            with expect_error(CorruptMetadata, "by read_vector for bytes that are not a vector"):
                table.read_vector(other)
            if vector.inline:
                return
            gone = replace(vector, path=f"{vector.path}.gone")
            with expect_error(MissingFile, "by read_vector for a file that does not exist"):
                table.read_vector(gone)

    def _able(self, subject: Subject, ability: type) -> Table:
        """Open the table, or skip the test if the connector does not implement ``ability``.

        Args:
            subject: The table.
            ability: The protocol, a class of :mod:`splitlib.spi`.
        """
        table = self.open(subject.address)
        if isinstance(table.connector, ability):
            return table
        table.close()
        pytest.skip(f"not tried: the connector has no {ability.__name__}")

    def _names_of(self, subject: Subject) -> Any:
        connector = connector_class(self.connector)
        if not issubclass(connector, SupportsTableNames):
            pytest.skip("not tried: the connector has no SupportsTableNames")
        return lambda database: list(connector.table_names(database, subject.address.options))

    def _files(self, table: Table) -> Iterator[FileBatch]:
        if table.metadata.read_format.columns == "name":
            not_tried("make a table whose columns are found by field id")
        for listed in table.list_partitions(everything(table)):
            for _, batch in self.files_of(table, listed):
                expect(
                    batch.read_format.columns != "name",
                    "implements SupportsPhysicalNames, but matches columns of files by name",
                    "a read_format with columns matched by id, ReadFormat.of(…, columns='id')",
                )
                yield batch

    def _with_deleted_rows(self, harness: Harness) -> tuple[Subject, str, list[int]]:
        """Create a table with deleted rows in one file.

        Returns:
            The table, the path of the file, and the positions of the deleted rows.
        """
        subject = self.create(harness, ONE_KEY, [partition({"k": k}, files=2) for k in range(2)])
        self._able(subject, SupportsDeletionVectors).close()
        path = subject.files[1].path
        positions = [0, 2]
        harness.delete_rows(subject.address, path, positions)
        return subject, path, positions

    @staticmethod
    def _vectors(table: Table) -> list[DeleteFile]:
        splits = enumerator(table).enumerate_splits()
        return [delete for split in splits for delete in split.deletes if delete.kind == "vector"]


def _expect_names(subject: Subject, table: Table, batch: FileBatch) -> None:
    """Fail unless ``read_format.columns`` of a batch has the columns' names in its files, by id."""
    given = batch.read_format.columns
    ids = {
        int(field.metadata[FIELD_ID]): field.name
        for field in table.schema
        if field.metadata and FIELD_ID in field.metadata
    }
    for path in batch.files["path"].to_pylist():
        there = subject.harness.read_file(path).schema.names
        real = {(i, name) for i, name in ids.items() if name in there}
        expect(
            not isinstance(given, str) and set(given) == real,
            f"returned {given} as the column names in {path}",
            f"pairs of field id and name in the file: {sorted(real)}",
        )


def _detailed(table: Table, batch: PartitionBatch) -> Iterator[PartitionBatch]:
    step = table.partitions_per_details or 1
    for offset in range(0, len(batch), step):
        yield table.load_details(batch.slice(offset, step))
