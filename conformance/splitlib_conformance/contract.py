"""Tests that a connector follows the interface: batches, pickling and errors."""

from __future__ import annotations

import os
import pickle
import time
from dataclasses import fields

import pyarrow as pa

from splitlib import ConfigError, FileSplit, ReadFormat, SplitlibError, TableNotFound
from splitlib.model import FILE_SCHEMA, Requests
from splitlib_conformance.base import KitBase, Subject, everything
from splitlib_conformance.expectations import expect, expect_error, frozen
from splitlib_conformance.harness import Harness

_VALUES = "partition_values"
_HOUR_MILLISECONDS = 3_600_000


class ContractTests(KitBase):
    """Tests of batches and errors."""

    def test_partitions_have_a_column_for_each_key(self, subject: Subject) -> None:
        """Partition batches have a column per key, in order, in the key's type or as text."""
        with self.open(subject.address) as table:
            batches = list(table.connector.list_partitions(everything(table)))
            keys = table.metadata.partition_schema
        expect(batches, "gave no batch of partitions", "at least one, as the table has partitions")
        for batch in batches:
            names, types = batch.values.schema.names, batch.values.schema.types
            expect(
                names == keys.names,
                f"gave partitions with the columns {names}",
                f"a column for each partition key in the table's order, {keys.names}",
            )
            expect(
                batch.values.num_rows == len(batch.refs),
                f"gave {batch.values.num_rows} rows of values and {len(batch.refs)} refs",
                "a row and a ref for each partition",
            )
            for kind, key in zip(types, keys, strict=True):
                expect(
                    kind in (key.type, pa.string()),
                    f"gave values of key {key.name} of type {kind}",
                    f"{key.type} as described, or string with the text that the catalog keeps",
                )

    def test_file_batches_have_the_schema(self, simple: Subject) -> None:
        """File batches have the right columns, absolute paths, milliseconds and valid rows."""
        now = time.time() * 1000
        with self.open(simple.address) as table:
            for listed in table.list_partitions(everything(table)):
                for partitions, batch in self.files_of(table, listed):
                    expect(
                        batch.files.schema.equals(FILE_SCHEMA),
                        f"gave files with the columns {batch.files.schema.to_string()}",
                        f"splitlib.model.FILE_SCHEMA: {FILE_SCHEMA.to_string()}",
                    )
                    kind = type(batch.read_format)
                    expect(
                        issubclass(kind, ReadFormat) and isinstance(batch.requests, Requests),
                        f"gave a read_format of type {kind} and requests {batch.requests!r}",
                        "a splitlib.model.ReadFormat and a splitlib.model.Requests",
                    )
                    for file in batch.files.to_pylist():
                        _check_file(file, len(partitions), now)

    def test_splits_pickle(self, subject: Subject) -> None:
        """Splits can be pickled, because they are sent to other processes."""
        splits = self.splits(subject)
        try:
            restored = pickle.loads(pickle.dumps(splits))
        except Exception as error:
            message = f"gave a ReadFormat or DeleteFile that does not pickle ({error})"
            expect(False, message, "splits that pickle, as they go to other processes")
        same = list(map(_parts, restored)) == list(map(_parts, splits))
        expect(same, "gave what is something else once it was pickled", "splits that pickle")

    def test_missing_table(self, harness: Harness) -> None:
        """Opening a missing table raises an error that names the connector and the table."""
        address = harness.missing_table()
        with expect_error(TableNotFound, "when a table was opened that does not exist") as caught:
            self.open(address).close()
        _says_where(caught[0], self.connector, address.name)

    def test_unknown_option(self, simple: Subject) -> None:
        """Opening with a misspelled option raises an error that names the option."""
        with expect_error(ConfigError, "when opened with an option no_such_option") as caught:
            self.open(simple.address, no_such_option="1").close()
        expect(
            "no_such_option" in str(caught[0]),
            f"raised {caught[0]} for an unknown option",
            "the option's name in the message, as splitlib.spi.check_options puts it there",
        )
        _says_where(caught[0], self.connector, simple.address.name)


def _check_file(file: dict[str, object], partitions: int, now: float) -> None:
    path, modified, row = str(file["path"]), file["modified"], file["partition"]
    expect(
        os.path.isabs(path) or "://" in path,
        f"gave the path {path!r}",
        "a plain absolute path on the local disk, or a URI",
    )
    expect(
        isinstance(modified, int) and (modified == 0 or abs(modified - now) < _HOUR_MILLISECONDS),
        f"says that {path} was modified at {modified}, just after it was written at {now:.0f}",
        "milliseconds since the epoch, or 0 if that is not known",
    )
    expect(
        isinstance(row, int) and 0 <= row < partitions,
        f"says that {path} is of partition number {row}",
        f"the row of its partition in the batch that list_files was given, of {partitions}",
    )


def _says_where(error: SplitlibError, connector: str, table: str) -> None:
    expect(
        f"[connector={connector}, table={table}" in str(error),
        f"raised an error that names another connector or table: {error}",
        f"an error that says connector={connector}, table={table}; leave both to the engine",
    )


def _parts(split: FileSplit) -> tuple[object, ...]:
    """Return all fields of a split, in a form in which NaN equals NaN."""
    values = frozen(split.partition_values)
    return (values, *(getattr(split, f.name) for f in fields(split) if f.name != _VALUES))
