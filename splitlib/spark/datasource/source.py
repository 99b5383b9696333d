"""``spark.read.format("splitlib")`` and ``spark.readStream.format("splitlib")``.

It uses Spark's public Python data source API alone, so that it works on Spark Connect too, and on
storage for which Spark has no driver. Where the native scan of :func:`splitlib.read` works, that is
faster.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from splitlib.reading.reader import refuse_unreadable
from splitlib.spark.datasource.options import ReadOptions
from splitlib.spark.datasource.plan import SplitPlanner, SplitsPartition
from splitlib.spark.datasource.schema import wanted_schema
from splitlib.spark.datasource.stream import StreamReader


class SplitlibDataSource(DataSource):
    """A table of any connector, read with Arrow on the executors.

    Options:
        table: The name, as for :func:`splitlib.load_table`; or give it to ``load``.
        connector: The table's connector; may be left out where the environment names the catalog.
        columns: Those to read, separated by commas; by default all. Spark does not tell a Python
            data source which columns a query needs.
        filter: Join keys, ``base64.b64encode(data.to_bytes())`` of a
            :class:`splitlib.DynamicFilteringData`; more of them as ``filter.2``, ``filter.3``, …
        timeZone: The session's time zone; needed for partition keys or filters of type timestamp.
        maxBytesPerTrigger: Of a stream (``1g``).
        storage.NAME: Options of the fsspec filesystem.

    Further options are the settings of :class:`splitlib.SplitConfig`, in camel case as in
    ``targetSplitBytes``, and those of the connector.
    """

    # Not implemented: pushFilters. Spark keeps the partitions that it leaves with the loaded
    # DataFrame, not with the query: after `loaded.where("k = 1")`, `loaded` itself would have no
    # other rows. The method is also an error wherever its setting is off, as it is by default.

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._is_planned = False
        self._options = ReadOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "splitlib"

    def schema(self) -> StructType:
        """The columns as ``spark.table`` shows them.

        Raises:
            UnsupportedTable: if its rows would not be exactly those of Spark's own reader.
        """
        with self._options.open() as table:
            refuse_unreadable(table.metadata.read_format)
            return wanted_schema(table, self._options.columns)

    def reader(self, schema: StructType) -> BatchReader:
        """A reader for one DataFrame."""
        self._is_planned = True
        return BatchReader(self._options, schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """A reader for one streaming query."""
        self._is_planned = True
        return StreamReader(self._options, schema)

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends it to every task along with its reader, and asks only for its name there.
        return {} if self._is_planned else self.__dict__


class BatchReader(SplitPlanner, DataSourceReader):
    """Reads all splits at once."""

    def partitions(self) -> list[SplitsPartition]:
        """The tasks. Spark asks once for each DataFrame, which pins what it reads."""
        return self.tasks(self.plan())
