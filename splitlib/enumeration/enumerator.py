"""``DynamicFileEnumerator``: the splits of a table that the filters known so far leave."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.config import SplitConfig
from splitlib.enumeration.metrics import ScanMetrics
from splitlib.enumeration.pipeline import ScanPipeline
from splitlib.enumeration.received_filters import ReceivedFilters
from splitlib.enumeration.report import ScanReport
from splitlib.enumeration.selected_files import SelectedFiles
from splitlib.enumeration.splitting import SplitMaker
from splitlib.enumeration.tally import ScanTally
from splitlib.errors import InvalidFilter, error_context
from splitlib.filtering.data import DynamicFilteringData, DynamicFilteringEvent
from splitlib.filtering.mismatches import mismatches
from splitlib.filtering.predicate import PartitionFilter, Predicate
from splitlib.model import FileSplit, PartitionBatch
from splitlib.redaction import without_credentials
from splitlib.remote.bounded_calls import BoundedCalls
from splitlib.table import Table


class DynamicFileEnumerator:
    """Lists the splits of a table that the filters known so far leave.

    Args:
        table: What to read.
        config: Settings; by default those of the environment.
        static: What holds for every row wanted: conditions on partition values, or values and
            ranges of columns.
        strict: Whether a filter that can never prune this table is an error: one on a column that
            the table has not, or of a type that cannot be compared. If not, it is logged as a
            warning by each enumeration, and reported by :meth:`explain`.
    """

    def __init__(
        self,
        table: Table,
        config: SplitConfig | None = None,
        *,
        static: Sequence[PartitionFilter | DynamicFilteringData] = (),
        strict: bool = False,
    ) -> None:
        self.table = table
        self.config = config or SplitConfig.resolve()
        self._static_data = [s for s in static if isinstance(s, DynamicFilteringData)]
        self._static = [s for s in static if not isinstance(s, DynamicFilteringData)]
        self._strict = strict
        self._filters = ReceivedFilters(self._predicate_of)
        self._tally = ScanTally()

    def announce_dynamic_filter(
        self, producer: Hashable, fields: Iterable[str] | None = None
    ) -> None:
        """Say that ``producer`` will deliver a filter.

        An enumeration that starts later waits for it, for at most ``filter_wait_seconds``; not if
        none of its ``fields``, where they are known, can prune.
        """
        if isinstance(fields, str):
            fields = [fields]
        accepted = {name.lower() for name in self.table.list_accepted_filter_fields()}
        if fields is not None and accepted.isdisjoint(name.lower() for name in fields):
            return
        self._filters.announce(producer)

    def set_dynamic_filtering_data(
        self, data: DynamicFilteringData, producer: Hashable = None
    ) -> None:
        """Add a filter; all filters hold together. May be called at any time, from any thread.

        Raises:
            InvalidFilter: if the same ``producer`` (not None) has given a different filter; if
                ``strict``, for a filter that can never prune this table.
        """
        wrong = mismatches(data, self.table.metadata)
        if wrong and self._strict:
            raise InvalidFilter(
                wrong[0].message,
                hint=wrong[0].hint,
                connector=self.table.connector_name,
                table=self.table.name,
            )
        self._filters.add(data, producer, wrong)

    @property
    def predicate(self) -> Predicate:
        """What all filters known by now say; another object when there is another filter."""
        return self._filters.predicate

    def identity(self) -> dict[str, Any]:
        """What two enumerations have in common if they are of the same scan, filters aside."""
        metadata = self.table.metadata
        static = [condition.describe() for condition in self._static]
        static += [blake2b(data.to_bytes()).hexdigest() for data in self._static_data]
        return {
            "connector": self.table.connector_name,
            "table": without_credentials(self.table.name),
            "snapshot": metadata.snapshot_id,
            "partition keys": [[key.name, str(key.type)] for key in metadata.partition_schema],
            "static condition": static,
        }

    def received_filters(self) -> list[DynamicFilteringEvent]:
        """The filters known by now, in no particular order."""
        return self._filters.events()

    def cancel(self) -> None:
        """Stop every enumeration of this object, from any thread; there will be no other.

        No further call of the catalog or the storage begins. Whoever waits for one gets a
        :class:`SplitlibError` at once, as what was enumerated is not complete; a call under way is
        left to end by itself.
        """
        self._filters.cancel()

    @property
    def metrics(self) -> ScanMetrics:
        """Counts of the latest enumeration, also while it runs."""
        return self._tally.metrics()

    def explain(self) -> ScanReport:
        """What was pruned by what in the latest enumeration, and why a filter was not used."""
        return self._tally.report(self.table, self.predicate, self.config)

    def enumerate_splits(self) -> Iterator[FileSplit]:
        """The splits, lazily, each once; closing the iterator stops the listing.

        Raises:
            TooManyPartitions: if more than ``max_partitions`` match.
            MissingPartition: if a directory has gone and ``missing_partition`` is ``error``.
            SourceUnavailable: if ``call_deadline_seconds`` or ``enumeration_deadline_seconds`` is
                over.
            SplitlibError: whatever the connector raises; nothing partial is returned as complete.
        """
        maker = self.split_maker()
        for selected in self.select_files(hosts=True):
            for of_file in maker.splits_of(selected):
                yield from of_file.splits

    def split_maker(self) -> SplitMaker:
        """What makes splits of the files that :meth:`select_files` gives, and counts them."""
        keys = self.table.metadata.partition_schema
        target = self.config.target_split_bytes
        return SplitMaker(keys, target, lambda made: self._tally.count(splits=made))

    def match_partitions(self) -> Iterator[tuple[PartitionBatch, pa.BooleanArray]]:
        """All partitions, and which of them the filters keep: a flag each. No more is asked for.

        Raises:
            SplitlibError: as :meth:`enumerate_splits`.
        """
        with self._running() as (pipeline, calls):
            yield from pipeline.compared_partitions(calls)

    def select_partitions(self) -> Iterator[PartitionBatch]:
        """The partitions that the filters leave, with their details; no files are listed.

        Raises:
            SplitlibError: as :meth:`enumerate_splits`.
        """
        with self._running() as (pipeline, calls):
            if not self.predicate.matches_nothing:
                for matched in pipeline.matching_partitions(calls):
                    yield matched.partitions

    def select_files(self, *, hosts: bool = False) -> Generator[SelectedFiles, None, None]:
        """The files that :meth:`enumerate_splits` splits, as Arrow batches; same errors.

        Args:
            hosts: Whether the hosts of each file are asked for, where the connector knows them.
        """
        with self._running(hosts=hosts) as (pipeline, calls):
            if not self.predicate.matches_nothing:
                yield from pipeline.selected_files(calls)

    @contextmanager
    def _running(self, *, hosts: bool = False) -> Iterator[tuple[ScanPipeline, BoundedCalls]]:
        """A new enumeration, for as long as it takes."""
        tally = self._tally = ScanTally()
        with tally.timed("wait"):
            self._filters.await_announced(self.config.filter_wait_seconds)
        tally.warn(self.table.name, self._filters.mismatches)
        table = self.table
        pipeline = ScanPipeline(
            table, self.config, lambda: self._filters.predicate, tally, hosts=hosts
        )
        with (
            error_context(connector=table.connector_name, table=table.name),
            BoundedCalls(self.config, self._filters.cancelled) as calls,
        ):
            yield pipeline, calls
            if tally.partitions_have_gone and not self.predicate.matches_nothing:
                calls.run(lambda: table.check_identity(self.config))
        tally.warn(self.table.name, self._filters.mismatches)  # of filters that came late, too

    def still_selects(
        self, selected: Sequence[SelectedFiles], predicate: Predicate
    ) -> list[pa.BooleanArray]:
        """Which files that were selected before ``predicate`` keeps; a flag per file of each."""
        kept: dict[int, pa.BooleanArray] = {}  # many files share a batch of partitions
        masks = []
        for some in selected:
            partitions, files = some.partitions, some.files
            if id(partitions) not in kept:
                kept[id(partitions)] = self._tally.match(partitions, predicate, before=predicate)
            mask = kept[id(partitions)].take(files.files["partition"])
            if files.statistics:
                mask = pc.and_kleene(mask, predicate.match_bounds(files.statistics))
            masks.append(pc.fill_null(mask, True))
        return masks

    def _predicate_of(self, filters: Sequence[DynamicFilteringData]) -> Predicate:
        dynamic = filters if self.config.dynamic_filtering_enabled else []
        return Predicate(
            self.table.metadata.filterable, [*self._static_data, *dynamic], self._static
        )
