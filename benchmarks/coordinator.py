"""Compare the coordinator, which assigns splits to readers, with a plain enumeration of the table.

The table is in memory, so that no storage is measured. Readers acknowledge their splits, but do not
read them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

import splitlib
from benchmarks.measure import Contender, Sample, in_turns, timed
from benchmarks.results import Comparison, Result, Target
from benchmarks.sizes import Sizes
from splitlib.coordination.coordinator import (
    AssignedSplit,
    DynamicFileSplitEnumerator,
    WaitForSplits,
)
from splitlib.filtering.predicate import Predicate
from splitlib.model import FileBatch, PartitionBatch, ReadFormat, TableMetadata
from splitlib.spi import Connector
from splitlib.storage import StoredFile, file_batch

_ALONE = "enumerate_splits() alone"
_FILES = 100
_PER_SECOND = 20_000


class _Memory(Connector):
    """A table in memory with a fixed number of partitions, of 100 files each."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        return cls(int(name))

    def describe(self) -> TableMetadata:
        schema = pa.schema([("a", pa.int64()), ("k", pa.int32())])
        return TableMetadata(schema, ("k",), ReadFormat.of("parquet"))

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        del predicate
        keys = pa.array(range(self._partitions), pa.int32())
        yield PartitionBatch(pa.record_batch({"k": keys}), keys)

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        del predicate
        for row, k in enumerate(partitions.refs.to_pylist()):
            files = (StoredFile(f"/t/k={k}/part-{n:05}.parquet", 1000, 1) for n in range(_FILES))
            yield FileBatch(file_batch((row, file) for file in files), ReadFormat.of("parquet"))


def run(sizes: Sizes, directory: Path) -> Result:
    del directory
    partitions = -(-sizes.handed_out // _FILES)
    many = f"coordinator, {sizes.readers} readers"
    contenders = [
        Contender(_ALONE, lambda: _enumerate(partitions)),
        Contender("coordinator, 1 reader", lambda: _hand_out(partitions, 1)),
        Contender(many, lambda: _hand_out(partitions, sizes.readers)),
    ]
    in_turns("warming up", contenders, min(sizes.warm_up, 1))
    measured = in_turns("coordinator", contenders, sizes.repeat)
    splits = partitions * _FILES
    comparison = Comparison(f"{splits:,} splits", "seconds", _ALONE, measured)
    per_lot = comparison[many].median * _PER_SECOND / splits
    target = Target(f"{many}, seconds for {_PER_SECOND:,}", per_lot, 1.0)
    return Result("coordinator", [comparison], [target])


def _enumerator(partitions: int) -> splitlib.DynamicFileEnumerator:
    table = splitlib.Table("in_memory", "memory", _Memory(partitions))
    return splitlib.DynamicFileEnumerator(table)


def _enumerate(partitions: int) -> Sample:
    splits: list[splitlib.FileSplit] = []
    sample = timed(lambda: splits.extend(_enumerator(partitions).enumerate_splits()))
    return sample._replace(counts={"splits": len(splits)})


def _hand_out(partitions: int, readers: int) -> Sample:
    with (
        DynamicFileSplitEnumerator(_enumerator(partitions)) as coordinator,
        ThreadPoolExecutor(readers) as pool,
    ):
        read: list[str] = []
        sample = timed(lambda: read.extend(_read_all(coordinator, readers, pool)))
    return sample._replace(counts={"splits": len(read), "different": len(set(read))})


def _read_all(
    coordinator: DynamicFileSplitEnumerator, readers: int, pool: ThreadPoolExecutor
) -> Iterator[str]:
    for read in pool.map(lambda reader: _read(coordinator, reader), range(readers)):
        yield from read


def _read(coordinator: DynamicFileSplitEnumerator, reader: int) -> list[str]:
    read: list[str] = []
    coordinator.register_reader(reader)
    while True:
        match coordinator.handle_split_request(reader):
            case AssignedSplit(split):
                coordinator.acknowledge([split], reader)
                read.append(split.split_id)
            case WaitForSplits(delay):
                time.sleep(delay)
            case _:
                return read
