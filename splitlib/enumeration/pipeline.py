"""The stages of one enumeration: from a table's partitions to the files that may match.

Every stage is lazy::

    list_partitions ─ match ─ load_details ─ match again ─ list_files (parallel) ─ match again ─►
                        ▲                        ▲                                     ▲
                        └──────── filters, which may arrive at any moment ─────────────┘

The last match also uses file statistics, if the catalog has them. Results are in the catalog's
order, although listings run in parallel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.values import python_values
from splitlib.config import SplitConfig
from splitlib.enumeration.neighbours import MatchedPartitions, Neighbours, Places
from splitlib.enumeration.tally import ScanTally
from splitlib.errors import MissingPartition, SplitlibError, TooManyPartitions
from splitlib.filtering.predicate import Predicate
from splitlib.hive.partition_values import name_of, parse, table_fields
from splitlib.model import FILE_SCHEMA, FileBatch, PartitionBatch
from splitlib.remote.calls import BoundedCalls, Task, current_call
from splitlib.statistics.row_groups import FileGroups
from splitlib.table import Table

HOSTS = "hosts"
"""Name of an optional column in :attr:`splitlib.model.FileBatch.files`: the hosts of each file."""
_PARTITION = FILE_SCHEMA.get_field_index("partition")


@dataclass(frozen=True, slots=True)
class SelectedFiles:
    """Files that match every filter, and the partitions that they belong to."""

    partitions: PartitionBatch
    """The files' partitions. Some may have no files in this batch."""
    files: FileBatch
    """Files with at least one byte. Column ``partition`` is an index into :attr:`partitions`."""
    learned: FileGroups | None = None
    """The files' row groups, for files whose footers have been read."""
    places: pa.ListArray | None = None
    """For each file, the byte ranges of its matching row groups: fields ``start`` and ``end``
    (exclusive). A null list means that they are unknown for the file, and None that they are
    unknown for all files."""

    def take(self, rows: pa.Array) -> SelectedFiles:
        """Return a selection of the files at the indexes ``rows``."""
        return SelectedFiles(
            self.partitions,
            self.files.take(rows),
            None if self.learned is None else self.learned.take(rows),
            None if self.places is None else self.places.take(rows),
        )


def typed_values(batch: PartitionBatch, keys: pa.Schema) -> dict[str, list[Any]]:
    """Return for each key the values of all partitions, as Python values of the key's type."""
    fields = table_fields(batch.values.schema, batch.fields, keys)
    return {
        field.name: python_values(parse(column, field).values)
        for field, column in zip(fields, batch.values.columns, strict=True)
    }


class _Listed(NamedTuple):
    """The result of one listing: the files of some partitions."""

    batches: list[FileBatch]
    partitions: int
    """Number of completely listed partitions, counted from the first requested one."""


class _Listing(NamedTuple):
    """A running listing of up to ``length`` matched partitions, starting at ``offset``."""

    matched: MatchedPartitions
    offset: int
    length: int
    task: Task[_Listed]


