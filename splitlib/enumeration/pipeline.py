"""The stages of one enumeration: from a table's partitions to the files that may match.

Every stage is lazy::

    list_partitions ─ match ─ load_details ─ match again ─ list_files (parallel) ─ match again ─►
                        ▲                        ▲                                     ▲
                        └──────── filters, which may arrive at any moment ─────────────┘

The last match also uses file statistics, if the catalog has them. Results are in the catalog's
order, although listings run in parallel.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.config import SplitConfig
from splitlib.enumeration.splitting import HOSTS, SelectedFiles
from splitlib.enumeration.tally import ScanTally
from splitlib.errors import MissingPartition, SplitlibError, TooManyPartitions
from splitlib.filtering.predicate import Predicate
from splitlib.hive.partition_values import name_of
from splitlib.model import FILE_SCHEMA, FileBatch, PartitionBatch
from splitlib.remote.calls import BoundedCalls, Task, current_call
from splitlib.table import Table

Places: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class MatchedPartitions:
    """A batch of partitions that matched a predicate. A later predicate may drop some."""

    def __init__(
        self, partitions: PartitionBatch, places: Places, predicate: Predicate, tally: ScanTally
    ) -> None:
        self.partitions = partitions
        self.places = places
        """Index of each partition in the catalog's listing, ascending."""
        self._tally = tally
        self._lock = threading.Lock()
        self._predicate = predicate
        # This mask is computed on demand, because most of these objects are only sliced.
        self._keep: pa.BooleanArray | None = None

    def __len__(self) -> int:
        return len(self.partitions)

    def slice(self, offset: int, length: int | None = None) -> MatchedPartitions:
        """Return a part of the batch. From then on, use the parts instead of the batch.

        Each part counts the partitions that later filters drop from it, and the batch would count
        them a second time.
        """
        places = self.places[offset:][:length]
        partitions = self.partitions.slice(offset, len(places))
        with self._lock:
            cut = MatchedPartitions(partitions, places, self._predicate, self._tally)
            cut._keep = None if self._keep is None else self._keep.slice(offset, len(places))
            return cut

    def joined(self, later: MatchedPartitions) -> MatchedPartitions:
        """Return one batch with these partitions, followed by those in ``later``."""
        partitions = self.partitions.joined(later.partitions)
        places = np.concatenate([self.places, later.places])
        # Use this batch's predicate: its partitions were not matched with the one of ``later``.
        both = MatchedPartitions(partitions, places, self._predicate, self._tally)
        if self._keep is not None:
            both._keep = pa.concat_arrays([self._keep, later.keeps(self._predicate)])
        return both

    def keeps(self, predicate: Predicate) -> pa.BooleanArray:
        """Return a mask of the partitions that match ``predicate``.

        The result is computed only once per predicate.
        """
        with self._lock:
            keep = pa.repeat(True, len(self.partitions)) if self._keep is None else self._keep
            if predicate is not self._predicate:
                newer = self._tally.match(self.partitions, predicate, self._predicate)
                newer = pc.and_(keep, newer)
                if (counts := self.partitions.file_counts) is not None:
                    files = counts.filter(pc.and_not(keep, newer))
                    self._tally.dropped_late(pc.sum(files, min_count=0).as_py())
                lost = pc.sum(keep, min_count=0).as_py() - pc.sum(newer, min_count=0).as_py()
                self._tally.count(partitions_matched=-lost)
                keep, self._predicate = newer, predicate
            self._keep = keep
            return keep


