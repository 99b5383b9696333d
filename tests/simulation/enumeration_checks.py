"""Checks that an enumeration is complete, has no duplicates, applies filters and counts right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.simulation.history import Span
from tests.simulation.run import EPSILON, Run
from tests.simulation.table_model import File, Filter

# Maximum time that splitlib waits until threads end: 0.2 seconds for each of its two thread pools.
_TIDY_SECONDS = 2 * 0.2


def filters_of(run: Run, scan: int, *, begun_before: int) -> list[Filter]:
    """Return the filters that a scan may have received before an event."""
    sent = (s for s in run.history.of("deliver") if s.scan == scan and not s.get("error"))
    return [span.filter for span in sent if span.begin.number < begun_before]


def filters_known(run: Run, scan: int, *, at: int) -> list[Filter]:
    """Return the filters that a scan has certainly received before an event."""
    sent = (s for s in run.history.of("deliver") if s.scan == scan and not s.get("error"))
    return [span.filter for span in sent if span.end and span.end.number < at]


def ranges_cover(ranges: list[tuple[int, int]], size: int) -> bool:
    """Return whether the ranges ``(start, length)`` cover every byte exactly once."""
    reached = 0
    for start, length in sorted(ranges):
        if start != reached or length <= 0:
            return False
        reached += length
    return reached == size


def _given(run: Run, whole: Span) -> list[Any]:
    steps = (s for s in run.history.of("next") if s.of == whole.begin.number)
    return [one for step in steps for one in step.get("answer") or ()]


def _complete(run: Run, *ways: str) -> Iterator[tuple[Span, list[Any], list[Filter]]]:
    """Yield each complete enumeration with its results and the filters that may have applied."""
    for whole in run.history.of("enumerate"):
        if whole.how in ways and whole.get("outcome") == "complete":
            filters = filters_of(run, whole.scan, begun_before=whole.end.number)
            yield whole, _given(run, whole), filters


def what_is_complete_has_every_file(run: Run) -> Iterator[str]:
    """Check that splits cover each byte once, for matching files that existed in the whole run."""
    for whole, given, filters in _complete(run, "splits", "files"):
        for file in run.setting.model.stable():
            if not any(one.drops(file) for one in filters):
                ranges = [(start, length) for path, start, length in given if path == file.path]
                if not ranges_cover(ranges, file.size):
                    yield f"{ranges} of {file}: {whole.end}"


def what_is_complete_has_every_partition(run: Run) -> Iterator[str]:
    """Check that each matching partition that existed in the whole run is returned once."""
    for whole, given, filters in _complete(run, "partitions", "matches"):
        stable = {file.k for file in run.setting.model.files.values() if file.born < 0}
        for k in stable & run.setting.model.partitions.keys():
            of_keys = [one for one in filters if one.column == "k"]
            if all(k in one.values for one in of_keys) and given.count((k, True)) != 1:
                yield f"k={k} {given.count((k, True))} times: {whole.end}"


def nothing_comes_twice(run: Run) -> Iterator[str]:
    """Check that nothing is returned twice, even in an enumeration that fails later."""
    for whole in run.history.of("enumerate"):
        given = _given(run, whole)
        if len(set(given)) != len(given):
            yield f"{whole.begin}: {given}"


def nothing_is_made_up(run: Run) -> Iterator[str]:
    """Check that each split is a non-empty range within an existing file."""
    for whole in run.history.of("enumerate"):
        if whole.how in ("splits", "files"):
            for path, start, length in _given(run, whole):
                file = run.setting.model.files.get(path)
                if file is None or not 0 <= start < start + length <= file.size:
                    yield f"{path} {start} {length} in {whole.begin}"


def the_order_is_that_of_the_catalog(run: Run) -> Iterator[str]:
    """Check that results are sorted by partition, path and start."""
    files = run.setting.model.files
    for whole in run.history.of("enumerate"):
        given = _given(run, whole)
        if whole.how in ("splits", "files"):
            given = [(files[path].k, path, start) for path, start, _ in given]
        if given != sorted(given):
            yield f"{whole.begin}: {given}"


def a_filter_holds_for_what_comes_after_it(run: Run) -> Iterator[str]:
    """Check that results requested after a filter was delivered match that filter."""
    for step in run.history.of("next"):
        known = filters_known(run, step.scan, at=step.begin.number)
        for one in step.get("answer") or ():
            if step.how in ("partitions", "matches"):
                k, kept = one
                bad = kept and any(f.column == "k" and k not in f.values for f in known)
            else:
                file = run.setting.model.files[one[0]]
                bad = any(f.drops(file) for f in known) and not _is_begun(run, step, file)
            if bad:
                yield f"{one} in {step.end}"


def _is_begun(run: Run, step: Span, file: File) -> bool:
    """Return whether earlier splits came from the same partition or listing page as a file."""
    if step.how == "files":
        return False
    files = run.setting.model.files
    earlier = {
        path
        for s in run.history.of("next")
        if s.of == step.of and s.begin.number < step.begin.number and s.get("answer")
        for path, _, _ in s.end.answer
    }
    pages = run.setting.abilities.per_page > 0
    told = [c.answer for c in run.calls(step.scan) if c.begin.kind == "list_files" and pages]
    return any(files[path].k == file.k for path in earlier) or any(
        file.path in page and not earlier.isdisjoint(page) for page in told
    )


def what_has_gone_is_noticed(run: Run) -> Iterator[str]:
    """Check that a recreated table raises an error, and a missing partition if configured."""
    setting = run.setting
    for whole in run.history.of("enumerate"):
        if whole.get("outcome") != "complete":
            continue
        filters = filters_of(run, whole.scan, begun_before=whole.end.number)
        span = range(whole.begin.number, whole.end.number)
        missed = [c for c in run.calls(whole.scan) if c.get("missing") is not None]
        for call in missed:
            if call.begin.number not in span or call.end is None or call.end.number not in span:
                continue
            wanted = all(f.column != "k" or call.missing in f.values for f in filters)
            if setting.config.missing_partition == "error" and wanted:
                yield f"{call.end} and {whole.end}"
            recreated = setting.model.recreated
            checked = setting.abilities.identity and not any(not f.values for f in filters)
            if recreated and checked and call.begin.number > recreated.number:
                yield f"{recreated} and {whole.end}"


def too_many_partitions_are_an_error(run: Run) -> Iterator[str]:
    """Check that an enumeration fails if more partitions match than ``max_partitions``."""
    for whole, _, _ in _complete(run, "splits", "files", "partitions"):
        if whole.metrics.partitions_matched > run.setting.config.max_partitions:
            yield str(whole.end)


def the_metrics_count_what_was_given(run: Run) -> Iterator[str]:
    """Check that the metrics contain the right numbers of splits, files and bytes."""
    for whole, given, _ in _complete(run, "splits"):
        metrics = whole.metrics
        expected = (len(given), len({path for path, _, _ in given}), sum(n for _, _, n in given))
        if (metrics.splits, metrics.files_selected, metrics.bytes_selected) != expected:
            yield f"{expected}: {whole.end}"


def nobody_waits_in_vain(run: Run) -> Iterator[str]:
    """Check that a wait ends when its calls end, at a deadline, or when the scan is cancelled."""
    config = run.setting.config
    cancels = [s.end.at for s in run.history.of("cancel") if s.end]
    call_seconds = config.call_deadline_seconds or float("inf")
    for whole in run.history.of("enumerate"):
        waited = 0.0
        steps = [s for s in run.history.of("next") if s.of == whole.begin.number and s.end]
        for number, step in enumerate(steps):
            excused = config.filter_wait_seconds if number == 0 else 0.0
            excused += _TIDY_SECONDS + EPSILON
            waited += step.seconds
            stalled = step.end.stalled - whole.begin.stalled
            until = [step.begin.at]
            for task in run.history.of("task"):
                if task.begin.number < step.end.number:
                    ended = task.end.at if task.end else float("inf")
                    until.append(min(ended, task.begin.at + call_seconds))
            latest = max(until) + excused
            if cancels:
                latest = min(latest, max(step.begin.at, cancels[0]) + EPSILON)
            if step.end.at > latest + stalled:
                yield f"until {step.end.at}, not {latest}: {step.end}"
        most = config.enumeration_deadline_seconds or float("inf")
        if waited > most + config.filter_wait_seconds + _TIDY_SECONDS + EPSILON:
            yield f"{waited} seconds in all: {whole.begin}"


CHECKS: list[Callable[[Run], Iterator[str]]] = [
    what_is_complete_has_every_file,
    what_is_complete_has_every_partition,
    nothing_comes_twice,
    nothing_is_made_up,
    the_order_is_that_of_the_catalog,
    a_filter_holds_for_what_comes_after_it,
    what_has_gone_is_noticed,
    too_many_partitions_are_an_error,
    the_metrics_count_what_was_given,
    nobody_waits_in_vain,
]
