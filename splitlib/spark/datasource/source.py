"""The data source for ``spark.read`` and ``spark.readStream`` with ``format("splitlib")``.

It uses only Spark's public Python API. So it also works on Spark Connect, and with storage that
Spark itself cannot access. If a session can use :func:`splitlib.read`, that function is faster.
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
    """Data source for a table of any connector. The executors read its files with Arrow.

    Options:
        table: Name of the table, as for :func:`splitlib.load_table`. It can also be passed to
            ``load``.
        connector: Connector of the table. It may be omitted if environment variables configure
            the catalog.
        columns: Names of the columns to read, separated by commas; by default all columns. Spark
            does not pass the columns of a query to a Python data source.
        filter: Join keys, as ``base64.b64encode(data.to_bytes()).decode()`` for a
            :class:`splitlib.DynamicFilteringData`. Further filters are ``filter.2``,
            ``filter.3``, …
        timeZone: Time zone of the session; needed if partition keys or filters are timestamps.
        maxBytesPerTrigger: Maximum size of a micro-batch of a stream, such as ``512m``; by default
            ``1g``.
        storage.NAME: Option NAME of the fsspec filesystem.

    Further options are the settings of :class:`splitlib.SplitConfig`, in camel case such as
    ``targetSplitBytes``, and the options of the connector.
    """

    # Spark calls `schema` and `reader` in two separate processes (measured with 4.0 and 4.3). Spark
    # 4.0 plans a DataFrame again for each query, later versions do so for self-joins. Processes
    # cannot share a connection, so each method opens and closes the table. This also detects that
    # the table was altered in between. `schema` does not list files, since a DataFrame may never be
    # read, and a stream would list its files twice. If the user passes the schema, Spark does not
    # call `schema`, and only the reader opens the table.

    # `pushFilters` is not implemented. Spark would store the remaining partitions with the loaded
    # DataFrame instead of the query: after `loaded.where("k = 1")`, `loaded` itself would lose its
    # other rows. Spark also raises an error for the method if its setting is off, the default.

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
        """Return the columns, with the types that ``spark.table`` would have.

        Raises:
            UnsupportedTable: if the rows might differ from those of Spark's own reader.
        """
        with self._options.open() as table:
            refuse_unreadable(table.metadata.read_format)
            # The reader of a stream needs these columns. It gets them because Spark pickles the
            # data source with all its attributes.
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
    """Reads all splits of a table in one batch.

    Spark creates a reader for each plan. The files to read are fixed at that time.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        # Plan the splits here, since Spark pickles the reader, and so calls `row_groups`, before
        # it calls `partitions`.
        self._splits, self._row_groups = self.plan()

    def row_groups(self) -> RowGroupFilter:
        """Return the filter that selects the row groups to read in each file."""
        return self._row_groups

    def partitions(self) -> list[SplitsPartition]:
        """Return the tasks of the DataFrame."""
        return self.tasks(self._splits)
