"""A connector that reads the simulated table, with calls that are slow, hang or fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa

from splitlib.errors import MissingPartition, TableNotFound
from splitlib.filtering.predicate import Predicate
from splitlib.model import (
    ColumnStatistics,
    FileBatch,
    PartitionBatch,
    ReadFormat,
    Requests,
    TableMetadata,
)
from splitlib.spi import Connector
from splitlib.storage import StoredFile, file_batch
from tests.simulation.faults import Fault, Faults
from tests.simulation.history import History, Span
from tests.simulation.table_model import File, TableModel, bounds

_FORMAT = ReadFormat.of("parquet")


@dataclass(frozen=True, slots=True)
class Abilities:
    """Optional abilities and batch sizes of the connector in one run."""

    details: bool
    identity: bool
    hosts: bool
    statistics: bool
    per_listing: int
    per_batch: int
    per_page: int
    """Number of files in one listing page, which may cover several partitions.

    0 means that listings have no pages. A call then returns one batch for each partition.
    """
    files_each: float
    """Number of files per partition that the catalog reports; 0 if the catalog reports none."""
    by_name: bool
    """Whether batches of partitions are marked as the result of a request by name."""


class SimulatedConnector(Connector):
    """A connector that reads the simulated table and records each call in the history.

    Args:
        model: The simulated table.
        faults: Source of a random fault for each call.
        history: History that records the calls.
        abilities: Optional abilities and batch sizes.
        scan: Number of the scan that uses this connector.
        sleep: Function that sleeps in simulated time.
        hang: Function that returns only when the run ends.
    """

    def __init__(
        self,
        model: TableModel,
        faults: Faults,
        history: History,
        abilities: Abilities,
        *,
        scan: int,
        sleep: Callable[[float], None],
        hang: Callable[[], object],
    ) -> None:
        self._model, self._faults, self._history = model, faults, history
        self._abilities, self._scan, self._sleep, self._hang = abilities, scan, sleep, hang
        self.partitions_per_listing = abilities.per_listing
        self.files_per_page = abilities.per_page

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        raise NotImplementedError

    def describe(self) -> TableMetadata:
        schema = pa.schema([("a", pa.int64()), ("k", pa.int32())])
        filter_schema = schema if self._abilities.statistics else None
        return TableMetadata(schema, ("k",), _FORMAT, filter_schema=filter_schema)

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        last = -1
        listing = self._history.note("listing begins", scan=self._scan).number
        while True:
            with self._call("list_partitions", listing=listing, after=last) as call:
                later = sorted(k for k in self._model.partitions if k > last)
                batch = call.data["answer"] = later[: self._abilities.per_batch]
            if not batch:
                return
            values = pa.record_batch({"k": pa.array(map(str, batch), pa.string())})
            self._model.batch_was_listed()
            yield PartitionBatch(
                values,
                pa.array(batch, pa.int64()),
                Requests(catalog=1),
                files_each=self._abilities.files_each,
                asked_for="names" if self._abilities.by_name else "all",
            )
            last = batch[-1]

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        asked = partitions.refs.to_pylist()
        with self._call("list_files", ks=asked) as call:
            call.data["answer"] = answer = []
            fault: Fault = call.data["fault"]
            told: list[tuple[int, File]] = []
            listed = 0
            while listed < len(asked):
                k = asked[listed]
                if k not in self._model.partitions:
                    call.data["missing"] = k
                    raise MissingPartition(f"k={k} has gone")
                files = list(self._model.partitions[k])
                if told and len(told) + len(files) > self.files_per_page > 0:
                    break
                told += ((listed, file) for file in files)
                answer += [file.path for file in files]
                listed += 1
                if not self.files_per_page:
                    yield self._file_batch(told)
                    told = []
                fault.fail(halfway=True)
            if self.files_per_page:
                yield replace(self._file_batch(told), partitions_listed=listed)

    def _file_batch(self, told: Sequence[tuple[int, File]]) -> FileBatch:
        files = [file for _, file in told]
        stored = file_batch((row, StoredFile(f.path, f.size, 1)) for row, f in told)
        statistics = {}
        if self._abilities.statistics:
            yes, no = (pa.array([flag] * len(files), pa.bool_()) for flag in (True, False))
            low, high = bounds(files, "low"), bounds(files, "high")
            statistics["a"] = ColumnStatistics(low, high, no, no, yes)
        return FileBatch(stored, _FORMAT, Requests(storage=1), statistics)

    @contextmanager
    def _call(self, method: str, **data: Any) -> Iterator[Span]:
        """Record a call in the history, and apply a random delay or error to it."""
        fault = self._faults.draw()
        call = self._history.begin(method, scan=self._scan, **data)
        call.data["fault"] = fault
        try:
            if not fault.stale:
                self._delay(fault)
            fault.fail(halfway=False)
            yield call
            if fault.stale:
                self._delay(fault)
            fault.fail(halfway=True)
        except Exception as error:
            self._history.end(call, error=f"{type(error).__name__}: {error}")
            raise
        else:
            self._history.end(call, **{k: v for k, v in call.data.items() if k == "answer"})

    def _delay(self, fault: Fault) -> None:
        if fault.hangs:
            self._hang()
        elif fault.before_seconds:
            self._sleep(fault.before_seconds)


class _Detailed:
    """A connector that loads details of partitions in a separate call."""

    partitions_per_details = 3

    def load_details(self: Any, partitions: PartitionBatch) -> PartitionBatch:
        asked = partitions.refs.to_pylist()
        with self._call("load_details", ks=asked) as call:
            rows = [row for row, k in enumerate(asked) if k in self._model.partitions]
            call.data["answer"] = [asked[row] for row in rows]
            if len(rows) < len(asked):
                call.data["missing"] = min(set(asked) - set(call.data["answer"]))
        taken = partitions.take(pa.array(rows, pa.int64()))
        return PartitionBatch(taken.values, taken.refs, Requests(catalog=1))


class _Identified:
    """A connector that detects when the table was dropped and created again."""

    def check_identity(self: Any) -> None:
        with self._call("check_identity"):
            if self._model.recreated is not None:
                raise TableNotFound("It was created anew.")


class _Located:
    """A connector that returns the hosts that store each file."""

    def hosts(self: Any, paths: Sequence[str]) -> list[list[str]]:
        with self._call("hosts", paths=list(paths)):
            return [[f"host{len(path) % 2}"] for path in paths]


def connector_class(abilities: Abilities) -> type[SimulatedConnector]:
    """Return a connector class that has only the given abilities."""
    optional = [
        (abilities.details, _Detailed),
        (abilities.identity, _Identified),
        (abilities.hosts, _Located),
    ]
    bases = [mixin for able, mixin in optional if able]
    return type("Simulated", (*bases, SimulatedConnector), {})
