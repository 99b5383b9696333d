"""Checks of a coordinator: its readers read every split exactly once, even if they fail.

A restored coordinator continues from a checkpoint of an earlier one. So the checks follow a chain
of coordinators, each up to the checkpoint from which the next one was restored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from splitlib.coordination.coordinator import AssignedSplit, NoMoreSplits, RequestIgnored
from tests.simulation.enumeration_checks import filters_known, filters_of, ranges_cover
from tests.simulation.history import Span
from tests.simulation.run import Run
from tests.simulation.table_model import File, Filter

Key = tuple[str, int, int]
"""Path, start and length of a split."""


class Link(NamedTuple):
    """A coordinator in a chain of restored coordinators."""

    scan: int
    snapshot: Span | None
    """Checkpoint from which the next coordinator was restored. None for the last one."""


class Handed(NamedTuple):
    """A split that was assigned to a reader."""

    key: Key
    request: Span

    @property
    def reader(self) -> tuple[str, int]:
        return self.request.reader, self.request.attempt


def chain(run: Run, scan: int) -> list[Link]:
    """Return the chain of coordinators that ends with this scan's coordinator, oldest first."""
    links = [Link(scan, None)]
    while True:
        made = [s for s in run.history.of("restore") if s.scan == links[0].scan]
        if not made:
            return links
        (snapshot,) = (s for s in run.history.of("snapshot") if s.name == made[0].snapshot)
        links.insert(0, Link(snapshot.scan, snapshot))


def handed(run: Run, scan: int) -> list[Handed]:
    """Return the splits that a scan's coordinator assigned, in the order of assignment."""
    found = []
    for span in run.history.of("request"):
        if span.scan == scan and span.end and isinstance(span.get("answer"), AssignedSplit):
            split = span.answer.split
            found.append(Handed((split.path, split.start, split.length), span))
    return sorted(found, key=lambda one: one.request.end.number)


def releases(run: Run, one: Handed) -> Iterator[Span]:
    """Yield the calls that take a split from its reader.

    The reader is removed, gives the split back, or registers a newer attempt.
    """
    reader, attempt = one.reader
    for kind in ("remove", "give back", "register"):
        for span in run.history.of(kind):
            if span.scan != one.request.scan or span.reader != reader:
                continue
            if span.end and span.end.number < one.request.begin.number:
                continue
            gives_it = kind == "give back" and span.attempt == attempt and one.key in span.splits
            goes = kind == "remove" and span.attempt in (None, attempt)
            if gives_it or goes or (kind == "register" and span.attempt > attempt):
                yield span


def acknowledgements(run: Run, one: Handed) -> list[tuple[Span, bool]]:
    """Return the reader's acknowledgements of a split, and whether each certainly counts."""
    found = []
    for span in run.history.of("acknowledge"):
        by_reader = (span.reader, span.attempt) == one.reader and span.scan == one.request.scan
        if by_reader and one.key in span.splits and one.request.before(span):
            released = [r for r in releases(run, one) if not span.before(r)]
            if not any(r.before(span) for r in released):
                found.append((span, not released))
    return found


def _readings(run: Run, scan: int) -> tuple[Counter[Key], Counter[Key]]:
    """Count the acknowledgements of each split, first the certain and then the possible ones."""
    certain: Counter[Key] = Counter()
    possible: Counter[Key] = Counter()
    for link in chain(run, scan):
        for one in handed(run, link.scan):
            found, snapshot = acknowledgements(run, one), link.snapshot
            possible[one.key] += any(
                snapshot is None or not snapshot.before(span) for span, _ in found
            )
            certain[one.key] += any(
                counts and (snapshot is None or span.before(snapshot)) for span, counts in found
            )
    return certain, possible


def _sent(run: Run, scan: int) -> list[Filter]:
    """Return all filters sent to coordinators of the chain."""
    end = len(run.history.events)
    return [f for link in chain(run, scan) for f in filters_of(run, link.scan, begun_before=end)]


def _wanted(run: Run, scan: int) -> list[File]:
    """Return the files that the readers must read."""
    filters = _sent(run, scan)
    return [f for f in run.setting.model.stable() if not any(one.drops(f) for one in filters)]


def everything_is_read(run: Run) -> Iterator[str]:
    """Check that the readers read every byte of every matching file exactly once."""
    for event in run.history.noted("drained"):
        if not event.finished:
            yield f"not finished: {event}"
        certain, possible = _readings(run, event.scan)
        yield from (f"acknowledged {n} times: {key}" for key, n in certain.items() if n > 1)
        for file in _wanted(run, event.scan):
            ranges = [key[1:] for key in possible if key[0] == file.path and possible[key]]
            if not ranges_cover(ranges, file.size):
                yield f"{sorted(ranges)} of {file}: {event}"


def one_reader_at_a_time(run: Run) -> Iterator[str]:
    """Check that a split gets a new reader only after its old reader failed or gave it back."""
    for scan in run.scans:
        latest: dict[Key, Handed] = {}
        for one in handed(run, scan):
            before = latest.get(one.key)
            if before is not None and not (_passed_on(run, before, one)):
                yield f"{one.request.end} and before {before.request.end}"
            latest[one.key] = one


