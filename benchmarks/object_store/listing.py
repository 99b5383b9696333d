"""Two contenders: splitlib, and obstore alone, which lists as few pages as possible."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import obstore
import pyarrow as pa

import splitlib
from benchmarks.object_store.servers import BUCKET, obstore_of, storage_options
from benchmarks.object_store.tables import (
    FILES,
    PAGE,
    KnownPartitions,
    directory_of,
    first_of_pages,
)
from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.storage import Storage
from splitlib.table import Table


class Enumeration:
    """Selects files with splitlib. The table is open before :meth:`run`, which is measured.

    Args:
        endpoint: URL of the store.
        partitions: Number of partitions of the table.
        matching: Numbers of the partitions that match the filter.
        files_each: Files per partition according to statistics; 0 means no statistics.
    """

    def __init__(
        self, endpoint: str, partitions: int, matching: Sequence[int], files_each: float
    ) -> None:
        storage = Storage(storage_options(endpoint))
        connector = KnownPartitions(f"s3://{BUCKET}/t", partitions, storage, files_each)
        config = SplitConfig()
        self.threads = config.listing_threads
        self.enumerator = DynamicFileEnumerator(Table("t", "benchmark", connector), config)
        if len(matching) < partitions:
            keys = pa.table({"k": pa.array(matching, pa.int32())})
            data = splitlib.DynamicFilteringData.from_arrow(keys)
            self.enumerator.set_dynamic_filtering_data(data)
        self._expected = FILES * len(matching)

    def run(self) -> None:
        """Select the matching files.

        Raises:
            RuntimeError: The number of files is wrong.
        """
        found = sum(len(selected.files) for selected in self.enumerator.select_files())
        _check(found, self._expected)


class BareListing:
    """Lists as few pages as possible with obstore. :meth:`run` is measured.

    Args:
        endpoint: URL of the store.
        matching: Numbers of the partitions to list.
        threads: Number of threads.
    """

    def __init__(self, endpoint: str, matching: Sequence[int], threads: int) -> None:
        self._store = obstore_of(endpoint)
        self._pages = first_of_pages(matching)
        self._expected = FILES * len(matching)
        self._threads = threads

    def run(self) -> None:
        """List the pages.

        Raises:
            RuntimeError: The pages have fewer files than the matching partitions.
        """
        with ThreadPoolExecutor(self._threads) as pool:
            found = sum(pool.map(self._page, self._pages))
        _check(min(found, self._expected), self._expected)

    def _page(self, first: int) -> int:
        after = f"{directory_of(first)}."
        pages = obstore.list(self._store, "t", offset=after, chunk_size=PAGE, return_arrow=True)
        return len(pa.record_batch(next(pages)))


def _check(found: int, expected: int) -> None:
    if found != expected:
        raise RuntimeError(f"{found} files instead of {expected}")
