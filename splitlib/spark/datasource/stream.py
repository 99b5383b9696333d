"""A table as a stream that ends: each micro-batch takes the next splits, each split once.

An offset is a position among the splits, which have an order, and a fingerprint of all splits
before it. After a restart the splits are enumerated again, and the fingerprint shows whether those
before the position are the ones that were read. A checkpoint of the coordinator
(:meth:`splitlib.DynamicFileSplitEnumerator.snapshot_state`) would do as well, but grows with the
table, while Spark writes an offset for every micro-batch and compares offsets as text.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from splitlib.errors import ConfigError, SourceError
from splitlib.reading.row_groups import RowGroupFilter
from splitlib.spark.datasource.options import ReadOptions
from splitlib.spark.datasource.plan import LOAD_AGAIN, SplitPlanner, SplitsPartition

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
    except ImportError:  # before 4.2 Spark neither limits batches nor asks where to start
        ReadMaxBytes, SupportsTriggerAvailableNow = (), object


class StreamReader(SplitPlanner, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Splits in micro-batches of at most ``maxBytesPerTrigger`` each, or of a single split.

    Before Spark 4.2, which does not say where a batch starts, all splits are one micro-batch.
    """

    def __init__(
        self, options: ReadOptions, schema: StructType, filtered_columns: pa.Schema | None
    ) -> None:
        """Make a reader that opens nothing yet.

        Args:
            options: Of the data source.
            schema: The columns to read.
            filtered_columns: Those that :class:`RowGroupFilter` needs, where they are known.
        """
        super().__init__(options, schema)
        self._max_bytes: Final = options.max_bytes_per_trigger
        self._filtered_columns = filtered_columns

    def row_groups(self) -> RowGroupFilter:
        """Which row groups are read of each file.

        Spark pickles the reader in a process that never asks it for splits: there nothing is
        enumerated, and the table opened only if the user gave the schema and there are filters.
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
            # executors would compare keys with statistics of another type
            raise ConfigError("Columns of the filters have been altered.", hint=LOAD_AGAIN)
        return splits

    @cached_property
    def _fingerprints(self) -> list[str]:
        """The fingerprint of the first 0, 1, 2, … splits."""
        digest = blake2b(digest_size=16)
        fingerprints = [digest.hexdigest()]
        for split in self._splits:
            digest.update(f"{split.split_id} {split.file_size} {split.modified}\n".encode())
            fingerprints.append(digest.hexdigest())
        return fingerprints

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The beginning."""
        return self._offset(0)

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The end of the next micro-batch.

        Raises:
            SourceError: if what was read before ``start`` is not what the table holds now.
        """
        if start is None or not isinstance(limit, ReadMaxBytes):
            return self._offset(len(self._splits))
        first = end = self._position(start)
        left = limit.max_bytes
        while end < len(self._splits) and (end == first or self._splits[end].length <= left):
            left -= self._splits[end].length
            end += 1
        return self._offset(end)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The option ``maxBytesPerTrigger``."""
        return ReadMaxBytes(self._max_bytes)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The end of the table."""
        return self._offset(len(self._splits))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Nothing to do: the splits are enumerated once, so that the stream ends anyway."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[SplitsPartition]:
        """The tasks of one micro-batch.

        Raises:
            SourceError: if the splits are not those that the offsets were made of.
        """
        return self.tasks(self._splits[self._position(start) : self._position(end)])

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: nothing is kept for a batch."""

    def stop(self) -> None:
        """Nothing to do: the table is open only while it is enumerated."""

    def _offset(self, position: int) -> dict[str, Any]:
        return {"position": position, "fingerprint": self._fingerprints[position]}

    def _position(self, offset: dict[str, Any]) -> int:
        position = int(offset["position"])
        known = self._fingerprints
        if position >= len(known) or known[position] != offset["fingerprint"]:
            raise SourceError(
                f"The first {position} splits of the table are not those that were read before: "
                "rows could be lost or repeated.",
                hint="keep its files, filters and target_split_bytes as they were, or start again "
                "with an empty checkpoint.",
            )
        return position
