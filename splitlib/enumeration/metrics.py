"""What an enumeration did, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class ScanMetrics:
    """Counts of one enumeration, so far. Immutable."""

    partitions_total: int = 0
    """Partitions that the catalog named."""
    partitions_matched: int = 0
    """Those that passed every filter that had arrived when they were handed out."""
    files_listed: int = 0
    """Data files found in the partitions that were listed."""
    files_selected: int = 0
    """Files handed out; empty files never are."""
    splits: int = 0
    bytes_selected: int = 0
    metastore_requests: int = 0
    """Calls of the catalog while enumerating."""
    storage_requests: int = 0
    """Directory listings, and manifests read."""
    manifests_total: int = 0
    """Lists of files that the snapshot consists of, for a catalog that keeps such."""
    manifests_opened: int = 0
    """Those that may list a matching file."""
    files_total: int = 0
    """Files in all manifests; 0 where the catalog keeps none."""
    files_dropped: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """By stage: ``manifests``, ``partitions``, ``statistics``; for such a catalog."""
    seconds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By stage: ``list_partitions``, ``match``, ``load_details``, ``list_files`` (added up over
    threads), ``wait``."""

    def to_dict(self) -> dict[str, int | dict[str, int] | dict[str, float]]:
        """Plain values for JSON."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}
