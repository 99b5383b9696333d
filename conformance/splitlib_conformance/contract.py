"""Tests that batches are well-formed, splits can be pickled, and errors name the table."""

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
    """Tests of batches, of pickling, and of errors when a table is opened."""

    def test_partitions_have_a_column_for_each_key(self, subject: Subject) -> None:
        """Partition batches have a column per key, in order, with the key's type or with text."""
        with self.open(subject.address) as table:
            batches = list(table.connector.list_partitions(everything(table)))
            keys = table.metadata.partition_schema
        expect(
            batches, "returned no batch of partitions", "at least one, as the table has partitions"
        )
        for batch in batches:
            names, types = batch.values.schema.names, batch.values.schema.types
            expect(
                names == keys.names,
                f"returned partitions with the columns {names}",
                f"a column for each partition key in the table's order, {keys.names}",
            )
            expect(
                batch.values.num_rows == len(batch.refs),
                f"returned {batch.values.num_rows} rows of values and {len(batch.refs)} refs",
                "a row and a ref for each partition",
            )
            for kind, key in zip(types, keys, strict=True):
                expect(
                    kind in (key.type, pa.string()),
                    f"returned values of key {key.name} with type {kind}",
                    f"{key.type} as in the schema, or string with the catalog's text",
                )

    def test_file_batches_have_the_schema(self, simple: Subject) -> None:
        """File batches have the required columns, with absolute paths and valid row numbers.

        Modification times are milliseconds since 1970.
        """
        now = time.time() * 1000
        with self.open(simple.address) as table:
            for listed in table.list_partitions(everything(table)):
                for partitions, batch in self.files_of(table, listed):
                    expect(
                        batch.files.schema.equals(FILE_SCHEMA),
                        f"returned files with the columns {batch.files.schema.to_string()}",
                        f"splitlib.model.FILE_SCHEMA: {FILE_SCHEMA.to_string()}",
                    )
                    kind = type(batch.read_format)
                    expect(
                        issubclass(kind, ReadFormat) and isinstance(batch.requests, Requests),
                        f"returned a read_format of type {kind} and requests {batch.requests!r}",
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
            message = f"returned a ReadFormat or DeleteFile that cannot be pickled ({error})"
            expect(
                False,
                message,
                "splits that can be pickled, because they are sent to other processes",
            )
        same = list(map(_parts, restored)) == list(map(_parts, splits))
        expect(same, "returned splits that pickling changes", "splits that can be pickled")

    def test_missing_table(self, harness: Harness) -> None:
        """Opening a missing table raises an error that names the connector and the table."""
        address = harness.missing_table()
        with expect_error(TableNotFound, "when opening a table that does not exist") as caught:
            self.open(address).close()
        _names_place(caught[0], self.connector, address.name)

    def test_unknown_option(self, simple: Subject) -> None:
        """Opening a table with a misspelled option raises an error that names the option."""
        with expect_error(
            ConfigError, "when opened with the unknown option no_such_option"
        ) as caught:
            self.open(simple.address, no_such_option="1").close()
        expect(
            "no_such_option" in str(caught[0]),
            f"raised {caught[0]} for an unknown option",
            "the option's name in the message, as from splitlib.spi.check_options",
        )
        _names_place(caught[0], self.connector, simple.address.name)


def _check_file(file: dict[str, object], partitions: int, now: float) -> None:
    path, modified, row = str(file["path"]), file["modified"], file["partition"]
    expect(
        os.path.isabs(path) or "://" in path,
        f"returned the path {path!r}",
        "a plain absolute path on the local disk, or a URI",
    )
    expect(
        isinstance(modified, int) and (modified == 0 or abs(modified - now) < _HOUR_MILLISECONDS),
        f"returned {modified} as the modification time of {path}, written at {now:.0f}",
        "milliseconds since the epoch, or 0 if unknown",
    )
    expect(
        isinstance(row, int) and 0 <= row < partitions,
        f"returned partition number {row} for {path}",
        f"the row of its partition in the batch of {partitions} that list_files was given",
    )


def _names_place(error: SplitlibError, connector: str, table: str) -> None:
    expect(
        f"[connector={connector}, table={table}" in str(error),
        f"raised an error that names another connector or table: {error}",
        f"an error with connector={connector}, table={table}; the engine sets both",
    )


def _parts(split: FileSplit) -> tuple[object, ...]:
    """Return all fields of a split. A string replaces NaN, so that splits can be compared."""
    values = frozen(split.partition_values)
    return (values, *(getattr(split, f.name) for f in fields(split) if f.name != _VALUES))
