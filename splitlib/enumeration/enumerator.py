"""``DynamicFileEnumerator``: lists the splits of a table that match all filters.

Filters may be announced and received at any time, from any thread. ``paths`` lists the matching
files as plain paths.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from splitlib.checks import Mismatch, mismatches
from splitlib.config import SplitConfig
from splitlib.enumeration.footer_reads import Sample
from splitlib.enumeration.late_filters import UnreturnedFiles, still_selected
from splitlib.enumeration.learning import FooterStage, learnable_columns
from splitlib.enumeration.pipeline import ScanPipeline
from splitlib.enumeration.splitting import SelectedFiles, SplitMaker
from splitlib.enumeration.tally import ScanTally
from splitlib.errors import ConfigError, InvalidFilter, UnsupportedTable, error_context
from splitlib.filtering.data import DynamicFilteringData, DynamicFilteringEvent
from splitlib.filtering.predicate import PartitionFilter, Predicate
from splitlib.model import FileSplit, PartitionBatch
from splitlib.redaction import redact, without_credentials
from splitlib.remote.calls import FOREVER_SECONDS, BoundedCalls, UnforkedCondition
from splitlib.report import Report, ScanMetrics
from splitlib.table import Table
from splitlib.telemetry import Progress, progress_of, reported, traced


def complete(cancelled: Future[None]) -> None:
    """Complete a future, unless another thread has completed it."""
    with suppress(InvalidStateError):
        cancelled.set_result(None)


class ReceivedFilters:
    """The filters received so far, and the predicate that combines them. Thread-safe."""

    def __init__(self, build: Callable[[Sequence[DynamicFilteringData]], Predicate]) -> None:
        self._build = build
        self._changed = UnforkedCondition()
        self._announced: set[Hashable] = set()
        self._by_producer: dict[Hashable, DynamicFilteringData] = {}
        self._filters: list[DynamicFilteringData] = []
        self._mismatches: dict[Mismatch, None] = {}
        self._predicate = build([])
        self._scans: set[Future[None]] = set()
        self._is_cancelled = False

    def announce(self, producer: Hashable) -> None:
        """Record that ``producer`` will send a filter, unless it has sent one already."""
        with self._changed:
            if producer not in self._by_producer:
                self._announced.add(producer)

    def add(
        self, data: DynamicFilteringData, producer: Hashable, mismatches: Sequence[Mismatch]
    ) -> None:
        """Add a filter. A row must match all filters.

        Args:
            data: The filter.
            producer: Id of the sender; None means unknown.
            mismatches: Reasons why the filter cannot prune the table.

        Raises:
            InvalidFilter: if ``producer`` has sent a different filter.
        """
        with self._changed:
            if producer is not None and self._by_producer.get(producer, data) != data:
                raise InvalidFilter(f"Producer {producer!r} has sent a second, different filter.")
            if data not in self._filters:
                self._predicate = self._build([*self._filters, data])
                self._filters.append(data)
            if producer is not None:
                self._by_producer[producer] = data
                self._announced.discard(producer)
            self._mismatches |= dict.fromkeys(mismatches)
            self._changed.notify_all()

    def await_announced(self, seconds: float, cancelled: Future[None]) -> int:
        """Wait until every announced filter has arrived, nothing matches, or the scan is cancelled.

        Return the number of announced filters that have not arrived.

        Args:
            seconds: Maximum wait in seconds.
            cancelled: The future of the scan; see :meth:`of_scan`.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: not self._announced or self._predicate.matches_nothing or cancelled.done(),
                min(seconds, FOREVER_SECONDS),
            )
            return len(self._announced)

    def cancel(self) -> None:
        """Cancel all scans, present and future."""
        with self._changed:  # raises an error in a forked process
            self._is_cancelled = True
            running = list(self._scans)
        for scan in running:
            complete(scan)

    @contextmanager
    def of_scan(self, cancelled: Future[None]) -> Iterator[None]:
        """Register the future of a scan for the ``with`` block. :meth:`cancel` completes it.

        The scan is cancelled when the future completes, and waiting threads are woken.
        """
        with self._changed:
            self._scans.add(cancelled)
            is_late = self._is_cancelled
        cancelled.add_done_callback(lambda _: self._wake())
        if is_late:
            complete(cancelled)
        try:
            yield
        finally:
            self._scans.discard(cancelled)  # without the lock, because a fork may close the scan

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    @property
    def predicate(self) -> Predicate:
        """The conjunction of all filters received so far. It is replaced when a filter is added."""
        with self._changed:
            return self._predicate

    @property
    def mismatches(self) -> list[Mismatch]:
        """Reasons why some filters cannot prune, without duplicates."""
        with self._changed:
            return list(self._mismatches)

    def events(self) -> list[DynamicFilteringEvent]:
        """Return the filters received so far, in no particular order."""
        with self._changed:
            named = [DynamicFilteringEvent(d, name) for name, d in self._by_producer.items()]
            known = self._by_producer.values()
            return named + [DynamicFilteringEvent(d) for d in self._filters if d not in known]


