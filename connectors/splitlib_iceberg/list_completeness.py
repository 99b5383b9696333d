"""Check that a manifest list is complete, by the counts in its snapshot's summary.

A list that was truncated between two blocks decodes without an error. The summary may contain the
number of manifests, and totals of files and rows. Each total is computed from the total of the
previous snapshot, so one wrong total makes all later totals wrong. Therefore a list with more files
than the total is accepted, and also a list that lacks as many files as the list of the previous
snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from splitlib.errors import CorruptMetadata, SplitlibError
from splitlib_iceberg.manifests import live_files, live_rows

_DATA, _DELETES = ManifestContent.DATA, ManifestContent.DELETES
Manifests = Sequence[ManifestFile]


def check_whole(
    manifests: Manifests,
    snapshot: Snapshot,
    previous: Callable[[], tuple[Snapshot, Manifests] | None],
) -> None:
    """Check that a manifest list has all manifests of its snapshot.

    Args:
        manifests: Manifests in the snapshot's list.
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
        # Old Iceberg versions did not count delete manifests, so a list may have more.
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
        f"The manifest list {snapshot.manifest_list} has {count} fewer than the {what} of its "
        f"snapshot, {summary[what]}.",
        hint="if the list is complete, the snapshot's counts are wrong: Iceberg's procedure "
        "rewrite_manifests makes a snapshot with the right number of manifests.",
    )


def _missing(manifests: Manifests, summary: Mapping[str, int]) -> dict[str, int]:
    """Return the totals in the summary that the list does not reach, and how much is missing."""
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
    """Return the numeric entries of a snapshot's summary."""
    summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return {key: int(value) for key, value in summary.items() if str(value).isdecimal()}
