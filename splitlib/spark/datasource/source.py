"""The data source for ``spark.read`` and ``spark.readStream`` with ``format("splitlib")``.

It uses only Spark's public Python API. So it also works on Spark Connect, and with storage that
Spark itself cannot access. In sessions that support :func:`splitlib.read`, that function is faster.

A stream is finite: each micro-batch reads the next splits of an ordered list. An offset is a
position in this list, with a fingerprint of all splits before the position. After a restart, the
splits are listed again, and the fingerprint shows whether the splits before the position have
changed. Offsets must be small, because Spark writes one for every micro-batch and compares them as
text. Therefore the coordinator's checkpoints
(:meth:`splitlib.DynamicFileSplitEnumerator.snapshot_state`), which grow with the table, are not
used as offsets.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from splitlib.errors import ConfigError, SourceError
from splitlib.reading.formats import RowGroupFilter
from splitlib.reading.reader import refuse_unreadable
from splitlib.redaction import get_logger
from splitlib.remote.calls import cached_property
from splitlib.spark.datasource.plan import (
    ReadOptions,
    SplitPlanner,
    SplitsPartition,
    wanted_schema,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.streaming.datasource import (
        ReadLimit,
        ReadMaxBytes,
        SupportsTriggerAvailableNow,
    )

    from splitlib.model import FileSplit
else:
    try:
        from pyspark.sql.streaming.datasource import ReadMaxBytes, SupportsTriggerAvailableNow
    except ImportError:
        # Spark before 4.2 does not limit the size of micro-batches or pass their start offsets.
        ReadMaxBytes, SupportsTriggerAvailableNow = (), object

_log = get_logger(__name__)


class StreamReader(SplitPlanner, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads splits in micro-batches of at most ``maxBytesPerTrigger``.

    A larger split becomes a micro-batch of its own. Spark before 4.2 does not pass the start of a
    micro-batch, so in these versions all splits form one micro-batch.
    """

    def __init__(
        self, options: ReadOptions, schema: StructType, filtered_columns: pa.Schema | None
    ) -> None:
        """Create the reader without opening the table.

        Args:
            options: The data source options.
            schema: The columns to read.
            filtered_columns: Columns that :class:`RowGroupFilter` may test, or None if they are
                unknown because the user passed a schema.
        """
        # The splits must be the same after a restart. So do not prune by footer statistics, which
        # depend on the footers that this process has already read.
        config = replace(options.config, learn_statistics=False)
        super().__init__(replace(options, config=config), schema)
        self._max_bytes: Final = options.max_bytes_per_trigger
        self._filtered_columns = filtered_columns
        self._ends = False
        """Whether Spark stops the query after the last split."""
        self._returned_all = False
        """Whether the last offset was returned to a Spark version that does not pass ``start``."""
        self._noted_the_end = False

    def row_groups(self) -> RowGroupFilter:
        """Return the filter that selects the row groups to read in each file.

        Spark pickles the reader in a process that does not plan splits, so this method does not
        plan splits. It opens the table only to look up the columns of the filters, if the user
        passed a schema.
        """
        filters = self._options.filters_in_zone()
        columns = self._filtered_columns
        if columns is None and filters:
            with self._options.open() as table:
                columns = table.metadata.data_schema
        return RowGroupFilter(columns or pa.schema([]), filters)

    @cached_property
    def _splits(self) -> list[FileSplit]:
        splits, row_groups = self.plan()
        if self._filtered_columns not in (None, row_groups.columns):
            # Executors have the old column types, which may not match the files' statistics.
            raise ConfigError(
                "Columns that the filters use were altered after the stream was created.",
                hint="load the table again.",
            )
        return splits

    @cached_property
    def _fingerprints(self) -> list[str]:
        """A list of fingerprints, in which item N covers the first N splits."""
        digest = blake2b(digest_size=16)
        fingerprints = [digest.hexdigest()]
        for split in self._splits:
            digest.update(f"{split.split_id} {split.file_size} {split.modified}\n".encode())
            fingerprints.append(digest.hexdigest())
        return fingerprints

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset before the first split."""
        return self._offset(0)

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end offset of the next micro-batch.

        Raises:
            SourceError: if the splits before ``start`` differ from those that were read earlier.
        """
        if start is None or not isinstance(limit, ReadMaxBytes):
            if self._returned_all:
                self._note_the_end()
            self._returned_all = True
            return self._offset(len(self._splits))
        first = end = self._position(start)
        if first == len(self._splits):
            self._note_the_end()
        left = limit.max_bytes
        while end < len(self._splits) and (end == first or self._splits[end].length <= left):
            left -= self._splits[end].length
            end += 1
        return self._offset(end)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the maximum size of a micro-batch, from the option ``maxBytesPerTrigger``."""
        return ReadMaxBytes(self._max_bytes)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset after the last split."""
        return self._offset(len(self._splits))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember that Spark stops the query after the last split.

        The end of the list need not be stored, because the splits are listed only once.
        """
        self._ends = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[SplitsPartition]:
        """Return the tasks of one micro-batch.

        Raises:
            SourceError: if the table's splits have changed since the offsets were created.
        """
        return self.tasks(self._splits[self._position(start) : self._position(end)])

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing, because the reader keeps no state for micro-batches."""

    def stop(self) -> None:
        """Do nothing, because the table is open only while splits are planned."""

    def _note_the_end(self) -> None:
        """Log once that all splits have been read, unless Spark stops the query by itself."""
        if not (self._ends or self._noted_the_end):
            self._noted_the_end = True
            _log.warning(
                "The stream has read all %d splits of %s. It does not look for new files, so no "
                "more rows will come. Stop the query, or start it with trigger(availableNow=True), "
                "which stops by itself.",
                len(self._splits),
                self._options.table,
            )

    def _offset(self, position: int) -> dict[str, Any]:
        return {"position": position, "fingerprint": self._fingerprints[position]}

    def _position(self, offset: dict[str, Any]) -> int:
        position = int(offset["position"])
        known = self._fingerprints
        if position >= len(known) or known[position] != offset["fingerprint"]:
            raise SourceError(
                f"The first {position} splits of the table differ from the splits read before: "
                "rows could be lost or repeated.",
                hint="keep files, filters and target_split_bytes unchanged, or start again "
                "with an empty checkpoint.",
            )
        return position


