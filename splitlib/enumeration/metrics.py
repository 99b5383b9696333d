"""What an enumeration did, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class ScanMetrics:
    """Counts of one enumeration, so far. Immutable.

    Attributes:
        partitions_total: Partitions that the catalog named: all of the table, unless they were
            asked for by name, as :attr:`splitlib.ScanReport.asked_for` says.
        partitions_matched: Those that passed every filter that had arrived when they were handed
            out.
        files_listed: Data files found in the partitions that were listed.
        files_selected: Files handed out; empty files never are.
        splits: Splits made of the files handed out.
        bytes_selected: Size of the files handed out.
        metastore_requests: Calls of the catalog while enumerating.
        storage_requests: Directory listings, page by page, those that failed and were made again
            too; and manifests read.
        manifests_total: Lists of files that the snapshot consists of, for a catalog that keeps
            such.
        manifests_opened: Those that may list a matching file.
        files_total: Files in all manifests; 0 where the catalog keeps none.
        files_dropped: By stage: ``manifests``, ``partitions``, ``statistics``; for such a catalog.
        seconds: By stage: ``list_partitions``, ``match``, ``load_details``, ``list_files`` (added
            up over threads), ``wait``.
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
        """Plain values for JSON."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}
