"""Counts of an enumeration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class ScanMetrics:
    """Counts of one enumeration, up to now. Immutable.

    Attributes:
        partitions_total: Number of partitions that the catalog returned. This is all of the table,
            unless they were requested by name; see :attr:`splitlib.ScanReport.asked_for`.
        partitions_matched: Number of partitions that passed every filter received before their
            files were returned.
        files_listed: Number of data files in the listed partitions.
        files_selected: Number of files returned; empty files never are.
        splits: Number of splits made of the returned files.
        bytes_selected: Total size of the returned files, in bytes.
        metastore_requests: Number of requests to the catalog while enumerating.
        storage_requests: Number of pages of directory listings, including retries, plus the
            number of manifests read.
        manifests_total: Number of manifests of the snapshot, for catalogs that have manifests.
        manifests_opened: Number of manifests opened because they may contain a matching file.
        files_total: Number of files in all manifests; 0 without manifests.
        files_dropped: Number of files dropped by each stage: ``manifests``, ``partitions``,
            ``statistics``; empty without manifests.
        seconds: Seconds by stage: ``list_partitions``, ``match``, ``load_details``, ``list_files``
            (sum of all threads), ``wait``.
    """

    partitions_total: int = 0
    partitions_matched: int = 0
    files_listed: int = 0
    files_selected: int = 0
    splits: int = 0
    bytes_selected: int = 0
    metastore_requests: int = 0
    storage_requests: int = 0
    manifests_total: int = 0
    manifests_opened: int = 0
    files_total: int = 0
    files_dropped: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    seconds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def to_dict(self) -> dict[str, int | dict[str, int] | dict[str, float]]:
        """Return the counts as plain values for JSON."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}
