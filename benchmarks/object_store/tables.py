"""The table to list, its matching partitions, and the fewest requests that list them."""

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
"""Number of files in each partition."""
PAGE = 1000
"""Maximum number of object keys in one listing response."""
_PARQUET = ReadFormat.of("parquet")


class Case(NamedTuple):
    """A set of matching partitions, given by ascending numbers."""

    name: str
    matching: Sequence[int]


def cases(partitions: int, named: str = "") -> list[Case]:
    """Return cases in which 0.1%, 3%, 50%, 99% and 100% of the partitions match.

    Except for 100%, there are two cases each. In the first, the matching partitions are adjacent.
    In the second, they are evenly spaced.

    Args:
        partitions: Number of partitions of the table.
        named: Text that the names of the returned cases must contain.
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
    """Return a partition's directory. Its number is padded, so that keys sort by number."""
    return f"t/k={partition:05}"


def objects_of(partitions: int) -> dict[str, bytes]:
    """Return the table's small Parquet files, by object key."""
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array([1], pa.int64())}), buffer)
    return {
        f"{directory_of(k)}/part-{n}.parquet": buffer.getvalue()
        for k in range(partitions)
        for n in range(FILES)
    }


def first_of_pages(matching: Sequence[int]) -> list[int]:
    """Return the first partition of each page, for the fewest pages with all matching files.

    A request lists up to 1,000 object keys in byte order, and may start after any key. So a page
    covers 1000 / ``FILES`` consecutive partitions. The next page starts with the next matching
    partition. There cannot be fewer pages, because each page starts as late as possible.
    """
    pages, reached = [], -1
    for k in matching:
        if k > reached:
            pages.append(k)
            reached = k + PAGE // FILES - 1
    return pages


class KnownPartitions(Connector):
    """A connector with its partitions in memory, so that only the listing takes time.

    Args:
        root: URL of the table's directory.
        partitions: Number of partitions.
        storage: Storage that lists the directories.
        files_each: Files per partition according to statistics; 0 means no statistics.
    """

    def __init__(self, root: str, partitions: int, storage: Storage, files_each: float) -> None:
        self._root = root
        self._partitions = partitions
        self._storage = storage
        self._files_each = files_each
        self.files_per_page = storage.files_per_page(root)

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Not supported: the benchmark creates the connector directly."""
        raise NotImplementedError(name)

    def describe(self) -> TableMetadata:
        """Return the table's schema, partition key and format."""
        schema = pa.schema([("a", pa.int64()), ("k", pa.int32())])
        return TableMetadata(schema, ("k",), _PARQUET)

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield all partitions in one batch."""
        numbers = pa.array(range(self._partitions), pa.int32())
        values = pa.record_batch({"k": numbers})
        yield PartitionBatch(values, numbers, files_each=self._files_each)

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """List the files of the first partitions, as many as one listing page covers."""
        locations = [f"{self._root}/k={k:05}" for k in partitions.refs.to_pylist()]
        files, requests, listed = self._storage.list_first(locations)
        took = Requests(storage=requests)
        yield FileBatch(files, _PARQUET, took, partitions_listed=listed)
