"""Functions that register a faulty connector and apply the conformance kit to it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import Phase, settings

import splitlib
from splitlib import spi
from splitlib.model import FILE_SCHEMA, FileBatch, PartitionBatch
from splitlib.spi import Connector
from splitlib_conformance import ConnectorConformance, Harness
from splitlib_conformance.key_cases import KEY_CASES, ONE_KEY_CASES, KeyCase
from tests.conformance.memory_connectors import AbleConnector, PlainConnector
from tests.conformance.memory_harness import FullHarness

# Do not shrink failing examples, because one is enough here and shrinking takes long.
settings.register_profile("planted", phases=[Phase.generate], max_examples=5)
settings.load_profile("planted")

ABILITIES = frozenset(
    {
        spi.SupportsDeletionVectors,
        spi.SupportsHosts,
        spi.SupportsIdentityCheck,
        spi.SupportsPartitionDetails,
        spi.SupportsPhysicalNames,
        spi.SupportsStorageOptions,
        spi.SupportsTableNames,
    }
)
# Names of key cases to test. The case with keys of several types is enough for most bugs.
FEW_TYPES = frozenset({"several"})
TEXT = frozenset({"string", "several"})

CAUGHT_BY: dict[str, frozenset[str]] = {}
"""Names of the kit's tests that must fail, by the name of the test class."""


def kit_on(
    connector: str,
    capabilities: frozenset[type] = frozenset(),
    types: frozenset[str] | None = None,
    harness: type[Harness] = FullHarness,
) -> type[ConnectorConformance]:
    """Return the kit's test class for a connector of tables in memory.

    Args:
        connector: Registered name of the connector.
        capabilities: Protocols that the test class declares.
        types: Names of the key cases to test; None for all.
        harness: Class that creates the tables.
    """
    made = harness
    of_columns = None if types is None else types | {"int"}

    class Kit(ConnectorConformance):
        @pytest.fixture
        def harness(self) -> Harness:
            return made()

        @pytest.fixture(autouse=True)
        def no_pauses(self, monkeypatch: pytest.MonkeyPatch) -> None:
            """Retry without pauses, since waiting changes nothing here."""
            monkeypatch.setattr(random, "uniform", lambda low, high: low)

        @pytest.fixture(params=_chosen(KEY_CASES, types), ids=lambda case: case.name)
        def key_case(self, request: pytest.FixtureRequest) -> KeyCase:
            case: KeyCase = request.param
            return case

        @pytest.fixture(params=_chosen(ONE_KEY_CASES, of_columns), ids=lambda case: case.name)
        def column_case(self, request: pytest.FixtureRequest) -> KeyCase:
            case: KeyCase = request.param
            return case

    Kit.connector = connector
    Kit.capabilities = capabilities
    return Kit


def _chosen(cases: Sequence[KeyCase], types: frozenset[str] | None) -> list[KeyCase]:
    return [case for case in cases if types is None or case.name in types]


def caught_by(
    *tests: str, types: frozenset[str] = FEW_TYPES, harness: type[Harness] = FullHarness
) -> Callable[[type[Connector]], type[Connector]]:
    """Return a decorator that registers a connector with a planted bug and applies the kit to it.

    Args:
        tests: Names of all tests that must fail, without ``test_``.
        types: Names of the key cases to test.
        harness: Class that creates the tables.
    """

    def plant(connector: type[Connector]) -> type[Connector]:
        splitlib.register(connector.__name__, connector)
        name = f"Test{connector.__name__}"
        able = issubclass(connector, AbleConnector)
        declared = getattr(connector, "declared", ABILITIES if able else frozenset())
        kit = kit_on(connector.__name__, declared, types, harness)
        kit.__name__ = kit.__qualname__ = name
        setattr(sys.modules[connector.__module__], name, kit)
        CAUGHT_BY[name] = frozenset(f"test_{test}" for test in tests)
        return connector

    return plant


class Batches(PlainConnector):
    """Changes each batch of partitions."""

    def batch_of(self, names):
        return self.change(super().batch_of(names))

    def change(self, batch: PartitionBatch) -> PartitionBatch:
        raise NotImplementedError


class Files(PlainConnector):
    """Changes each batch of files."""

    def files_of(self, row, found):
        return self.change(super().files_of(row, found))

    def change(self, batch: FileBatch) -> FileBatch:
        raise NotImplementedError


def with_column(batch: FileBatch, column: str, values: pa.Array) -> FileBatch:
    i = FILE_SCHEMA.get_field_index(column)
    return replace(batch, files=batch.files.set_column(i, FILE_SCHEMA.field(i), values))


def in_row(batch: FileBatch, row: int) -> FileBatch:
    return with_column(batch, "partition", pa.repeat(pa.scalar(row, pa.int64()), len(batch)))


def mapped(batch: PartitionBatch, spell: Callable[[str], str | None]) -> PartitionBatch:
    """Return the batch with a function applied to all partition values."""
    if not batch.values.num_columns:
        return batch
    columns = [
        pa.array([None if v is None else spell(v) for v in column.to_pylist()], pa.string())
        for column in batch.values.columns
    ]
    names = batch.values.schema.names
    return replace(batch, values=pa.RecordBatch.from_arrays(columns, names=names))