class SplitlibDataSource(DataSource):
    """Data source for a table of any connector. The executors read its files with Arrow.

    Options:
        table (str, required): Name of the table, as for :func:`splitlib.load_table`. It can also be
            passed to ``load``.
        connector (str): The table's connector. It may be omitted if environment variables configure
            the catalog.
        columns (str): Names of the columns to read, separated by commas; by default all columns.
            Spark does not pass a query's columns to a Python data source.
        filter (str): Join keys, as ``base64.b64encode(data.to_bytes()).decode()`` for a
            :class:`splitlib.DynamicFilteringData`. Further filters are ``filter.2``, ``filter.3``,
            …
        timeZone (str): The session's time zone; required if partition keys or filters are
            timestamps.
        maxBytesPerTrigger (int, default 1g): Maximum size of a streaming micro-batch, in bytes or
            with a unit, such as ``512m``.
        storage.NAME (str): Option NAME for the fsspec filesystem.

    Further options are the :class:`splitlib.SplitConfig` settings, in camel case such as
    ``targetSplitBytes``, and the connector's options.
    """

    # Spark calls `schema` and `reader` in two separate processes (measured with 4.0 and 4.3). Spark
    # 4.0 plans a DataFrame again for each query; later versions do so for self-joins. Processes
    # cannot share a connection, so each method opens and closes the table. This also detects
    # whether the table was altered in between. `schema` does not list files, because a DataFrame
    # may never be read, and a stream would list its files twice. If the user passes the schema,
    # Spark does not call `schema`, and only the reader opens the table.

    # `pushFilters` is not implemented. Spark would store the remaining partitions with the loaded
    # DataFrame instead of the query: after `loaded.where("k = 1")`, `loaded` itself would lose its
    # other rows. Also, if a data source has this method, Spark raises an error unless a setting is
    # on. By default, this setting is off.

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._is_planned = False
        self._filtered_columns: pa.Schema | None = None
        self._options = ReadOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        """Return the format name, for ``spark.read.format("splitlib")``."""
        return "splitlib"

    def schema(self) -> StructType:
        """Return the schema of the columns to read, with the same types as in ``spark.table``.

        Raises:
            UnsupportedTable: if the rows might differ from those that Spark's own reader returns.
        """
        with self._options.open() as table:
            refuse_unreadable(table.metadata.read_format)
            # These columns are stored for the stream reader, which Spark creates from a pickled
            # copy of this data source.
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
        # Spark sends the data source to every task, but tasks use only its name. So its state is
        # not pickled after planning.
        return {} if self._is_planned else self.__dict__


class BatchReader(SplitPlanner, DataSourceReader):
    """Reads all splits of a table in one batch.

    Spark creates a reader for each plan. The reader lists the files when it is created, so all
    tasks of the plan read the same list.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        # The splits are planned here, because Spark pickles the reader before it calls
        # `partitions`, and pickling calls `row_groups`.
        self._splits, self._row_groups = self.plan()

    def row_groups(self) -> RowGroupFilter:
        """Return the filter that selects the row groups to read in each file."""
        return self._row_groups

    def partitions(self) -> list[SplitsPartition]:
        """Return the Spark tasks, each with the splits that it reads."""
        return self.tasks(self._splits)
