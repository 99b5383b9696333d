"""From a table and whatever is known of the join keys to the files that can matter.

One pass, lazy at every step::

    list_partitions ─ match ─ load_details ─ match again ─ list_files (parallel) ─ match again ─►
                        ▲                        ▲                                     ▲
                        └──────── filters, which may arrive at any moment ─────────────┘

The last match also takes the statistics of each file, where the catalog keeps some.

Results keep the catalog's order whatever the parallelism.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.config import SplitConfig
from splitlib.enumeration.metrics import ScanMetrics
from splitlib.enumeration.report import ScanReport
from splitlib.enumeration.run import EnumerationRun, MatchedPartitions
from splitlib.enumeration.splits import HOSTS, SelectedFiles, SplitMaker, name_of
from splitlib.errors import (
    InvalidFilter,
    MissingPartition,
    SplitlibError,
    TooManyPartitions,
    UnsupportedTable,
    error_context,
)
from splitlib.filtering.data import DynamicFilteringData, DynamicFilteringEvent
from splitlib.filtering.mismatches import Mismatch, mismatches
from splitlib.filtering.predicate import PartitionFilter, Predicate
from splitlib.model import FileBatch, FileSplit, PartitionBatch
from splitlib.redaction import without_credentials
from splitlib.remote.calls import FOREVER_SECONDS
from splitlib.remote.workers import Calls, OwnCondition, Task
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
        self._mismatches: dict[Mismatch, None] = {}
        self._lock = OwnCondition()
        self._announced: set[Hashable] = set()
        self._by_producer: dict[Hashable, DynamicFilteringData] = {}
        self._filters: list[DynamicFilteringData] = []
        self._predicate = self._build_predicate()
        self._cancelled: Future[None] = Future()
        self._run = EnumerationRun()

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
        with self._lock:
            if producer not in self._by_producer:
                self._announced.add(producer)

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
        with self._lock:
            self._mismatches |= dict.fromkeys(wrong)
            if producer is not None:
                known = self._by_producer.setdefault(producer, data)
                if known != data:
                    raise InvalidFilter(f"A second, different filter of producer {producer!r}.")
                self._announced.discard(producer)
            if data not in self._filters:
                self._filters.append(data)
                self._predicate = self._build_predicate()
            self._lock.notify_all()

    @property
    def predicate(self) -> Predicate:
        """What all filters known by now say; another object when there is another filter."""
        with self._lock:
            return self._predicate

    def identity(self) -> dict[str, Any]:
        """What two enumerations must have in common to be of the same scan, filters aside."""
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
        with self._lock:
            named = [DynamicFilteringEvent(d, name) for name, d in self._by_producer.items()]
            known = self._by_producer.values()
            return named + [DynamicFilteringEvent(d) for d in self._filters if d not in known]

    def cancel(self) -> None:
        """Stop every enumeration of this object, from any thread; there will be no other.

        No call of the catalog or the storage begins any more. Whoever waits for one gets a
        :class:`SplitlibError` at once, as what was enumerated is not complete; a call under way
        ends by itself.
        """
        with self._lock:
            if not self._cancelled.done():
                self._cancelled.set_result(None)
            self._lock.notify_all()

    @property
    def metrics(self) -> ScanMetrics:
        """Counts of the latest enumeration, also while it runs."""
        return self._run.metrics()

    def explain(self) -> ScanReport:
        """What was pruned by what in the latest enumeration, and why a filter was not used."""
        return self._run.report(self.table, self._predicate, self.config)

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
        return SplitMaker(keys, target, lambda made: self._run.count(splits=made))

    def select_files(self, *, hosts: bool = False) -> Generator[SelectedFiles, None, None]:
        """The files that :meth:`enumerate_splits` splits, as Arrow batches; same errors.

        Args:
            hosts: Whether the hosts of each file are asked for, where the connector knows them.
        """
        run = self._run = EnumerationRun()
        with run.timed("wait"):
            self._await_announced()
        run.warn(self._mismatches)
        if self.predicate.matches_nothing:
            return
        pending: deque[tuple[MatchedPartitions, int, Task[list[FileBatch]]]] = deque()
        table = self.table
        with (
            error_context(connector=table.connector_name, table=table.name),
            Calls(self.config, self._cancelled) as calls,
        ):
            for matched in self._matching_partitions(run, calls):
                step = table.connector.partitions_per_listing
                for offset in range(0, len(matched.partitions), step):
                    listing = partial(self._list_files, run, matched, offset, step, hosts)
                    pending.append((matched, offset, calls.submit(listing)))
                    # twice the threads: enough to keep them busy, few enough to stay lazy
                    if len(pending) >= 2 * self.config.listing_threads:
                        yield from self._finish(run, calls, *pending.popleft())
            while pending:
                yield from self._finish(run, calls, *pending.popleft())
            if run.partitions_have_gone:
                calls.run(lambda: table.check_identity(self.config))
        run.warn(self._mismatches)  # of filters that came late, too

    def still_selects(
        self, selected: Sequence[SelectedFiles], predicate: Predicate
    ) -> list[pa.BooleanArray]:
        """Which files that were selected before ``predicate`` keeps; a flag per file of each."""
        kept: dict[int, pa.BooleanArray] = {}  # many files share a batch of partitions
        masks = []
        for some in selected:
            partitions, files = some.partitions, some.files
            if id(partitions) not in kept:
                kept[id(partitions)] = self._run.match(partitions, predicate, before=predicate)
            mask = kept[id(partitions)].take(files.files["partition"])
            if files.statistics:
                mask = pc.and_kleene(mask, predicate.match_bounds(files.statistics))
            masks.append(pc.fill_null(mask, True))
        return masks

    def _matching_partitions(
        self, run: EnumerationRun, calls: Calls
    ) -> Iterator[MatchedPartitions]:
        """Partitions ready to be listed, in batches."""
        total = 0
        for batch in self._listed_partitions(run, calls):
            predicate = self.predicate
            if predicate.matches_nothing:
                return
            mask = run.match(batch, predicate)
            keep = pc.indices_nonzero(mask)
            total += len(keep)
            if batch.file_counts is not None:
                run.dropped(partitions=pc.sum(batch.file_counts.filter(pc.invert(mask))).as_py())
            if total > self.config.max_partitions:
                raise TooManyPartitions(
                    f"More than {self.config.max_partitions} partitions match.",
                    hint="filter more, or raise max_partitions.",
                    connector=self.table.connector_name,
                    table=self.table.name,
                )
            if len(keep):
                matching = batch if len(keep) == len(batch) else batch.take(keep)
                for ready in self._with_details(run, calls, matching, predicate):
                    run.count(partitions_matched=len(ready))
                    yield MatchedPartitions(ready, predicate, run)

    def _listed_partitions(self, run: EnumerationRun, calls: Calls) -> Iterator[PartitionBatch]:
        batches = self.table.list_partitions(self.predicate, self.config)
        while True:
            with run.timed("list_partitions"):
                batch = calls.run(lambda: next(batches, None))
            if batch is None:
                return
            run.count(partitions_total=len(batch))
            run.requested(batch)
            run.opened(batch.manifests)
            yield batch

    def _with_details(
        self, run: EnumerationRun, calls: Calls, matching: PartitionBatch, predicate: Predicate
    ) -> Iterator[PartitionBatch]:
        step = self.table.partitions_per_details
        if step is None:
            yield matching
            return
        for offset in range(0, len(matching), step):
            names = matching.slice(offset, step)
            if (newer := self.predicate) is not predicate:
                names = names.take(pc.indices_nonzero(run.match(names, newer, predicate)))
            if not len(names):
                continue
            with run.timed("load_details"):
                ready = calls.run(partial(self.table.load_details, names, self.config))
            run.requested(ready)
            run.gone(len(names) - len(ready))
            if len(ready) < len(names) and self.config.missing_partition == "error":
                raise MissingPartition(
                    f"{len(names) - len(ready)} partitions were dropped while they were listed.",
                    hint="run it again, or set missing_partition to 'skip'.",
                    connector=self.table.connector_name,
                    table=self.table.name,
                )
            yield ready

    def _list_files(
        self, run: EnumerationRun, matched: MatchedPartitions, offset: int, step: int, hosts: bool
    ) -> list[FileBatch]:
        """Runs in the pool. Partitions that a late filter drops are not listed any more."""
        predicate = self.predicate
        if not pc.any(matched.keeps(predicate).slice(offset, step)).as_py():
            return []
        piece = matched.partitions.slice(offset, step)
        try:
            with run.timed("list_files"):
                batches = self.table.list_files(piece, predicate, self.config)
        except MissingPartition as error:
            run.gone(1)
            if self.config.missing_partition == "skip":
                return []
            error.hint = error.hint or "restore it, or set missing_partition to 'skip'."
            error.partition = error.partition or name_of(matched.partitions, offset)
            raise
        except SplitlibError as error:
            if step == 1:
                error.partition = error.partition or name_of(matched.partitions, offset)
            raise
        for batch in batches:
            run.requested(batch)
            run.count(files_listed=len(batch))
        return [self._with_hosts(batch) for batch in batches] if hosts else batches

    def _with_hosts(self, batch: FileBatch) -> FileBatch:
        hosts = self.table.hosts(batch.files["path"].to_pylist())
        if hosts is None:
            return batch
        column = pa.array(hosts, pa.list_(pa.string()))
        return replace(batch, files=batch.files.append_column(HOSTS, column))

    def _finish(
        self,
        run: EnumerationRun,
        calls: Calls,
        matched: MatchedPartitions,
        offset: int,
        listing: Task[list[FileBatch]],
    ) -> Iterator[SelectedFiles]:
        for batch in calls.result(listing):
            files = batch.files
            files = files.set_column(3, files.schema.field(3), pc.add(files["partition"], offset))
            # read after the listing: a filter that came meanwhile still counts
            predicate = self.predicate
            mask = matched.keeps(predicate).take(files["partition"])
            mask = pc.and_(mask, pc.greater(files["size"], 0))
            if batch.statistics:
                with run.timed("match"):
                    fits = pc.or_kleene(pc.invert(mask), predicate.match_bounds(batch.statistics))
                run.dropped(statistics=len(fits) - pc.sum(fits, min_count=0).as_py())
                mask = pc.and_(mask, fits)
            found = replace(batch, files=files).filter(mask)
            if len(found):
                order = [("partition", "ascending"), ("path", "ascending")]
                found = found.take(pc.sort_indices(found.files, sort_keys=order))
                size = pc.sum(found.files["size"]).as_py()
                run.count(files_selected=len(found), bytes_selected=size)
                yield SelectedFiles(matched.partitions, found)

    def _await_announced(self) -> None:
        with self._lock:
            self._lock.wait_for(
                lambda: not self._announced or self._cancelled.done(),
                min(self.config.filter_wait_seconds, FOREVER_SECONDS),
            )

    def _build_predicate(self) -> Predicate:
        dynamic = self._filters if self.config.dynamic_filtering_enabled else []
        filters = [*self._static_data, *dynamic]
        return Predicate(self.table.metadata.filterable, filters, self._static)


def paths(
    table: Table, *filters: DynamicFilteringData, config: SplitConfig | None = None
) -> list[str]:
    """The files of ``table`` that ``filters`` leave, each once, in the catalog's order.

    Paths are plain on the local disk and URIs elsewhere. They carry no partition values: a reader
    that needs those takes the splits of a
    :class:`~splitlib.enumeration.enumerator.DynamicFileEnumerator` instead.

    Raises:
        UnsupportedTable: if rows of a file are deleted, which its path cannot say.
    """
    enumerator = DynamicFileEnumerator(table, config)
    for data in filters:
        enumerator.set_dynamic_filtering_data(data)
    found: dict[str, None] = {}
    for selected in enumerator.select_files():
        if selected.files.deletes is not None and selected.files.deletes.null_count < len(
            selected.files
        ):
            raise UnsupportedTable(
                "Rows of the selected files are deleted, which plain paths cannot say.",
                hint="read it with splitlib.read(spark), or use the splits and their deletes.",
                connector=table.connector_name,
                table=table.name,
            )
        found.update(dict.fromkeys(selected.files.files["path"].to_pylist()))
    return list(found)