def _passed_on(run: Run, one: Handed, other: Handed) -> bool:
    """Return whether a split may have passed from one reader to the other.

    If their requests overlap, either reader may have had the split first.
    """
    if any(not other.request.before(r) for r in releases(run, one)):
        return True
    overlap = not one.request.before(other.request)
    return overlap and any(not one.request.before(r) for r in releases(run, other))


def what_is_acknowledged_is_done(run: Run) -> Iterator[str]:
    """Check that an acknowledged split is never assigned again.

    Coordinators restored from a later checkpoint must not assign it either.
    """
    for scan in run.scans:
        done: dict[Key, Span] = {}
        for link in chain(run, scan):
            for one in handed(run, link.scan):
                by = done.get(one.key)
                if link.scan == scan and by is not None and by.before(one.request):
                    yield f"{one.request.end} after {by.begin}"
                for span, counts in acknowledgements(run, one):
                    if counts and (link.snapshot is None or span.before(link.snapshot)):
                        done[one.key] = span


def filters_hold(run: Run) -> Iterator[str]:
    """Check that requests made after a filter was delivered get only splits that match it."""
    for scan in run.scans:
        links = chain(run, scan)
        for one in handed(run, scan):
            known = filters_known(run, scan, at=one.request.begin.number)
            # Checkpoints do not contain file statistics, so only filters on ``k`` apply.
            if len(links) > 1:
                known = [f for f in known if f.column == "k"]
            for link in links[:-1]:
                assert link.snapshot is not None
                at = link.snapshot.begin.number
                known += [f for f in filters_known(run, link.scan, at=at) if f.column == "k"]
            file = run.setting.model.files.get(one.key[0])
            if file is None or any(f.drops(file) for f in known):
                yield f"{one.request.end}: {one.key}"


def errors_stay(run: Run) -> Iterator[str]:
    """Check that after a failed listing, all requests raise the same error."""
    for scan in run.scans:
        requests = [s for s in run.history.of("request") if s.scan == scan and s.end]
        failed = [s for s in requests if s.get("error")]
        if failed:
            first = min(failed, key=lambda s: s.end.number)
            for span in requests:
                ignored = isinstance(span.get("answer"), RequestIgnored)
                if first.before(span) and not span.get("error") and not ignored:
                    yield f"{span.end} after {first.end}"


def who_is_no_reader_is_ignored(run: Run) -> Iterator[str]:
    """Check that requests are ignored if they come too late.

    A request is too late if the coordinator is closed, or if a newer attempt of the same reader
    has registered.
    """
    closed = {s.scan: s for s in run.history.of("close")}
    for span in run.history.of("request"):
        if not span.end:
            continue
        ignored = isinstance(span.get("answer"), RequestIgnored)
        mine = [s for s in run.history.of("register") if _of_same(s, span)]
        gone = [s for s in run.history.of("remove") if _of_same(s, span)]
        newer = [s for s in mine if s.attempt > span.attempt]
        close = closed.get(span.scan)
        must = any(s.before(span) for s in newer) or (close is not None and close.before(span))
        known = any(s.before(span) for s in mine)
        may = must or bool(newer or gone) or close is not None or not known
        if (must and not ignored) or (ignored and not may):
            yield str(span.end)


def _of_same(span: Span, request: Span) -> bool:
    same = (span.scan, span.reader) == (request.scan, request.reader)
    return same and not request.before(span)


def the_end_is_the_end(run: Run) -> Iterator[str]:
    """Check that no new split is assigned after ``NoMoreSplits``.

    Splits that were assigned before may be assigned again.
    """
    for scan in run.scans:
        ends = [
            s
            for s in run.history.of("request")
            if s.scan == scan and isinstance(s.get("answer"), NoMoreSplits)
        ]
        known: set[Key] = set()
        for one in handed(run, scan):
            if one.key not in known and any(end.before(one.request) for end in ends):
                yield f"the first time: {one.request.end}"
            known.add(one.key)


def what_comes_back_comes_before_the_end(run: Run) -> Iterator[str]:
    """Check that no reader gets ``NoMoreSplits`` before all returned splits are assigned again."""
    for scan in run.scans:
        every = handed(run, scan)
        for end in run.history.of("request"):
            if end.scan != scan or not isinstance(end.get("answer"), NoMoreSplits):
                continue
            latest = {one.key: one for one in every if one.request.begin.number < end.end.number}
            filters = filters_of(run, scan, begun_before=end.end.number)
            for one in latest.values():
                back = any(r.before(end) and one.request.before(r) for r in releases(run, one))
                # The answer to an older attempt may arrive after a newer attempt read the split.
                done = any(acknowledgements(run, each) for each in every if each.key == one.key)
                dropped = any(f.drops(run.setting.model.files[one.key[0]]) for f in filters)
                if back and not done and not dropped:
                    yield f"{one.key} came back before {end.end}"


def damaged_bytes_are_refused(run: Run) -> Iterator[str]:
    """Check that a damaged checkpoint raises ``InvalidCheckpoint``."""
    for span in run.history.of("restore damaged"):
        if span.get("error") != "InvalidCheckpoint":
            yield str(span.begin)


CHECKS: list[Callable[[Run], Iterator[str]]] = [
    everything_is_read,
    one_reader_at_a_time,
    what_is_acknowledged_is_done,
    filters_hold,
    errors_stay,
    who_is_no_reader_is_ignored,
    the_end_is_the_end,
    what_comes_back_comes_before_the_end,
    damaged_bytes_are_refused,
]