class DynamicFileEnumerator:
    """Lists the splits of a table that match all filters received so far.

    Args:
        table: The table.
        config: Settings. By default, those of the table.
        static: Conditions that every row must meet, such as those of a ``WHERE`` clause: either
            conditions on partition values, or allowed values and ranges of columns.
        filters: The first filters, each as for :meth:`set_dynamic_filtering_data`.
        strict: Whether to raise an error for a filter that can never prune this table: the table
            does not have its column, or the types cannot be compared. If false, each enumeration
            logs a warning, and :meth:`explain` reports the filter.
    """

    def __init__(
        self,
        table: Table,
        config: SplitConfig | None = None,
        *,
        static: Sequence[PartitionFilter | DynamicFilteringData] = (),
        filters: Sequence[DynamicFilteringData | Mapping[str, Iterable[Any]]] = (),
        strict: bool = False,
    ) -> None:
        if not hasattr(table, "metadata"):
            raise ConfigError(
                f"table is a {type(table).__name__}, not an open table.",
                hint="pass the result of splitlib.load_table(…).",
            )
        if not isinstance(static, Sequence) or not all(hasattr(s, "describe") for s in static):
            raise ConfigError(
                "static is not a list of conditions.",
                hint="pass static=[DynamicFilteringData.from_values({'column': [value, …]})].",
            )
        if not isinstance(filters, Sequence):
            raise InvalidFilter(
                "filters is not a list of filters.",
                hint="pass filters=[{'column': [value, …]}].",
            )
        self.table = table
        self.config = table.settings(config)
        self._static_data = [
            table.in_its_time_zone(s) for s in static if isinstance(s, DynamicFilteringData)
        ]
        self._static = [s for s in static if not isinstance(s, DynamicFilteringData)]
        self._strict = strict
        self._learnable = learnable_columns(table.metadata, self.config)
        self._filters = ReceivedFilters(self._predicate_of)
        self._tally = ScanTally()
        for data in filters:
            self.set_dynamic_filtering_data(data)

    def announce_dynamic_filter(
        self, producer: Hashable, fields: Iterable[str] | None = None
    ) -> None:
        """Announce that ``producer`` will deliver a filter.

        An enumeration that starts later waits for the filter, for at most ``filter_wait_seconds``.
        It does not wait if none of the columns in ``fields`` can prune the table. Pass None if the
        filter's columns are not known yet.
        """
        if not self.config.dynamic_filtering_enabled:
            return
        if isinstance(fields, str):
            fields = [fields]
        useful = (*self.table.list_accepted_filter_fields(), *self._learnable.names)
        accepted = {name.lower() for name in useful}
        if fields is not None and accepted.isdisjoint(name.lower() for name in fields):
            return
        self._filters.announce(producer)

    def set_dynamic_filtering_data(
        self,
        data: DynamicFilteringData | Mapping[str, Iterable[Any]],
        producer: Hashable = None,
    ) -> None:
        """Add a filter. A row must match all filters.

        This method may be called at any time, from any thread.

        Args:
            data: The filter, or its values as for :meth:`DynamicFilteringData.from_values`.
            producer: Id of the sender; None means unknown.

        Raises:
            InvalidFilter: if the same ``producer`` (not None) has sent a different filter; with
                ``strict``, for a filter that can never prune this table.
        """
        data = self.table.in_its_time_zone(DynamicFilteringData.of(data))
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
        """The conjunction of all filters received so far. It is replaced when a filter is added."""
        return self._filters.predicate

    def identity(self) -> dict[str, Any]:
        """Return a dict that identifies the scan: table, snapshot, keys and static conditions."""
        metadata = self.table.metadata
        keys = (blake2b(data.to_bytes()).hexdigest() for data in self._static_data)
        return {
            "connector": self.table.connector_name,
            "table": without_credentials(self.table.name),
            "snapshot": metadata.snapshot_id,
            **({} if metadata.table_id is None else {"table id": metadata.table_id}),
            "partition keys": [[key.name, str(key.type)] for key in metadata.partition_schema],
            "static condition": [*(one.describe() for one in self._static), *keys],
        }

    def received_filters(self) -> list[DynamicFilteringEvent]:
        """Return the filters received so far, in no particular order."""
        return self._filters.events()

    def cancel(self) -> None:
        """Stop all enumerations of this object permanently. May be called from any thread.

        No further call to the catalog or the storage starts. Running calls are not interrupted. A
        thread that waits for such a call raises a :class:`SplitlibError` at once, because the
        enumeration is incomplete.
        """
        self._filters.cancel()

    @property
    def metrics(self) -> ScanMetrics:
        """Counts of the latest enumeration, even while it runs."""
        return self._tally.metrics()

    def so_far(self) -> str:
        """Return a short text with the counts of the running or latest enumeration."""
        m = self.metrics
        partitions = f"{m.partitions_matched:,} of {m.partitions_total:,} partitions"
        return f"{partitions}, {m.files_listed:,} files"

    def progress(self) -> Progress:
        """Return a context manager that shows the progress of the enumerations in its block."""
        return progress_of(self.so_far, enabled=self.config.show_progress)

    def explain(self) -> Report:
        """Return a report on the latest enumeration: how each filter pruned, or why it did not."""
        return self._tally.report(self.table, self.predicate, self.config)

    def enumerate_splits(self) -> Iterator[FileSplit]:
        """Yield each split once, lazily. Closing the iterator stops the listing.

        A filter that arrives meanwhile applies to all splits that were not yielded yet.

        Raises:
            TooManyPartitions: if more than ``max_partitions`` match.
            MissingPartition: if a directory does not exist and ``missing_partition`` is ``error``.
            SourceUnavailable: if ``call_deadline_seconds`` or ``enumeration_deadline_seconds`` has
                passed.
            SplitlibError: for any error of the connector. An incomplete enumeration always raises
                an error.
        """
        # The predicate is read before the files are selected, so the files match at least it.
        maker, predicate = self.split_maker(), self.predicate
        tally: ScanTally | None = None
        for selected in self.select_files(hosts=True):
            tally = tally or self._tally  # the one of this enumeration, even if another one starts
            files = UnreturnedFiles(selected, predicate, lambda: self.predicate, tally)
            for of_file in maker.splits_of(selected, files.starts):
                for split in of_file.splits:
                    yield split
                    if not files.keeps(of_file.row):
                        break
            predicate = self.predicate
        reported(self.explain)

    def split_maker(self) -> SplitMaker:
        """Return an object that cuts the files of :meth:`select_files` into splits."""
        metadata, target = self.table.metadata, self.config.target_split_bytes
        return SplitMaker(
            metadata.partition_schema,
            target,
            lambda made: self._tally.count(splits=made),
            repeats=metadata.snapshot_id is not None,
        )

    def match_partitions(self) -> Iterator[tuple[PartitionBatch, pa.BooleanArray]]:
        """Yield all partitions in batches, each with a mask of the partitions that filters keep.

        Raises:
            SplitlibError: see :meth:`enumerate_splits`.
        """
        with self._running() as (pipeline, calls):
            yield from pipeline.compared_partitions(calls)

    def select_partitions(self) -> Iterator[PartitionBatch]:
        """Yield batches of the partitions that match all filters, ready for listing their files.

        Raises:
            SplitlibError: see :meth:`enumerate_splits`.
        """
        with self._running() as (pipeline, calls):
            if not self.predicate.matches_nothing:
                for matched in pipeline.matching_partitions(calls):
                    yield matched.partitions

    def select_files(
        self,
        *,
        hosts: bool = False,
        sample: Sample | None = None,
        cancelled: Future[None] | None = None,
    ) -> Generator[SelectedFiles, None, None]:
        """Yield the files that match all filters, as Arrow batches.

        Args:
            hosts: Whether to add the hosts of each file, if the connector reports them.
            sample: Statistics of a sample of files, if these have shown that reading the other
                files' footers is worthwhile. If it is None, this method reads a sample itself.
            cancelled: Future with which the caller can cancel this enumeration alone.

        Raises:
            SplitlibError: see :meth:`enumerate_splits`.
        """
        with self._running(hosts=hosts, cancelled=cancelled) as (pipeline, calls):
            if self.predicate.matches_nothing:
                return
            tally, received = self._tally, self._filters
            stage = FooterStage(self.table, self.config, lambda: received.predicate, tally, sample)
            for selected in stage.apply(pipeline.selected_files(calls), calls):
                tally.selected(selected)
                yield selected

    @contextmanager
    def _running(
        self, *, hosts: bool = False, cancelled: Future[None] | None = None
    ) -> Iterator[tuple[ScanPipeline, BoundedCalls]]:
        """Start a new enumeration for the ``with`` block, and finish it afterwards."""
        tally = self._tally = ScanTally()
        cancelled = Future() if cancelled is None else cancelled
        table, config, received = self.table, self.config, self._filters
        with received.of_scan(cancelled):
            with tally.timed("wait"):
                tally.late_filters = received.await_announced(config.filter_wait_seconds, cancelled)
            tally.warn(table.name, received.mismatches)
            pipeline = ScanPipeline(table, config, lambda: received.predicate, tally, hosts=hosts)
            with (
                traced("enumerate", table=redact(table.name), is_current=False),
                error_context(connector=table.connector_name, table=table.name),
                BoundedCalls(config, cancelled) as calls,
            ):
                yield pipeline, calls
                if tally.partitions_were_dropped and not self.predicate.matches_nothing:
                    calls.run(lambda: table.check_identity(config))
        # Warn again, because more filters may have arrived during the enumeration.
        tally.warn(table.name, received.mismatches)

    def still_selects(
        self, selected: Sequence[SelectedFiles], predicate: Predicate
    ) -> list[pa.BooleanArray]:
        """Return one mask per item of ``selected``, true for the files that ``predicate`` keeps."""
        return still_selected(selected, predicate, self._tally)

    def _predicate_of(self, filters: Sequence[DynamicFilteringData]) -> Predicate:
        dynamic = filters if self.config.dynamic_filtering_enabled else []
        filters = [*self._static_data, *dynamic]
        return Predicate(self.table.metadata.filter_schema, filters, self._static, self._learnable)


def paths(
    table: Table,
    *filters: DynamicFilteringData | Mapping[str, Iterable[Any]],
    config: SplitConfig | None = None,
) -> list[str]:
    """Return the paths of the files that match ``filters``, without duplicates, in catalog order.

    Files on the local disk have plain paths, and other files have URIs. If you also need partition
    values, use the splits of a :class:`~splitlib.enumeration.enumerator.DynamicFileEnumerator`.
    ``config`` are settings; by default, those of the table.

    Raises:
        UnsupportedTable: if some rows of a file are deleted, which a path cannot express.
    """
    enumerator = DynamicFileEnumerator(table, config, filters=filters)
    with enumerator.progress():
        selections = list(enumerator.select_files())
    found: dict[str, None] = {}
    for selected in selections:
        deletes = selected.files.deletes
        if deletes is not None and deletes.null_count < len(deletes):
            raise UnsupportedTable(
                "Some rows of the selected files are deleted, which plain paths cannot express.",
                hint="use splitlib.read(spark), or use the splits and their deletes.",
                connector=table.connector_name,
                table=table.name,
            )
        found.update(dict.fromkeys(selected.files.files["path"].to_pylist()))
    reported(enumerator.explain)
    return list(found)
