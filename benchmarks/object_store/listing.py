"""splitlib's listing, and obstore's alone: the same pages, asked for as directly as can be."""

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
    """splitlib's, of a table that is open; :meth:`run` is what is measured.

    Args:
        endpoint: Of the store.
        partitions: How many the table has.
        matching: Those that the filter keeps.
        files_each: See :class:`KnownPartitions`.
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
        """Select the files.

        Raises:
            RuntimeError: if they are not as many as match.
        """
        found = sum(len(selected.files) for selected in self.enumerator.select_files())
        _check(found, self._expected)


class BareListing:
    """obstore's, of the least pages, in as many threads as splitlib has; nothing is kept.

    Args:
        endpoint: Of the store.
        matching: The partitions that are listed.
        threads: How many.
    """

    def __init__(self, endpoint: str, matching: Sequence[int], threads: int) -> None:
        self._store = obstore_of(endpoint)
        self._pages = first_of_pages(matching)
        self._expected = FILES * len(matching)
        self._threads = threads

    def run(self) -> None:
        """List the pages.

        Raises:
            RuntimeError: if they have fewer files than match.
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
