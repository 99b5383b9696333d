"""Whether a manifest list is whole, by what its snapshot says of itself.

A list that was cut between two blocks decodes without an error. What a snapshot says is optional,
and the totals are carried on from snapshot to snapshot: a writer that once counted wrongly makes
them wrong for good. So totals prove nothing where the list has more than they say, nor where the
snapshot before is off by as much.
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
    """Refuse a list that lacks manifests.

    Args:
        manifests: What the list of the snapshot has.
        snapshot: The snapshot.
        previous: Gives the snapshot before it and its list; None if that is not known any more.

    Raises:
        CorruptMetadata: if some are missing.
    """
    summary = _numbers(snapshot)
    created, kept = summary.get("manifests-created"), summary.get("manifests-kept")
    if created is not None and kept is not None:
        if created + kept == len(manifests):
            return
        # Iceberg once counted no manifests of deletes, and so a list may have more
        if created + kept > len(manifests):
            raise CorruptMetadata(
                f"The manifest list {snapshot.manifest_list} has {len(manifests)} manifests, "
                f"its snapshot says {created + kept}."
            )
    missing = _missing(manifests, summary)
    if not missing:
        return
    try:
        earlier = previous()
    except SplitlibError:  # its list may have gone: then it excuses nothing
        earlier = None
    if earlier is not None and _missing(earlier[1], _numbers(earlier[0])) == missing:
        return
    what, count = next(iter(missing.items()))
    raise CorruptMetadata(
        f"The manifest list {snapshot.manifest_list} has {count} less than the {what} of its "
        f"snapshot, {summary[what]}.",
        hint="if the list is whole, its writer has counted wrongly: Iceberg's procedure "
        "rewrite_manifests makes a snapshot that says how many manifests it has.",
    )


def _missing(manifests: Manifests, summary: Mapping[str, int]) -> dict[str, int]:
    """What the list lacks of each total; without those that it has in full, or that are unknown."""
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
    """What a snapshot says of itself in numbers."""
    summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return {key: int(value) for key, value in summary.items() if str(value).isdecimal()}
