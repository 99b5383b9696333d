"""Select the manifests of a snapshot that may have matching files, and read their contents.

A manifest list that was truncated between two blocks decodes without an error. So this module
checks each list against the counts in the snapshot's summary. The summary may contain the number of
manifests, and totals of files and rows. Writers compute each total from the previous snapshot's
total, so one wrong total makes all later totals wrong. Therefore a list with more files than the
total is accepted. A list with fewer files is accepted if the previous snapshot's list lacks the
same number of files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from splitlib.errors import CorruptMetadata, SplitlibError, decoding
from splitlib.model import Manifests
from splitlib.remote.calls import in_parallel
from splitlib.spi import Predicate
from splitlib_iceberg import metadata_cache
from splitlib_iceberg.delete_index import Delete, DeleteIndex, deletes_of
from splitlib_iceberg.manifest_contents import Contents, contents_of
from splitlib_iceberg.manifests import (
    Entries,
    live_files,
    live_rows,
    may_have_files,
    read_entries,
    read_list,
)
from splitlib_iceberg.partition_specs import Spec

_DATA, _DELETES = ManifestContent.DATA, ManifestContent.DELETES
ManifestFiles = Sequence[ManifestFile]
# Number of threads. They only hide storage latency, because decoding holds Python's global lock.
_THREADS = 8
# Approximate memory use of the decoded entry of a delete file, in bytes.
_DELETE_BYTES = 2000
T = TypeVar("T")


def check_whole(
    manifests: ManifestFiles,
    snapshot: Snapshot,
    previous: Callable[[], tuple[Snapshot, ManifestFiles] | None],
) -> None:
    """Check that a manifest list contains all manifests of its snapshot.

    Args:
        manifests: The manifests in the snapshot's list.
        snapshot: The snapshot.
        previous: Function that returns the previous snapshot and the manifests in its list, or
            None if they are unavailable.

    Raises:
        CorruptMetadata: if manifests are missing.
    """
    summary = _numbers(snapshot)
    created, kept = summary.get("manifests-created"), summary.get("manifests-kept")
    if created is not None and kept is not None:
        if created + kept == len(manifests):
            return
        # Old Iceberg versions did not count delete manifests, so a list may have more manifests
        # than its snapshot counts.
        if created + kept > len(manifests):
            raise CorruptMetadata(
                f"The manifest list {snapshot.manifest_list} has {len(manifests)} manifests, "
                f"but its snapshot counts {created + kept}."
            )
    missing = _missing(manifests, summary)
    if not missing:
        return
    try:
        earlier = previous()
    except SplitlibError:  # without the previous list, assume that the totals are right
        earlier = None
    if earlier is not None and _missing(earlier[1], _numbers(earlier[0])) == missing:
        return
    what, count = next(iter(missing.items()))
    raise CorruptMetadata(
        f"The manifest list {snapshot.manifest_list} is incomplete: {what} is {summary[what]} in "
        f"the snapshot's summary, and {summary[what] - count} in the manifests of the list.",
        hint="if no manifest is missing, the summary is wrong: Iceberg's procedure "
        "rewrite_manifests makes a snapshot with the right number of manifests.",
    )


def _missing(manifests: ManifestFiles, summary: Mapping[str, int]) -> dict[str, int]:
    """Return the totals in the summary that exceed the list's counts, as name and difference."""
    data = [m for m in manifests if m.content == _DATA]
    listed = {
        "total-data-files": _sum(map(live_files, data)),
        "total-delete-files": _sum(live_files(m) for m in manifests if m.content == _DELETES),
    }
    if "total-data-files" not in summary:
        listed["total-records"] = _sum(map(live_rows, data))
    return {
        what: summary[what] - count
        for what, count in listed.items()
        if count is not None and count < summary.get(what, 0)
    }


