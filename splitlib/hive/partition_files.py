"""The files of partitions in a Hive metastore or Glue."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import UnsupportedTable
from splitlib.hive.entries import is_read_by_hive, is_recursive
from splitlib.model import FileBatch, ReadFormat, Requests
from splitlib.storage import Storage, local_path, of_rows

REF: Final = pa.struct([("location", pa.string()), ("read_format", pa.int32())])
"""Arrow type of a partition's handle: its location, and the number of its read format."""


def without_hidden(files: pa.RecordBatch) -> pa.RecordBatch:
    """Remove files such as ``_a=b`` from a listing. Hive's reader skips them, unlike Spark's."""
    return files.filter(pc.invert(pc.match_substring_regex(files["path"], "/_[^/]*$")))


class PartitionFiles:
    """Lists the files of partitions, and creates partition handles. Thread-safe.

    Args:
        storage: Storage that contains the partitions.
        location: Table location; None if the table has none.
        is_partitioned: Whether the table has partition columns.
        below: Whether files in subdirectories belong to a partition even if Spark would not read
            them, as in Athena.
    """

    def __init__(
        self,
        storage: Storage,
        location: str | None,
        *,
        is_partitioned: bool,
        below: bool = False,
    ) -> None:
        self._storage = storage
        self._is_partitioned = is_partitioned
        self._below = below
        self.files_per_page = storage.files_per_page(location) if location else 0
        """See :attr:`splitlib.spi.Connector.files_per_page`."""
        # Handles store an index into this list, because nearly all partitions share one format.
        self._formats: list[ReadFormat] = []
        self._lock = threading.Lock()

    def ref(self, location: str | None, form: ReadFormat) -> dict[str, Any]:
        """Return a partition's handle, as a dict with the fields of the type :data:`REF`."""
        return {"location": location, "read_format": self.number(form)}

    def number(self, form: ReadFormat) -> int:
        """Return a read format's index in the list of formats. Unknown formats are added to it."""
        with self._lock:
            if form not in self._formats:
                self._formats.append(form)
            return self._formats.index(form)

    def list_files(self, refs: pa.StructArray) -> Iterator[FileBatch]:
        """Yield the files of some partitions, in one batch per read format.

        Args:
            refs: Partition handles.

        Raises:
            MissingPartition: if a partition's directory does not exist.
            UnsupportedTable: for a file in a subdirectory, if Spark uses Hive's reader, or might
                infer partition columns from the names of subdirectories.
        """
        numbers = refs.field("read_format")
        distinct = pc.unique(numbers).to_pylist()
        for number in distinct:
            rows = pc.indices_nonzero(pc.equal(numbers, number))
            locations = refs.field("location").take(rows).to_pylist()
            form, listed = self._formats[number], None
            is_read = self._below or is_recursive(form)
            # Files in subdirectories that Spark does not read are also listed if they may be a
            # reason to reject the table. `_directly_in` rejects the table, or drops these files.
            below = is_read or is_read_by_hive(form) or not self._is_partitioned
            if self.files_per_page and len(distinct) == 1:
                files, requests, listed = self._storage.list_first(locations, below=below)
            else:
                files, requests = self._storage.list_files(locations, below=below)
            if is_read_by_hive(form):
                files = without_hidden(files)
            if below and not is_read:
                files = self._directly_in(locations, files, form)
            files = of_rows(files, rows)
            yield FileBatch(files, form, Requests(storage=requests), partitions_listed=listed)

    def _directly_in(
        self, locations: Sequence[str], files: pa.RecordBatch, form: ReadFormat
    ) -> pa.RecordBatch:
        """Return the files that lie directly in a partition's directory.

        Raises:
            UnsupportedTable: for a file in a subdirectory that Spark might read, or that makes
                Hive's reader fail.
        """
        depths = pa.array([local_path(each).rstrip("/").count("/") + 1 for each in locations])
        slashes = pc.count_substring(files["path"], "/")
        is_inside = pc.equal(slashes, depths.take(files["partition"]))
        below = files["path"].filter(pc.invert(is_inside))
        if is_read_by_hive(form) and len(below):
            raise UnsupportedTable(
                f"File {below[0].as_py()!r} lies in a directory below its partition. Hive on Tez "
                "reads such files, but Spark raises an error.",
                hint="move it up, or query the table with splitlib.sql in a session that sets "
                "mapreduce.input.fileinputformat.input.dir.recursive.",
            )
        # At this point, the table has no partition columns. So it has only one location.
        like_key = rf"^(?:[^/]*/){{{depths[0].as_py()}}}(?:[^/]*/)*[^/]*=[^/]*/"
        keys = below.filter(pc.match_substring_regex(below, like_key))
        if len(keys):
            raise UnsupportedTable(
                f"File {keys[0].as_py()!r} lies in a subdirectory that may be a partition, but the "
                "table has no partition columns. Spark would infer them from the directory names.",
                hint="use connector='files' with the table's directory.",
            )
        return files.filter(is_inside)