class Neighbours:
    """Groups partitions, for storage where one listing page can cover several directories.

    A group contains partitions that are close together: their files, including the files of
    partitions in between, probably fit in one page. A partition that is far from the others is a
    group of its own. If the average number of files per partition is unknown, a group has up to
    ``files_per_page`` partitions. If the number of partitions in between is unknown, a group is a
    whole batch. The response then shows how many partitions the page covered.

    Args:
        batches: Batches of matched partitions.
        files_per_page: Maximum number of files in one page.
        files_each: Function that returns the average number of files per partition; 0 means
            unknown. It is called before each group.
    """

    def __init__(
        self,
        batches: Iterator[MatchedPartitions],
        files_per_page: int,
        files_each: Callable[[], float],
    ) -> None:
        self._batches = batches
        self._files_per_page = files_per_page
        self._files_each = files_each
        self._rest: MatchedPartitions | None = None

    def __iter__(self) -> Iterator[MatchedPartitions]:
        for batch in self._batches:
            if batch.partitions.has_gaps:
                yield from self._groups(to_end=True)
                yield batch
                continue
            self._rest = batch if self._rest is None else self._rest.joined(batch)
            yield from self._groups(to_end=False)
        yield from self._groups(to_end=True)

    def put_back(self, uncovered: MatchedPartitions) -> None:
        """Take back partitions that the listing of the last group did not cover."""
        self._rest = uncovered if self._rest is None else uncovered.joined(self._rest)

    def _groups(self, *, to_end: bool) -> Iterator[MatchedPartitions]:
        while (rest := self._rest) is not None:
            files_each = self._files_each()
            length = self._together(rest, files_each)
            if length == len(rest) and files_each and not to_end:
                return  # the next batch may contain more partitions of this group
            self._rest = rest.slice(length) if length < len(rest) else None
            yield rest.slice(0, length)

    def _together(self, matched: MatchedPartitions, files_each: float) -> int:
        """Return how many partitions at the start of ``matched`` form a group."""
        if not files_each:
            return min(self._files_per_page, len(matched))
        # A full page does not show whether more files follow, so one entry is left free.
        span = int((self._files_per_page - 1) / files_each)
        end = matched.places[0] + max(span, 1)
        return int(matched.places.searchsorted(end))


_PARTITION = FILE_SCHEMA.get_field_index("partition")


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
            # Two pending listings per thread keep threads busy. With more, late filters prune less.
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
        """Return groups for listing pages, or None if a page covers only one partition."""
        page = self._table.files_per_page
        return Neighbours(matching, page, self._tally.files_each) if page else None

    def _listings(
        self, calls: BoundedCalls, groups: Neighbours | None
    ) -> Iterator[tuple[MatchedPartitions, int, int]]:
        """Yield the partitions to list in each call, as (batch, offset, maximum length)."""
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
        """Yield all partitions in batches, each with a mask of the partitions that match."""
        for batch in self._listed_partitions(calls):
            yield batch, self._tally.match(batch, self._predicate())

    def matching_partitions(self, calls: BoundedCalls) -> Iterator[MatchedPartitions]:
        """Yield matching partitions in batches, with the details that are needed to list files."""
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
                    if len(ready):  # empty if all partitions were dropped after the listing
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
            if len(ready) < len(names):
                self._tally.gone()
                if self._config.missing_partition == "error":
                    number = len(names) - len(ready)
                    raise MissingPartition(
                        f"{number} partitions were dropped while they were listed.",
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
                # At least one partition is missing. List them one by one, to skip only those.
                alone = range(offset, offset + len(piece))
                found = [(i, b) for i in alone for b in self._list_files(matched, i, 1).batches]
                return _Listed([_moved(batch, i - offset) for i, batch in found], step)
            self._tally.gone()
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

        Partitions that the listing did not cover are put back into ``others``. Without ``others``,
        they are listed now.
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
        """Divide partitions that a listing did not cover into parts, one per additional listing."""
        step = before  # the next page probably covers as many partitions as this one
        groups: Iterable[MatchedPartitions] = [uncovered]
        known = None if uncovered.partitions.has_gaps else self._neighbours(iter([uncovered]))
        if known is not None:
            groups, step = known, len(uncovered)
        if before == 1:
            # A page probably covers only one partition, so divide the partitions among the threads.
            step = -(-len(uncovered) // self._config.listing_threads)
        for group in groups:
            for offset in range(0, len(group), step):
                yield group.slice(offset, step)

    def _keeps(self, batch: FileBatch, matched: MatchedPartitions) -> pa.BooleanArray:
        """Return a mask of the files that are not empty and may contain matching rows."""
        # The predicate is read after the listing, to use filters that arrived in the meantime.
        predicate = self._predicate()
        has_rows = pc.greater(batch.files["size"], 0)
        mask = pc.and_(matched.keeps(predicate).take(batch.files["partition"]), has_rows)
        if matched.partitions.file_counts is None:  # otherwise already counted by `keeps`
            self._tally.dropped_late(pc.sum(pc.and_not(has_rows, mask), min_count=0).as_py())
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