class ScanPipeline:
    """One enumeration of a table.

    Args:
        table: The table.
        config: Settings, such as the maximum number of partitions, the number of parallel
            listings, and the behaviour for missing partitions.
        predicate: Function that returns the conjunction of the filters received so far. Every
            stage calls it again.
        tally: Counts partitions, files and requests, for metrics and the report.
        hosts: Whether to add the hosts of each file, if the connector reports them.
    """

    def __init__(
        self,
        table: Table,
        config: SplitConfig,
        predicate: Callable[[], Predicate],
        tally: ScanTally,
        *,
        hosts: bool,
    ) -> None:
        self._table = table
        self._config = config
        self._predicate = predicate
        self._tally = tally
        self._hosts = hosts

    def selected_files(self, calls: BoundedCalls) -> Iterator[SelectedFiles]:
        """Yield the files that match all filters, in batches."""
        pending: deque[_Listing] = deque()
        groups = self._neighbours(self.matching_partitions(calls))
        for matched, offset, length in self._listings(calls, groups):
            # Groups depend on the number of files per partition. If this is unknown, the first
            # listing must finish before the next group is formed.
            learns = groups is not None and not self._tally.files_each()
            pending.append(self._submit(calls, matched, offset, length))
            # Two pending listings per thread keep all threads busy. More would be less lazy.
            if len(pending) >= 2 * self._config.listing_threads or learns:
                yield from self._finish(calls, pending.popleft(), groups if learns else None)
        while pending:
            yield from self._finish(calls, pending.popleft())

    def _submit(
        self, calls: BoundedCalls, matched: MatchedPartitions, offset: int, step: int
    ) -> _Listing:
        length = min(step, len(matched) - offset)
        task = calls.submit(partial(self._list_files, matched, offset, length))
        return _Listing(matched, offset, length, task)

    def _neighbours(self, matching: Iterator[MatchedPartitions]) -> Neighbours | None:
        """Return groups of partitions that one page covers, or None if a page covers only one."""
        page = self._table.files_per_page
        return Neighbours(matching, page, self._tally.files_each) if page else None

    def _listings(
        self, calls: BoundedCalls, groups: Neighbours | None
    ) -> Iterator[tuple[MatchedPartitions, int, int]]:
        """Yield for each listing call the batch of partitions, and the part's offset and length."""
        if groups is not None:
            for group in groups:
                yield group, 0, len(group)
            return
        step = self._table.partitions_per_listing
        for matched in self.matching_partitions(calls):
            for offset in range(0, len(matched), step):
                yield matched, offset, step

    def compared_partitions(
        self, calls: BoundedCalls
    ) -> Iterator[tuple[PartitionBatch, pa.BooleanArray]]:
        """Yield all partitions in batches, and for each partition whether it matches."""
        for batch in self._listed_partitions(calls):
            yield batch, self._tally.match(batch, self._predicate())

    def matching_partitions(self, calls: BoundedCalls) -> Iterator[MatchedPartitions]:
        """Yield matching partitions with their details, in batches."""
        total = listed = 0
        for batch in self._listed_partitions(calls):
            before, listed = listed, listed + len(batch)
            predicate = self._predicate()
            if predicate.matches_nothing:
                return
            mask = self._tally.match(batch, predicate)
            keep = pc.indices_nonzero(mask)
            total += len(keep)
            if batch.file_counts is not None:
                files = pc.sum(batch.file_counts.filter(pc.invert(mask))).as_py()
                self._tally.dropped(partitions=files)
            if total > self._config.max_partitions:
                raise TooManyPartitions(
                    f"More than {self._config.max_partitions} partitions match.",
                    hint="filter more, or raise max_partitions.",
                )
            if len(keep):
                matching = batch if len(keep) == len(batch) else batch.take(keep)
                places = keep.to_numpy(zero_copy_only=False).astype(np.int64) + before
                for ready, at in self._with_details(calls, matching, places, predicate):
                    if len(ready):  # empty if the table has lost all of them since the listing
                        self._tally.count(partitions_matched=len(ready))
                        yield MatchedPartitions(ready, at, predicate, self._tally)
        self._tally.warn_of_undecided()

    def _listed_partitions(self, calls: BoundedCalls) -> Iterator[PartitionBatch]:
        batches = self._table.list_partitions(self._predicate(), self._config)
        while True:
            with self._tally.timed("list_partitions"):
                batch = calls.run(lambda: next(batches, None))
            if batch is None:
                return
            self._tally.partitions(batch)
            yield batch

    def _with_details(
        self, calls: BoundedCalls, matching: PartitionBatch, places: Places, predicate: Predicate
    ) -> Iterator[tuple[PartitionBatch, Places]]:
        step = self._table.partitions_per_details
        if step is None:
            yield matching, places
            return
        for offset in range(0, len(matching), step):
            names, at = matching.slice(offset, step), places[offset:][:step]
            if (newer := self._predicate()) is not predicate:
                keep = pc.indices_nonzero(self._tally.match(names, newer, predicate))
                names, at = names.take(keep), at[keep.to_numpy(zero_copy_only=False)]
            if not len(names):
                continue
            with self._tally.timed("load_details"):
                ready = calls.run(partial(self._table.load_details, names, self._config))
            self._tally.details(ready)
            self._tally.gone(len(names) - len(ready))
            if len(ready) < len(names) and self._config.missing_partition == "error":
                raise MissingPartition(
                    f"{len(names) - len(ready)} partitions were dropped while they were listed.",
                    hint="run the query again, or set missing_partition to 'skip'.",
                )
            # If partitions were dropped, these indexes are only approximate. That is enough for
            # grouping.
            yield ready, at[: len(ready)]

    def _list_files(self, matched: MatchedPartitions, offset: int, step: int) -> _Listed:
        """List the files of ``step`` partitions, in a worker thread.

        Nothing is listed if a filter that arrived later has dropped all these partitions.
        """
        predicate = self._predicate()
        if not pc.any(matched.keeps(predicate).slice(offset, step)).as_py():
            return _Listed([], step)
        piece = matched.partitions.slice(offset, step)
        try:
            with self._tally.timed("list_files"):
                batches = self._table.list_files(piece, predicate, self._config)
        except MissingPartition as error:
            if step > 1 and self._config.missing_partition == "skip":
                # At least one partition is missing. Each one is listed alone to skip only those.
                alone = range(offset, offset + len(piece))
                found = [(i, b) for i in alone for b in self._list_files(matched, i, 1).batches]
                return _Listed([_moved(batch, i - offset) for i, batch in found], step)
            self._tally.gone(1)
            if self._config.missing_partition == "skip":
                return _Listed([], step)
            error.hint = error.hint or "restore the directory, or set missing_partition to 'skip'."
            if len(piece) == 1:
                error.partition = error.partition or name_of(matched.partitions, offset)
            raise
        except SplitlibError as error:
            if len(piece) == 1:
                error.partition = error.partition or name_of(matched.partitions, offset)
            raise
        counts = [b.partitions_listed for b in batches if b.partitions_listed is not None]
        listed = min(counts, default=len(piece))
        files = np.zeros(listed, np.int64)
        if (call := current_call()) is not None:
            self._tally.made_again(call.failed_attempts)
            call.failed_attempts = 0
        for batch in batches:
            self._tally.files(batch)
            files += np.bincount(batch.files["partition"], minlength=listed)
        self._tally.listed(files.tolist(), together=bool(self._table.files_per_page))
        if self._hosts:
            batches = [self._with_hosts(batch) for batch in batches]
        return _Listed(batches, listed)

    def _with_hosts(self, batch: FileBatch) -> FileBatch:
        hosts = self._table.hosts(batch.files["path"].to_pylist(), self._config)
        if hosts is None:
            return batch
        column = pa.array(hosts, pa.list_(pa.string()))
        return replace(batch, files=batch.files.append_column(HOSTS, column))

    def _finish(
        self, calls: BoundedCalls, listing: _Listing, others: Neighbours | None = None
    ) -> Iterator[SelectedFiles]:
        """Wait for a listing, and yield its files that match all filters.

        Partitions that the listing did not cover are put back into ``others``, or listed now.
        """
        found = calls.result(listing.task)
        more: list[_Listing] = []
        if found.partitions < listing.length:
            start = listing.offset + found.partitions
            uncovered = listing.matched.slice(start, listing.length - found.partitions)
            covered = listing.matched.slice(listing.offset, found.partitions)
            listing = listing._replace(matched=covered, offset=0)
            if others is not None and not uncovered.partitions.has_gaps:
                others.put_back(uncovered)
            else:
                pieces = self._pieces(uncovered, found.partitions)
                more = [self._submit(calls, piece, 0, len(piece)) for piece in pieces]
        for batch in found.batches:
            listed = _moved(batch, listing.offset)
            kept = listed.filter(self._keeps(listed, listing.matched))
            if len(kept):
                order = [("partition", "ascending"), ("path", "ascending")]
                kept = kept.take(pc.sort_indices(kept.files, sort_keys=order))
                yield SelectedFiles(listing.matched.partitions, kept)
        for one in more:
            yield from self._finish(calls, one)

    def _pieces(self, uncovered: MatchedPartitions, before: int) -> Iterator[MatchedPartitions]:
        """Divide partitions that a listing did not cover into parts for further listings."""
        step = before  # the next page probably covers as many partitions
        groups: Iterable[MatchedPartitions] = [uncovered]
        known = None if uncovered.partitions.has_gaps else self._neighbours(iter([uncovered]))
        if known is not None:
            groups, step = known, len(uncovered)
        if before == 1:
            # A page probably covers only one partition, so they are divided among the threads.
            step = -(-len(uncovered) // self._config.listing_threads)
        for group in groups:
            for offset in range(0, len(group), step):
                yield group.slice(offset, step)

    def _keeps(self, batch: FileBatch, matched: MatchedPartitions) -> pa.BooleanArray:
        """Return for each file whether its partition, size and statistics allow a match."""
        # The predicate is read after the listing, to use filters that arrived in the meantime.
        predicate = self._predicate()
        mask = matched.keeps(predicate).take(batch.files["partition"])
        mask = pc.and_(mask, pc.greater(batch.files["size"], 0))
        if not batch.statistics:
            return mask
        with self._tally.timed("match"):
            fits = pc.or_kleene(pc.invert(mask), predicate.match_bounds(batch.statistics))
        self._tally.dropped(statistics=len(fits) - pc.sum(fits, min_count=0).as_py())
        return pc.and_(mask, fits)


def _moved(batch: FileBatch, by: int) -> FileBatch:
    """Return a copy of the batch with ``by`` added to the files' partition indexes."""
    if not by:
        return batch
    files = batch.files
    rows = pc.add(files["partition"], by)
    return replace(batch, files=files.set_column(_PARTITION, files.schema.field(_PARTITION), rows))
