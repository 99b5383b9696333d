"""Tables in memory for the tests of the coordinator, and readers of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from splitlib.config import SplitConfig
from splitlib.coordination.coordinator import (
    AssignedSplit,
    DynamicFileSplitEnumerator,
    SplitResponse,
    WaitForSplits,
)
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.filtering.data import DynamicFilteringData, DynamicFilteringEvent
from splitlib.model import FileBatch, FileSplit, PartitionBatch, ReadFormat, Requests, TableMetadata
from splitlib.spi import Connector
from splitlib.storage import StoredFile, file_batch
from splitlib.table import Table

PARQUET = ReadFormat.of("parquet")


def keys(*values: int, producer: object = None) -> DynamicFilteringEvent:
    data = DynamicFilteringData.from_arrow(pa.table({"k": pa.array(values, pa.int64())}))
    return DynamicFilteringEvent(data, producer)


class Memory(Connector):
    """``partitions`` partitions k=0…, the same number of files in each; remembers its listings."""

    def __init__(
        self,
        partitions: int = 10,
        files: int = 2,
        size: int = 10,
        on_list: Callable[[int], object] = lambda k: None,
        snapshot: str | None = None,
    ) -> None:
        self.partitions, self.files, self.size = partitions, files, size
        self.on_list, self.snapshot = on_list, snapshot
        self.listed: list[int] = []
        self.batches = 0

    @classmethod
    def open(cls, name, options):
        return cls()

    def describe(self) -> TableMetadata:
        schema = pa.schema([("a", pa.int64()), ("k", pa.int32())])
        return TableMetadata(schema, ("k",), PARQUET, snapshot_id=self.snapshot)

    def list_partitions(self, predicate) -> Iterator[PartitionBatch]:
        for start in range(0, self.partitions, 100):
            self.batches += 1
            texts = [str(k) for k in range(start, min(start + 100, self.partitions))]
            yield PartitionBatch(pa.record_batch({"k": texts}), pa.array(texts))

    def list_files(self, partitions, predicate) -> Iterator[FileBatch]:
        for row, k in enumerate(partitions.refs.to_pylist()):
            self.listed.append(int(k))
            self.on_list(int(k))
            files = [StoredFile(f"/t/k={k}/{n:05}", self.size, 1) for n in range(self.files)]
            yield FileBatch(file_batch((row, f) for f in files), PARQUET, Requests(storage=1))


def coordinator_of(connector, assigner=None, **config) -> DynamicFileSplitEnumerator:
    return DynamicFileSplitEnumerator(enumerator_of(connector, **config), assigner)


def enumerator_of(connector, name="t", **config) -> DynamicFileEnumerator:
    return DynamicFileEnumerator(Table(name, "memory", connector), SplitConfig(**config))


def ask(coordinator: DynamicFileSplitEnumerator, reader: str = "r", **more) -> SplitResponse:
    """As a reader does: ask again when told to wait, for half a minute at most."""
    until = time.monotonic() + 30
    while isinstance(answer := coordinator.handle_split_request(reader, **more), WaitForSplits):
        assert time.monotonic() < until, "told to wait for ever"
        time.sleep(answer.delay_seconds)
    return answer


def take(coordinator, reader="r", **more) -> FileSplit:
    """The next split, not acknowledged."""
    answer = ask(coordinator, reader, **more)
    assert isinstance(answer, AssignedSplit), answer
    return answer.split


def read_all(coordinator, reader="r", **more) -> list[FileSplit]:
    """Every split until there are no more, each acknowledged."""
    read = []
    while isinstance(answer := ask(coordinator, reader, **more), AssignedSplit):
        coordinator.acknowledge([answer.split], reader)
        read.append(answer.split)
    return read


def ks(splits) -> list[int]:
    return [split.partition_values["k"] for split in splits]


def own_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("splitlib")]


def assert_no_thread_is_left() -> None:
    until = time.monotonic() + 30
    while own_threads() and time.monotonic() < until:
        time.sleep(0.01)
    assert own_threads() == []
