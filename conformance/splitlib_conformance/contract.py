"""Does the connector keep to the interface: what travels, what is raised, what it can do?"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Generator

import pyarrow as pa
import pytest

from splitlib import ConfigError, ReadFormat, SplitlibError, TableNotFound
from splitlib.model import FILE_SCHEMA
from splitlib.spi import SupportsPartitionDetails
from splitlib_conformance.base import KitBase, Subject, enumerator, everything
from splitlib_conformance.harness import Harness

_CAPABILITIES = (SupportsPartitionDetails,)
_HOUR_MILLISECONDS = 3_600_000


class ContractTests(KitBase):
    """Shapes, errors, abilities."""

    def test_capabilities_are_those_declared(self, simple: Subject) -> None:
        """No ability is lost by a misspelled method, none is there by accident."""
        with self.open(simple.address) as table:
            found = {each for each in _CAPABILITIES if isinstance(table.connector, each)}
        assert found == self.capabilities

    def test_partitions_have_a_column_for_each_key(self, subject: Subject) -> None:
        """In the table's order, each in the key's type or as text."""
        with self.open(subject.address) as table:
            batches = list(table.list_partitions(everything(table)))
            keys = table.metadata.partition_schema
        assert batches
        for batch in batches:
            assert batch.values.schema.names == keys.names
            assert batch.values.num_rows == len(batch.refs)
            for column, key in zip(batch.values.columns, keys, strict=True):
                assert column.type in (key.type, pa.string())

    def test_file_batches_have_the_schema(self, simple: Subject) -> None:
        """Columns, absolute paths, milliseconds, and rows that exist."""
        now = time.time() * 1000
        with self.open(simple.address) as table:
            for partitions in table.list_partitions(everything(table)):
                for batch in self.files_of(table, partitions):
                    assert batch.files.schema.equals(FILE_SCHEMA)
                    assert isinstance(batch.read_format, ReadFormat)
                    for path in batch.files["path"].to_pylist():
                        assert os.path.isabs(path) or "://" in path
                    for modified in batch.files["modified"].to_pylist():
                        assert modified == 0 or abs(modified - now) < _HOUR_MILLISECONDS
                    for row in batch.files["partition"].to_pylist():
                        assert 0 <= row < len(partitions)

    def test_splits_pickle(self, subject: Subject) -> None:
        """Splits go to other processes."""
        splits = self.splits(subject)
        assert pickle.loads(pickle.dumps(splits)) == splits

    def test_missing_table(self, harness: Harness) -> None:
        """It is refused when opened, with the connector and the table in the message."""
        address = harness.missing_table()
        with pytest.raises(TableNotFound) as caught:
            self.open(address)
        _says_where(caught.value, self.connector, address.name)

    def test_unknown_option(self, simple: Subject) -> None:
        """A misspelled option is refused by its name, never ignored."""
        with pytest.raises(ConfigError, match="no_such_option") as caught:
            self.open(simple.address, no_such_option="1")
        _says_where(caught.value, self.connector, simple.address.name)

    def test_half_read_listing_can_be_left(self, simple: Subject) -> None:
        """A consumer that has enough leaves the table usable, and able to close."""
        with self.open(simple.address) as table:
            listing = enumerator(table, listing_threads=1).enumerate_splits()
            first = next(listing)
            assert isinstance(listing, Generator)
            listing.close()
            assert next(enumerator(table).enumerate_splits()) == first


def _says_where(error: SplitlibError, connector: str, table: str) -> None:
    assert f"connector={connector}" in str(error)
    assert table in str(error)
