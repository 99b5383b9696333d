"""Fixtures and helpers for all tests in the kit."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pytest

from splitlib import (
    DynamicFileEnumerator,
    DynamicFilteringData,
    FileSplit,
    SplitConfig,
    Table,
    load_table,
)
from splitlib.hive.partition_values import parse
from splitlib.model import FileBatch, PartitionBatch
from splitlib.spi import Connector, Predicate, SupportsPartitionDetails
from splitlib_conformance.expectations import FrozenValues, frozen
from splitlib_conformance.harness import Harness, NewPartition, TableAddress, WrittenFile
from splitlib_conformance.key_cases import KEY_CASES, KeyCase
from splitlib_conformance.time_limit import time_limit

DATA_SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
ONE_KEY = pa.schema([("k", pa.int32())])
_ids = itertools.count()


def some_rows(number: int = 3) -> pa.Table:
    """Return a table of new rows with unique ids."""
    ids = list(itertools.islice(_ids, number))
    return pa.table({"id": ids, "text": [f"row {i}" for i in ids]}, schema=DATA_SCHEMA)


def partition(values: Mapping[str, Any], files: int = 1) -> NewPartition:
    """Return a partition that has some small files."""
    return NewPartition(values, [some_rows() for _ in range(files)])


@dataclass(frozen=True)
class Subject:
    """A table under test, with the files that the connector must find in it.

    Attributes:
        harness: The harness that created the table.
        address: Name and options to open the table with.
        partition_schema: Partition keys of the table.
        files: All files written into the table.
    """

    harness: Harness
    address: TableAddress
    partition_schema: pa.Schema
    files: list[WrittenFile]

    def add(self, *partitions: NewPartition) -> list[WrittenFile]:
        """Add files and partitions to the table, and return the new files."""
        new = self.harness.add(self.address, partitions)
        self.files.extend(new)
        return new

    def files_where(self, values: Iterable[Mapping[str, Any]]) -> list[WrittenFile]:
        """Return the files of the partitions with these values."""
        wanted = {frozen(each) for each in values}
        return [file for file in self.files if frozen(file.values) in wanted]


class Listed(NamedTuple):
    """Files that the connector listed for some partitions.

    Attributes:
        partitions: The partitions that were passed to ``list_files``.
        batch: A batch of files that ``list_files`` returned.
    """

    partitions: PartitionBatch
    batch: FileBatch


class KitBase:
    """Base class with the kit's fixtures and helpers.

    Attributes:
        connector: Name under which ``splitlib.load_table`` finds the connector.
        capabilities: Protocols in :mod:`splitlib.spi` that the connector must implement. A test
            fails if it does not. Other protocols that the connector implements are tested too.
        time_limit_seconds: Time limit of each test, in seconds. A test that takes longer fails, and
            prints the stacks of all threads.
    """

    connector: ClassVar[str]
    capabilities: ClassVar[frozenset[type]] = frozenset()
    time_limit_seconds: ClassVar[float] = 300

    @pytest.fixture(autouse=True)
    def _limited(self, request: pytest.FixtureRequest) -> Iterator[None]:
        with time_limit(self.time_limit_seconds, request.node.name):
            yield

    @pytest.fixture
    def harness(self) -> Harness:
        """Return the harness for the connector. Override this fixture; it may have any scope."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture named 'harness'")

    @pytest.fixture(params=KEY_CASES, ids=lambda case: case.name)
    def key_case(self, request: pytest.FixtureRequest) -> KeyCase:
        """Return a case of partition keys. A test with this fixture runs once for each case."""
        case: KeyCase = request.param
        return case

    @pytest.fixture
    def subject(self, harness: Harness, key_case: KeyCase) -> Subject:
        """Create a table with the partitions of ``key_case``."""
        return self.create_case(harness, key_case)

    @pytest.fixture
    def simple(self, harness: Harness) -> Subject:
        """Create a table with the partitions ``k=0`` to ``k=3``, with two files each."""
        return self.create_numbered(harness, 4, files=2)

    def create(
        self, harness: Harness, partition_schema: pa.Schema, partitions: Sequence[NewPartition]
    ) -> Subject:
        """Create a table with the given partition keys and partitions."""
        address = harness.create_table(DATA_SCHEMA, partition_schema)
        subject = Subject(harness, address, partition_schema, [])
        subject.add(*partitions)
        return subject

    def create_case(self, harness: Harness, case: KeyCase) -> Subject:
        """Create a table with the partitions of a case.

        The first partition has two files, all others one.
        """
        first, *others = case.partitions
        new = [partition(first, files=2), *map(partition, others)]
        return self.create(harness, case.schema, new)

    def create_numbered(self, harness: Harness, partitions: int, files: int = 1) -> Subject:
        """Create a table with the partitions ``k=0``, ``k=1`` and so on."""
        new = [partition({"k": k}, files) for k in range(partitions)]
        return self.create(harness, ONE_KEY, new)

    def open(
        self, address: TableAddress, *, config: SplitConfig | None = None, **options: Any
    ) -> Table:
        """Open a table as a user does, but ignore settings from environment variables."""
        config = config or SplitConfig()
        return load_table(address.name, self.connector, config=config, **address.options, **options)

    def splits(self, subject: Subject, *filters: DynamicFilteringData) -> list[FileSplit]:
        """Open the table, and return the splits that match all filters."""
        with self.open(subject.address) as table:
            return list(enumerator(table, *filters).enumerate_splits())

    @staticmethod
    def files_of(
        table: Table, partitions: PartitionBatch, predicate: Predicate | None = None
    ) -> Iterator[Listed]:
        """Yield the files in ``partitions``.

        The connector is called as the engine calls it: after loading details, and with as many
        partitions per call as the connector accepts.
        """
        connector, predicate = table.connector, predicate or everything(table)
        for ready in _with_details(connector, partitions):
            for piece in _pieces(ready, connector.partitions_per_listing):
                for batch in connector.list_files(piece, predicate):
                    yield Listed(piece, batch)


def _with_details(connector: Connector, partitions: PartitionBatch) -> Iterator[PartitionBatch]:
    if not isinstance(connector, SupportsPartitionDetails):
        yield partitions
        return
    for piece in _pieces(partitions, connector.partitions_per_details):
        yield connector.load_details(piece)


def _pieces(partitions: PartitionBatch, step: int) -> Iterator[PartitionBatch]:
    for offset in range(0, len(partitions), step):
        yield partitions.slice(offset, step)


def everything(table: Table) -> Predicate:
    """Return the predicate that keeps all partitions and files."""
    return Predicate(table.metadata.filter_schema)


def enumerator(
    table: Table, *filters: DynamicFilteringData, **settings: Any
) -> DynamicFileEnumerator:
    """Return an enumerator of the table with filters. It ignores environment variables."""
    return DynamicFileEnumerator(table, SplitConfig(**settings), filters=filters)


def listed_values(table: Table, batches: Iterable[PartitionBatch]) -> list[FrozenValues]:
    """Return the partition values in ``batches``, converted to the types of the table's keys."""
    schema = table.metadata.partition_schema
    found: list[FrozenValues] = []
    for batch in batches:
        columns = [
            parse(column, key).values.to_pylist()
            for column, key in zip(batch.values.columns, schema, strict=True)
        ]
        found += [
            frozen({key: column[row] for key, column in zip(schema.names, columns, strict=True)})
            for row in range(len(batch))
        ]
    return found