def _sum(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _numbers(snapshot: Snapshot) -> dict[str, int]:
    """Return the numeric entries of a snapshot's summary, such as ``total-records``."""
    summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return {key: int(value) for key, value in summary.items() if str(value).isdecimal()}


class Plan(NamedTuple):
    """The data manifests that may list files matching a predicate."""

    by_spec: dict[Spec, list[int]]
    """Indexes of manifests in the manifest list, by partition specification."""
    counts: Manifests
    """Counts of the selected and skipped manifests, for reports."""
    reads: int
    """Number of metadata files that were read to make the plan."""


@dataclass(frozen=True, slots=True)
class _Deletes:
    """A cached index of the delete files in some manifests."""

    manifests: tuple[int, ...]
    index: DeleteIndex


class SnapshotFiles:
    """Reads and caches a snapshot's manifest list and manifests. Thread-safe.

    Args:
        files: The table's FileIO.
        snapshot: The snapshot, or None for a table without snapshots.
        parent: The previous snapshot, or None if it is not available.
        specs: The table's partition specifications by id.
    """

    def __init__(
        self,
        files: FileIO,
        snapshot: Snapshot | None,
        parent: Snapshot | None,
        specs: dict[int, Spec],
    ) -> None:
        self._files = files
        self._identity = metadata_cache.identity_of(files)
        self._snapshot = snapshot
        self._parent = parent
        self._specs = specs
        self._lock = threading.Lock()
        # Contents of the selected manifests. They stay here even if the shared cache evicts them,
        # because each call of `list_files` uses only a part of the files, and later calls need the
        # same contents again.
        self._held: dict[int, Contents] = {}
        self._deletes = _Deletes((), DeleteIndex([]))

    def plan(self, predicate: Predicate) -> Plan:
        """Select manifests that may have matching data files, using the list's partition summaries.

        Raises:
            MissingFile, CorruptMetadata, SourceUnavailable: if the list cannot be read.
        """
        manifests, reads = self._list()
        numbers = [i for i, m in enumerate(manifests) if m.content == ManifestContent.DATA]
        by_spec = self._matching(manifests, numbers, predicate)
        opened = {number for chosen in by_spec.values() for number in chosen}
        with self._lock:
            self._held = {n: held for n, held in self._held.items() if n in opened}
        files = {n: live_files(manifests[n]) or 0 for n in numbers}
        skipped = sum(count for n, count in files.items() if n not in opened)
        counts = Manifests(len(numbers), len(opened), sum(files.values()), skipped)
        return Plan(by_spec, counts, reads)

    def read(self, numbers: Sequence[int], *, statistics: bool) -> tuple[dict[int, Contents], int]:
        """Read data manifests, unless their contents are cached.

        Args:
            numbers: Indexes of the manifests in the manifest list.
            statistics: Whether to read the statistics of the data files.

        Returns:
            The contents by index, and the number of metadata files that were read.

        Raises:
            MissingFile, CorruptMetadata, SourceUnavailable: if a manifest cannot be read.
        """
        manifests, reads = self._list()
        with self._lock:
            held = dict(self._held)
        found: dict[int, Contents] = {}
        for number in numbers:
            manifest = manifests[number]
            known = held.get(number)
            if known is None:
                key = self._key(manifest.manifest_path, self._spec_of(manifest))
                known = metadata_cache.shared.get(key)
            if known is not None and (known.statistics is not None or not statistics):
                found[number] = known
        missing = [number for number in numbers if number not in found]
        read = partial(self._read, statistics=statistics)
        contents = in_parallel(read, [manifests[number] for number in missing], _THREADS)
        found.update(zip(missing, contents, strict=True))
        with self._lock:
            self._held.update(found)
        return {number: found[number] for number in numbers}, reads + len(missing)

    def deletes(self, predicate: Predicate) -> tuple[DeleteIndex, int]:
        """Return an index of the delete files of matching partitions, and a number of reads.

        The number is that of manifest lists and manifests that were not cached.

        Raises:
            UnsupportedTable: for a delete file that cannot be applied.
            MissingFile, CorruptMetadata, SourceUnavailable: if a manifest cannot be read.
        """
        manifests, reads = self._list()
        numbers = [i for i, m in enumerate(manifests) if m.content == ManifestContent.DELETES]
        # The predicate selects delete files in the same way as data files: a delete file has the
        # same partition as the data files that it applies to, or no partition.
        matching = self._matching(manifests, numbers, predicate)
        chosen = tuple(sorted(n for of_spec in matching.values() for n in of_spec))
        with self._lock:
            known = self._deletes
            if known.manifests == chosen:
                return known.index, reads
        lists = in_parallel(self._read_deletes, [manifests[number] for number in chosen], _THREADS)
        index = DeleteIndex(delete for deletes, _ in lists for delete in deletes)
        with self._lock:
            self._deletes = _Deletes(chosen, index)
        return index, reads + sum(read for _, read in lists)

    def spec_of(self, number: int) -> Spec:
        """Return the partition specification of the manifest at index ``number`` in the list."""
        return self._spec_of(self._list()[0][number])

    def close(self) -> None:
        """Release the manifest contents in memory."""
        with self._lock:
            self._held = {}
            self._deletes = _Deletes((), DeleteIndex([]))

    def _matching(
        self, manifests: Sequence[ManifestFile], numbers: Sequence[int], predicate: Predicate
    ) -> dict[Spec, list[int]]:
        by_spec: dict[Spec, list[int]] = {}
        for number in numbers:
            manifest = manifests[number]
            if may_have_files(manifest):
                by_spec.setdefault(self._spec_of(manifest), []).append(number)
        for spec, chosen in by_spec.items():
            if spec.fields:
                known = spec.summaries([manifests[number] for number in chosen])
                keep = predicate.match_bounds(known, spec.fields)
                by_spec[spec] = [chosen[i] for i in pc.indices_nonzero(keep).to_pylist()]
        return {spec: chosen for spec, chosen in by_spec.items() if chosen}

    def _spec_of(self, manifest: ManifestFile) -> Spec:
        spec = self._specs.get(manifest.partition_spec_id)
        if spec is None:
            raise CorruptMetadata(
                f"The manifest {manifest.manifest_path} uses the partition specification "
                f"{manifest.partition_spec_id}, which the table does not have."
            )
        return spec

    def _list(self) -> tuple[list[ManifestFile], int]:
        if self._snapshot is None:
            return [], 0
        path = self._snapshot.manifest_list
        manifests = metadata_cache.shared.get(self._key(path))
        if manifests is not None:
            return manifests, 0
        manifests = read_list(self._files, path)
        check_whole(manifests, self._snapshot, self._previous)
        size = sum(len(m.manifest_path) + 200 * (1 + len(m.partitions or ())) for m in manifests)
        metadata_cache.shared.put(self._key(path), manifests, size)
        return manifests, 1

    def _previous(self) -> tuple[Snapshot, list[ManifestFile]] | None:
        if self._parent is None:
            return None
        return self._parent, read_list(self._files, self._parent.manifest_list)

    def _read(self, manifest: ManifestFile, *, statistics: bool) -> Contents:
        spec = self._spec_of(manifest)
        contents = self._decoded(manifest, lambda e: contents_of(e, spec, statistics=statistics))
        metadata_cache.shared.put(
            self._key(manifest.manifest_path, spec), contents, contents.nbytes
        )
        return contents

    def _read_deletes(self, manifest: ManifestFile) -> tuple[list[Delete], int]:
        spec = self._spec_of(manifest)
        key = self._key(manifest.manifest_path, spec)
        deletes: list[Delete] | None = metadata_cache.shared.get(key)
        if deletes is not None:
            return deletes, 0
        deletes = self._decoded(manifest, lambda entries: list(deletes_of(entries, spec)))
        metadata_cache.shared.put(key, deletes, _DELETE_BYTES * len(deletes))
        return deletes, 1

    def _decoded(self, manifest: ManifestFile, decode: Callable[[Entries], T]) -> T:
        entries = read_entries(self._files, manifest)
        with decoding(f"The manifest {manifest.manifest_path}"):
            return decode(entries)

    def _key(self, path: str, spec: Spec | None = None) -> tuple[object, ...]:
        """Return a file's cache key, which includes the specification used for decoding."""
        return self._identity, path, None if spec is None else spec.signature
