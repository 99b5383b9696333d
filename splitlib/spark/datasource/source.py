"""``spark.read.format("splitlib")`` and ``spark.readStream.format("splitlib")``.

The data source uses only Spark's public Python API. So it also works on Spark Connect, and with
storage for which Spark has no driver. :func:`splitlib.read` is faster where it can be used.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from splitlib.reading.formats import RowGroupFilter
from splitlib.reading.reader import refuse_unreadable
from splitlib.spark.datasource.options import ReadOptions, wanted_schema
from splitlib.spark.datasource.plan import SplitPlanner, SplitsPartition
from splitlib.spark.datasource.stream import StreamReader


class SplitlibDataSource(DataSource):
    """A table of any connector. The executors read its files with Arrow.

    Options:
        table: Name of the table, as for :func:`splitlib.load_table`. It can also be passed to
            ``load``.
        connector: Connector of the table. It may be omitted where the environment configures
            the catalog.
        columns: Names of the columns to read, separated by commas; by default all columns. Spark
            does not pass the columns of a query to a Python data source.
        filter: Join keys: ``base64.b64encode(data.to_bytes())`` of a
            :class:`splitlib.DynamicFilteringData`. Further filters are ``filter.2``,
            ``filter.3``, …
        timeZone: Time zone of the session; needed for partition keys or filters of type
            timestamp.
        maxBytesPerTrigger: Maximum size of a micro-batch of a stream (``1g``).
        storage.NAME: Option NAME of the fsspec filesystem.

    Further options are the settings of :class:`splitlib.SplitConfig`, in camel case such as
    ``targetSplitBytes``, and the options of the connector.
    """

    # Spark calls `schema` and `reader` in two separate daemon processes (measured with 4.0 and
    # 4.3). It also plans a DataFrame more than once: for each query in 4.0, for self-joins in
    # later versions. Processes cannot share a connection, so each method opens and closes the
    # table. Reopening also shows whether the table was altered in between. `schema` does not
    # enumerate: that would list files for DataFrames that are never read, and twice for streams.
    # If the user passes the schema, only the reader opens the table.

    # Not implemented: pushFilters. Spark stores the remaining partitions with the loaded DataFrame,
    # not with the query: after `loaded.where("k = 1")`, `loaded` itself would lose its other rows.
    # The method is also an error where its setting is off, which is the default.

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._is_planned = False
        self._filtered_columns: pa.Schema | None = None
        self._options = ReadOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "splitlib"

    def schema(self) -> StructType:
        """Return the columns, with the types of ``spark.table``.

        Raises:
            UnsupportedTable: if the rows might differ from those of Spark's own reader.
        """
        with self._options.open() as table:
            refuse_unreadable(table.metadata.read_format)
            # The reader of a stream needs these columns. Spark pickles them with the data source.
            filters = RowGroupFilter(table.metadata.data_schema, self._options.filters_in_zone())
            self._filtered_columns = filters.columns
            return wanted_schema(table, self._options.columns)

    def reader(self, schema: StructType) -> BatchReader:
        """Return a reader for one DataFrame."""
        self._is_planned = True
        return BatchReader(self._options, schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Return a reader for one streaming query."""
        self._is_planned = True
        return StreamReader(self._options, schema, self._filtered_columns)

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends the data source to every task with its reader, but uses only its name there.
        return {} if self._is_planned else self.__dict__


class BatchReader(SplitPlanner, DataSourceReader):
    """Reads all splits at once. Spark makes a reader per plan, which fixes the files to read."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        # Plan now: the same process calls `row_groups` before `partitions`.
        self._splits, self._row_groups = self.plan()

    def row_groups(self) -> RowGroupFilter:
        """Return the filter that selects the row groups to read in each file."""
        return self._row_groups

    def partitions(self) -> list[SplitsPartition]:
        """Return the tasks of the DataFrame."""
        return self.tasks(self._splits)
