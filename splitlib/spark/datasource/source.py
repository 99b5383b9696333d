"""``spark.read.format("splitlib")`` and ``spark.readStream.format("splitlib")``.

It uses Spark's public Python data source API alone, so that it works on Spark Connect too, and on
storage for which Spark has no driver. Where the native scan of :func:`splitlib.read` works, that is
faster.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from splitlib.reading.reader import refuse_unreadable
from splitlib.reading.row_groups import RowGroupFilter
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

    # Spark calls `schema` and `reader` in processes of two daemons (measured with 4.0 and 4.3), and
    # plans a DataFrame more than once, in 4.0 for each query, elsewhere for a self-join. A
    # connection cannot go from one to the other, so each opens the table, and closes it. Opened
    # anew, it also shows whether it has been altered since. To enumerate it in `schema` already
    # would list it for DataFrames that are never read, and twice for streams. Where the user gives
    # the schema, only the reader opens it.

    # Not implemented: pushFilters. Spark keeps the partitions that it leaves with the loaded
    # DataFrame, not with the query: after `loaded.where("k = 1")`, `loaded` itself would have no
    # other rows. The method is also an error wherever its setting is off, as it is by default.

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._is_planned = False
        self._filtered_columns: pa.Schema | None = None
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
            # pickled with the data source, it comes to the reader of a stream
            filters = RowGroupFilter(table.metadata.data_schema, self._options.filters_in_zone())
            self._filtered_columns = filters.columns
            return wanted_schema(table, self._options.columns)

    def reader(self, schema: StructType) -> BatchReader:
        """A reader for one DataFrame."""
        self._is_planned = True
        return BatchReader(self._options, schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """A reader for one streaming query."""
        self._is_planned = True
        return StreamReader(self._options, schema, self._filtered_columns)

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends it to every task along with its reader, and asks only for its name there.
        return {} if self._is_planned else self.__dict__


class BatchReader(SplitPlanner, DataSourceReader):
    """Reads all splits at once. Spark makes one whenever it plans, which pins what is read."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        # at once: the row groups are asked for before the partitions, by the same process
        self._splits, self._row_groups = self.plan()

    def row_groups(self) -> RowGroupFilter:
        """Which row groups are read of each file."""
        return self._row_groups

    def partitions(self) -> list[SplitsPartition]:
        """The tasks."""
        return self.tasks(self._splits)
