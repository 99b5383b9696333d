"""The statistics of one table that are known before footers are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.config import SplitConfig
from splitlib.redaction import get_logger
from splitlib.remote.calls import run_bounded
from splitlib.statistics.row_groups import FileGroups
from splitlib.statistics.saved import SavedColumn, rows_to_save
from splitlib.statistics.store import LEARNED, ColumnKey
from splitlib.table import Table

_log = get_logger(__name__)
# Deadline for reading or writing saved statistics, in seconds.
_SECONDS: Final = 30.0


class KnownStatistics:
    """Statistics of the files of one table, in memory and in ``statistics_location``.

    Failures of ``statistics_location`` are logged, and change nothing but the speed.

    Args:
        table: The table.
        config: Settings.
    """

    def __init__(self, table: Table, config: SplitConfig) -> None:
        self._table = table.metadata.location or f"{table.connector_name}:{table.name}"
        self._location = config.statistics_location
        self._config = replace(config, call_deadline_seconds=_SECONDS)
        self._tried: set[ColumnKey] = set()
        self._new: dict[ColumnKey, list[pa.Table]] = {}

    def get(self, columns: pa.Schema, files: pa.RecordBatch) -> FileGroups:
        """Return the known row groups of files, as :meth:`StatisticsStore.get` does."""
        found = LEARNED.get(columns, files)
        if self._location is None:
            return found
        missing = [
            column
            for column in columns
            if ColumnKey.of(column) not in self._tried
            and found.columns[column.name.lower()].null_count
        ]
        for column in missing:
            self._tried.add(ColumnKey.of(column))
            self._load(self._location, column)
        return LEARNED.get(columns, files) if missing else found

    def add(
        self, columns: pa.Schema, files: pa.RecordBatch, groups: Mapping[str, pa.ListArray]
    ) -> None:
        """Keep the row groups of files."""
        old = LEARNED.add(columns, files, groups)
        if self._location is not None and pc.any(old).as_py():
            for column in columns:
                rows = rows_to_save(files, groups[column.name.lower()], old)
                if rows.num_rows:
                    self._new.setdefault(ColumnKey.of(column), []).append(rows)

    def save(self) -> None:
        """Write new statistics to ``statistics_location``, if it is set."""
        new, self._new = self._new, {}
        for key, parts in new.items():
            rows = pa.concat_tables(parts)

            def save(key: ColumnKey = key, rows: pa.Table = rows) -> str:
                assert self._location is not None
                return SavedColumn(self._location, self._table, key).save(rows)

            try:
                LEARNED.loaded.add(run_bounded(save, self._config))
            except Exception as error:  # the storage may raise anything
                _log.warning("Statistics of %s are not saved: %s", self._table, error)

    def _load(self, location: str, column: pa.Field) -> None:
        key = ColumnKey.of(column)

        def load() -> list[pa.Table]:
            return list(SavedColumn(location, self._table, key).load(LEARNED.loaded))

        try:
            parts = run_bounded(load, self._config)
        except Exception as error:  # the storage may raise anything
            _log.warning("Statistics of %s are not loaded: %s", self._table, error)
            return
        for part in parts:
            for batch in part.to_batches():
                groups = {key.name: batch["groups"]}
                LEARNED.add(pa.schema([pa.field(column.name, key.kind)]), batch, groups)
