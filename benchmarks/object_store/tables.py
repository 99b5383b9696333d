"""The table that is listed, which of its partitions match, and the least requests for those."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from splitlib.filtering.predicate import Predicate
from splitlib.model import FileBatch, PartitionBatch, ReadFormat, Requests, TableMetadata
from splitlib.spi import Connector
from splitlib.storage import Storage

FILES = 2
"""Of each partition."""
PAGE = 1000
"""Keys that one request lists at most."""
_PARQUET = ReadFormat.of("parquet")


class Case(NamedTuple):
    """Partitions that match, by their number, ascending."""

    name: str
    matching: Sequence[int]


def cases(partitions: int, named: str = "") -> list[Case]:
    """10, 300, half, all but 1 in 100, and all of 10,000; neighbours, and spread evenly.

    Args:
        partitions: Of the table.
        named: Only those with this in their name.
    """
    found = []
    for part in (1000, 33.34, 2, 1 / 0.99):
        count = max(1, round(partitions / part))
        first = (partitions - count) // 2
        spread = sorted({k * partitions // count for k in range(count)})
        found.append(Case(f"{count:,} neighbours", range(first, first + count)))
        found.append(Case(f"{count:,} scattered", spread))
    found.append(Case(f"all {partitions:,}", range(partitions)))
    return [case for case in found if named in case.name]


def directory_of(partition: int) -> str:
    """The directory of a partition: all of one length, so that their order is that of numbers."""
    return f"t/k={partition:05}"


def objects_of(partitions: int) -> dict[str, bytes]:
    """Small Parquet files by key."""
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array([1], pa.int64())}), buffer)
    return {
        f"{directory_of(k)}/part-{n}.parquet": buffer.getvalue()
        for k in range(partitions)
        for n in range(FILES)
    }


def first_of_pages(matching: Sequence[int]) -> list[int]:
    """The partitions with which pages begin, if there are as few as S3 permits.

    A request lists up to 1,000 keys in the order of their bytes, from any key on. So a page that
    begins with a partition tells all files of those up to 1000 / ``FILES`` places after it, and
    the next page begins with the first that matches after those. No way needs fewer: each page
    reaches as far as it can, and none begins before it has to.
    """
    pages, reached = [], -1
    for k in matching:
        if k > reached:
            pages.append(k)
            reached = k + PAGE // FILES - 1
    return pages


class KnownPartitions(Connector):
    """A catalog in memory, as fast as one can be: what is measured is the listing alone.

    Args:
        root: URL of the table's directory.
        partitions: How many it has.
        storage: What lists them.
        files_each: What statistics say of how many files a partition has; 0 = there are none.
    """

    def __init__(self, root: str, partitions: int, storage: Storage, files_each: float) -> None:
        self._root = root
        self._partitions = partitions
        self._storage = storage
        self._files_each = files_each
        self.files_per_page = storage.files_per_page(root)

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Not by name: it is made by the benchmark."""
        raise NotImplementedError(name)

    def describe(self) -> TableMetadata:
        """See :meth:`Connector.describe`."""
        schema = pa.schema([("a", pa.int64()), ("k", pa.int32())])
        return TableMetadata(schema, ("k",), _PARQUET)

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """See :meth:`Connector.list_partitions`."""
        numbers = pa.array(range(self._partitions), pa.int32())
        values = pa.record_batch({"k": numbers})
        yield PartitionBatch(values, numbers, files_each=self._files_each)

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """See :meth:`Connector.list_files`."""
        locations = [f"{self._root}/k={k:05}" for k in partitions.refs.to_pylist()]
        files, requests, listed = self._storage.list_first(locations)
        took = Requests(storage=requests)
        yield FileBatch(files, _PARQUET, took, partitions_listed=listed)
