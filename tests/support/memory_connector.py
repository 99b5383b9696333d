"""In-memory tables that record every call.

The test chooses how many partitions and files they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import pyarrow as pa

from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.filtering.predicate import Predicate
from splitlib.model import FileBatch, FileSplit, PartitionBatch, ReadFormat, Requests, TableMetadata
from splitlib.spi import Connector
from splitlib.storage import StoredFile, file_batch
from splitlib.table import Table

PARQUET = ReadFormat.of("parquet")


class MemoryConnector(Connector):
    """A table with the data column ``a`` and the partition key ``k``.

    Attributes:
        listed: Partitions whose files were listed, in order.
        batches: Number of batches of partitions that were listed.
    """

    def __init__(
        self,
        partitions: int | Sequence[PartitionBatch] = 10,
        files: int = 2,
        *,
        size: int = 10,
        batch: int = 100,
        snapshot: str | None = None,
        on_list: Callable[[int], object] = lambda k: None,
        on_call: Callable[[str], object] = lambda method: None,
    ) -> None:
        """Create a table with the partitions ``k=0``, ``k=1`` and so on.

        Args:
            partitions: Number of partitions, or the batches of partitions to list.
            files: Number of files in each partition. They are listed in reverse order of names.
            size: Size of each file in bytes.
            batch: Number of partitions in a batch.
            snapshot: Id of the snapshot that the table is pinned to.
            on_list: Function that is called with each partition before its files are listed. It
                may block or raise an error.
            on_call: Function that is called with the method's name before each simulated call to
                the catalog or storage.
        """
        self.partitions, self.files, self.size, self.batch = partitions, files, size, batch
        self.snapshot, self.on_list, self.on_call = snapshot, on_list, on_call
        self.listed: list[int] = []
        self.batches = 0

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        return cls()

    def describe(self) -> TableMetadata:
        schema = pa.schema([("a", pa.int64()), ("k", pa.int32())])
        return TableMetadata(schema, ("k",), PARQUET, snapshot_id=self.snapshot)

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        for batch in self._batches():
            self.on_call("list_partitions")
            self.batches += 1
            yield batch

    def _batches(self) -> Iterator[PartitionBatch]:
        if not isinstance(self.partitions, int):
            yield from self.partitions
            return
        for start in range(0, self.partitions, self.batch):
            texts = [str(k) for k in range(start, min(start + self.batch, self.partitions))]
            values = pa.record_batch({"k": texts})
            yield PartitionBatch(values, pa.array(texts), Requests(catalog=1))

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        self.on_call("list_files")
        for row, k in enumerate(partitions.refs.to_pylist()):
            self.listed.append(int(k))
            self.on_list(int(k))
            names = [f"/t/k={k}/{n:05}" for n in reversed(range(self.files))]
            files = file_batch((row, StoredFile(name, self.size, 1)) for name in names)
            yield FileBatch(files, PARQUET, Requests(storage=1))


class DetailedConnector(MemoryConnector):
    """A table that loads partition details separately, for four partitions at a time.

    Attributes:
        dropped: Partitions that no longer exist when their details are loaded.
        detailed: Partitions whose details were requested, in order.
    """

    partitions_per_details = 4

    def __init__(
        self,
        partitions: int | Sequence[PartitionBatch] = 10,
        *args: Any,
        dropped: Sequence[int] = (),
        **more: Any,
    ) -> None:
        super().__init__(partitions, *args, **more)
        self.dropped = dropped
        self.detailed: list[int] = []

    def load_details(self, partitions: PartitionBatch) -> PartitionBatch:
        self.on_call("load_details")
        names = [int(k) for k in partitions.refs.to_pylist()]
        self.detailed += names
        keep = [row for row, k in enumerate(names) if k not in self.dropped]
        kept = partitions.take(pa.array(keep, pa.int64()))
        return PartitionBatch(kept.values, kept.refs, Requests(catalog=1))


def enumerator_of(connector, name="t", **config) -> DynamicFileEnumerator:
    return DynamicFileEnumerator(Table(name, "memory", connector), SplitConfig(**config))


def ks(splits: Iterable[FileSplit]) -> list[Any]:
    """Return the partition value ``k`` of each split."""
    return [split.partition_values["k"] for split in splits]
