"""List the files of partitions whose location and format come from a catalog."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import UnsupportedTable
from splitlib.hive.table_formats import is_read_by_hive, is_recursive
from splitlib.model import FileBatch, ReadFormat, Requests
from splitlib.storage import Storage, local_path, of_rows

REF: Final = pa.struct([("location", pa.string()), ("read_format", pa.int32())])
"""Type of a partition's handle: its location, and the number of its read format."""


class PartitionFiles:
    """Lists files, and makes the handles of partitions. Thread-safe.

    Args:
        storage: The storage of the partitions.
        location: Location of the table; None if it has none.
        below: Whether files in subdirectories belong to a partition, whatever Spark does.
    """

    def __init__(self, storage: Storage, location: str | None, *, below: bool = False) -> None:
        self._storage = storage
        self._below = below
        self.files_per_page = storage.files_per_page(location) if location else 0
        """See :attr:`splitlib.spi.Connector.files_per_page`."""
        # Handles store an index in this list, because nearly all partitions share one format.
        self._formats: list[ReadFormat] = []
        self._lock = threading.Lock()

    def ref(self, location: str | None, form: ReadFormat) -> dict[str, Any]:
        """Return the handle of a partition, as a value of type :data:`REF`."""
        return {"location": location, "read_format": self.number(form)}

    def number(self, form: ReadFormat) -> int:
        """Return the number that stands for a read format in handles."""
        with self._lock:
            if form not in self._formats:
                self._formats.append(form)
            return self._formats.index(form)

    def list_files(self, refs: pa.StructArray) -> Iterator[FileBatch]:
        """Yield the files of some partitions, in one batch per read format.

        Args:
            refs: Handles of the partitions.

        Raises:
            MissingPartition: if a partition's directory does not exist.
            UnsupportedTable: for a file in a subdirectory, if Spark uses Hive's reader.
        """
        numbers = refs.field("read_format")
        distinct = pc.unique(numbers).to_pylist()
        if self.files_per_page and len(distinct) == 1:
            form = self._formats[distinct[0]]
            locations = refs.field("location").to_pylist()
            below = self._below or is_recursive(form) or is_read_by_hive(form)
            files, requests, listed = self._storage.list_first(locations, below=below)
            self._refuse_below(files, locations, form)
            took = Requests(storage=requests)
            yield FileBatch(files, form, took, partitions_listed=listed)
            return
        for number in distinct:
            rows = pc.indices_nonzero(pc.equal(numbers, number))
            locations = refs.field("location").take(rows).to_pylist()
            form = self._formats[number]
            below = self._below or is_recursive(form) or is_read_by_hive(form)
            files, requests = self._storage.list_files(locations, below=below)
            self._refuse_below(files, locations, form)
            yield FileBatch(of_rows(files, rows), form, Requests(storage=requests))

    def _refuse_below(
        self, files: pa.RecordBatch, locations: Sequence[str], form: ReadFormat
    ) -> None:
        """Reject files in subdirectories of a partition if Spark uses Hive's reader.

        Hive's reader fails on subdirectories.

        Raises:
            UnsupportedTable: if there is such a file; the message names it.
        """
        if self._below or not is_read_by_hive(form):
            return  # Spark's own readers follow the table's setting for subdirectories
        depths = pa.array([local_path(each).rstrip("/").count("/") + 1 for each in locations])
        slashes = pc.count_substring(files["path"], "/")
        below = files["path"].filter(pc.not_equal(slashes, depths.take(files["partition"])))
        if len(below):
            raise UnsupportedTable(
                f"File {below[0].as_py()!r} lies in a directory below its partition, where Spark "
                "fails and Hive on Tez reads it.",
                hint="move it up, or query the table with splitlib.sql in a session that sets "
                "mapreduce.input.fileinputformat.input.dir.recursive.",
            )
