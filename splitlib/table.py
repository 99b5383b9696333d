"""A table as users hold it: a connector whose answers are checked, and whose errors say where."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from splitlib.arrow.time_zones import in_zone
from splitlib.config import SplitConfig
from splitlib.connector_checks import checked_files, checked_partitions
from splitlib.errors import error_context
from splitlib.filtering.predicate import Predicate
from splitlib.model import FileBatch, PartitionBatch, TableMetadata
from splitlib.redaction import redact
from splitlib.remote.retry import source_call
from splitlib.spi import (
    Connector,
    SupportsHosts,
    SupportsIdentityCheck,
    SupportsPartitionDetails,
)

T = TypeVar("T")


class Table:
    """One table, pinned when opened. Every call of its connector goes through here."""

    def __init__(self, name: str, connector_name: str, connector: Connector) -> None:
        self.name = name
        self.connector_name = connector_name
        self.connector = connector
        with self._context():
            self.metadata: TableMetadata = connector.describe()

    @property
    def schema(self) -> pa.Schema:
        """Data columns, then partition columns, in the catalog's types."""
        return self.metadata.schema

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Names of the partition columns, in order."""
        return self.metadata.partition_keys

    def list_accepted_filter_fields(self) -> tuple[str, ...]:
        """The columns whose join keys can prune."""
        return tuple(self.metadata.filterable.names)

    def in_time_zone(self, zone: str) -> Table:
        """The same table, its instants shown in ``zone``.

        Hive stores a partition's timestamp as wall-clock text: which instant that is depends on
        the reader. And dates and local times are compared with instants by the wall clock of the
        reader, in columns of files as well.

        Raises:
            ConfigError: if the zone is not known.
        """
        moved = copy.copy(self)
        known = self.metadata.filter_schema
        moved.metadata = replace(
            self.metadata,
            schema=in_zone(self.schema, zone),
            filter_schema=None if known is None else in_zone(known, zone),
        )
        return moved

    def list_partitions(
        self, predicate: Predicate, config: SplitConfig | None = None
    ) -> Iterator[PartitionBatch]:
        """See :meth:`splitlib.spi.Connector.list_partitions`.

        Tried again until the first batch has come, and not after it: batches might come twice.
        """
        config = config or SplitConfig.resolve()

        def begin() -> tuple[Iterator[PartitionBatch], PartitionBatch | None]:
            batches = self.connector.list_partitions(predicate)
            return batches, following(batches)

        def following(batches: Iterator[PartitionBatch]) -> PartitionBatch | None:
            batch = next(batches, None)
            keys = self.metadata.partition_schema
            return None if batch is None else checked_partitions(batch, keys)

        batches, batch = self._call(begin, config)
        once = replace(config, retry_attempts=1)
        while batch is not None:
            yield batch
            batch = self._call(lambda: following(batches), once)

    @property
    def partitions_per_details(self) -> int | None:
        """How many partitions :meth:`load_details` takes; None = it has nothing to load."""
        if isinstance(self.connector, SupportsPartitionDetails):
            return self.connector.partitions_per_details
        return None

    def load_details(self, partitions: PartitionBatch, config: SplitConfig) -> PartitionBatch:
        """See :meth:`splitlib.spi.SupportsPartitionDetails.load_details`."""
        connector = self.connector
        assert isinstance(connector, SupportsPartitionDetails)

        def load() -> PartitionBatch:
            loaded = connector.load_details(partitions)
            return checked_partitions(loaded, self.metadata.partition_schema)

        return self._call(load, config)

    def check_identity(self, config: SplitConfig) -> None:
        """See :meth:`splitlib.spi.SupportsIdentityCheck.check_identity`."""
        if isinstance(connector := self.connector, SupportsIdentityCheck):
            self._call(connector.check_identity, config)

    def list_files(
        self, partitions: PartitionBatch, predicate: Predicate, config: SplitConfig
    ) -> list[FileBatch]:
        """See :meth:`splitlib.spi.Connector.list_files`; complete, or an error."""

        def find() -> list[FileBatch]:
            found = self.connector.list_files(partitions, predicate)
            return [checked_files(batch, partitions, self.metadata) for batch in found]

        return self._call(find, config)

    def hosts(self, paths: Sequence[str]) -> Sequence[Sequence[str]] | None:
        """See :meth:`splitlib.spi.SupportsHosts.hosts`; None = the connector does not know."""
        if not isinstance(self.connector, SupportsHosts):
            return None
        with self._context():
            return self.connector.hosts(paths)

    def close(self) -> None:
        """Give back connections."""
        self.connector.close()

    def _call(self, work: Callable[[], T], config: SplitConfig) -> T:
        return source_call(work, config, connector=self.connector_name, table=self.name)

    def _context(self) -> Any:
        return error_context(connector=self.connector_name, table=self.name)

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        keys = ", ".join(self.partition_keys) or "unpartitioned"
        return f"Table({redact(self.name)!r}, connector={self.connector_name!r}, keys=[{keys}])"
