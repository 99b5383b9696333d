"""splitlib with a bug each, which a check has to find.

A bug is a method of splitlib with some of its source exchanged; that what is exchanged must be there
keeps them up to date.
"""

from __future__ import annotations

import __future__

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, cast
from unittest import mock

from splitlib.coordination.coordinator import DynamicFileSplitEnumerator as Coordinator
from splitlib.coordination.prefetch import SplitPrefetcher
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.matched_partitions import MatchedPartitions
from splitlib.enumeration.pipeline import ScanPipeline
from splitlib.enumeration.received_filters import ReceivedFilters
from splitlib.remote import retry
from splitlib.remote.bounded_calls import BoundedCalls
from splitlib.remote.calls import Call
from splitlib.remote.workers import Task, Workers
from splitlib.table import Table

BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {}


@contextmanager
def _planted(owner: Any, name: str, changes: tuple[tuple[str, str], ...]) -> Iterator[None]:
    kept = inspect.getattr_static(owner, name)
    function = inspect.unwrap(getattr(owner, name))
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in changes:
        assert source.count(old) == 1, f"{old!r} is {source.count(old)} times in {name}"
        source = source.replace(old, new)
    # of the same file, so that threads are interrupted in it as well
    code = compile(
        source,
        inspect.getfile(function),
        "exec",
        flags=__future__.annotations.compiler_flag,
        dont_inherit=True,
    )
    made: dict[str, Any] = {}
    module = sys.modules[function.__module__]
    exec(code, vars(module), made)
    if inspect.ismodule(owner):
        with mock.patch.object(owner, name, made[name]):
            yield
        return
    setattr(owner, name, made[name])
    try:
        yield
    finally:
        setattr(owner, name, kept)


def _bug(what: str, owner: Any, name: str, *changes: str) -> None:
    """Exchange ``changes``, old and new in turn, in the method ``name``."""
    pairs = tuple(zip(changes[::2], changes[1::2], strict=True))
    BUGS[what] = cast(
        Callable[[], AbstractContextManager[None]], partial(_planted, owner, name, pairs)
    )


# waits and deadlines
_bug("a cancel that wakes nobody", BoundedCalls, "result", "[task.outcome, self._cancelled]", "[task.outcome]")
_bug("the deadline of a call is not looked at", BoundedCalls, "result", "min(remaining, self._left_seconds)", "self._left_seconds")
_bug("the deadline of an enumeration never comes", BoundedCalls, "result", "self._left_seconds -= time.monotonic() - started", "pass")
_bug("waits spin after a deadline", BoundedCalls, "_check_deadlines", "if not task.call.remaining_seconds():", "if False:")
_bug("a late answer is waited for and believed", BoundedCalls, "_check_deadlines", "raise task.call.overdue()", "task.outcome.exception()")
_bug("a deadline of twice the time", Call, "begin", "+ self.seconds", "+ 2 * self.seconds")
_bug("threads of an enumeration are never stopped", BoundedCalls, "__exit__", "self._stop(TIDY_SECONDS if tidy else 0)", "pass")
_bug("a cancelled scan begins again", BoundedCalls, "check_cancelled", "self._cancelled.done()", "False")

# workers
_bug("an idle thread is not woken", Workers, "submit", "self._changed.notify()", "pass")
_bug("one thread too many", Workers, "submit", "self._threads < self._most", "self._threads <= self._most")
_bug("idle threads are not told to end", Workers, "stop", "self._changed.notify_all()", "pass")
_bug("nobody is told that he may stop", Task, "abandon", "self.call.abandoned.set()", "pass")
_bug("an error is a result", Task, "run", "self.outcome.set_exception(error)", "self.outcome.set_result([])")

# retries
_bug("one attempt too many", retry, "retrying", "attempt >= config.retry_attempts", "attempt > config.retry_attempts")
_bug("everything is tried again", retry, "retrying", "except SourceUnavailable as error", "except Exception as error")
_bug("nothing is tried again", retry, "retrying", "attempt >= config.retry_attempts or late", "True or late")
_bug("retries know no end", retry, "retrying", "time.monotonic() - started + pause > config.retry_max_seconds", "False")
_bug("retries go on when nobody waits", retry, "retrying", "current.abandoned.wait(pause)", "time.sleep(pause)")

# calls of the connector
_bug("a listing of partitions goes on after an error", Table, "list_partitions", "once = replace(config, retry_attempts=1)", "once = config")
_bug(
    "a retry doubles files",
    Table,
    "list_files",
    "def find() -> list[FileBatch]:",
    "kept = []\n\n    def find():",
    "return [checked_files(batch, partitions, self.metadata) for batch in found]",
    "kept.extend(checked_files(batch, partitions, self.metadata) for batch in found)\n        return kept",
)
_bug("a deadline does not say of which table", DynamicFileEnumerator, "_running", "error_context(connector=table.connector_name, table=table.name)", "error_context(connector=table.connector_name)")

# one enumeration
_bug("an unreadable partition counts as empty", ScanPipeline, "_list_files", "except SplitlibError as error:", "except OSError as error:\n        return []\n    except SplitlibError as error:")
_bug("a partition that has gone counts as empty", ScanPipeline, "_list_files", "self._tally.gone(1)", "return []")
_bug("details that are missing are no error", ScanPipeline, "_with_details", "len(ready) < len(names) and", "False and")
_bug("details that are missing are not counted", ScanPipeline, "_with_details", "self._tally.gone(len(names) - len(ready))", "pass")
_bug("a filter that comes during a listing is late", ScanPipeline, "_keeps", "predicate = self._predicate()", "predicate = matched._predicate")
_bug("a newer filter drops no partition", MatchedPartitions, "keeps", "predicate is not self._predicate", "False")
_bug("the last listing is forgotten", ScanPipeline, "selected_files", "while pending:", "while len(pending) > 1:")
_bug("listings end in another order", ScanPipeline, "selected_files", "    while pending:\n        yield from self._finish(calls, pending.popleft())", "    while pending:\n        yield from self._finish(calls, pending.pop())")
_bug("files move to the first partitions", ScanPipeline, "_finish", "_moved(batch, listing.offset)", "_moved(batch, 0)")
_bug("any number of partitions", ScanPipeline, "matching_partitions", "total > self._config.max_partitions", "False")
_bug("another table of the same name", DynamicFileEnumerator, "_running", "if tally.partitions_have_gone and", "if False and")

# filters
_bug("a filter wakes nobody", ReceivedFilters, "add", "self._changed.notify_all()", "pass")
_bug("a filter stays announced", ReceivedFilters, "add", "self._announced.discard(producer)", "pass")
_bug("only the newest filter holds", ReceivedFilters, "add", "self._build(self._filters)", "self._build([data])")
_bug("a producer may change its mind", ReceivedFilters, "add", "if known != data:", "if False:")
_bug("filters are waited for without end", ReceivedFilters, "await_announced", "min(seconds, FOREVER_SECONDS)", "None")
_bug("filters are not waited for", ReceivedFilters, "await_announced", "not self._announced or", "True or")
_bug("a cancel does not end the wait for filters", ReceivedFilters, "cancel", "self._changed.notify_all()", "pass")

# the thread that enumerates ahead
_bug("a wake-up is lost between a look and a wait", SplitPrefetcher, "_wait_for_room", "if self._sent >= self._wanted and not self._closed:", "if True:")
_bug("a close does not wake the thread", SplitPrefetcher, "stop", "self._go_on.set()", "pass")
_bug("a close cancels nothing", SplitPrefetcher, "stop", "self._enumerator.cancel()", "pass")
_bug("the thread is not told to go on", SplitPrefetcher, "taken", "waiting < BUFFERED_SPLITS // 2", "False")
_bug("an error ahead looks like the end", SplitPrefetcher, "_run", "except SplitlibError as error:\n        self.error = error", "except SplitlibError:\n        pass")
_bug("the end is told before the error", SplitPrefetcher, "_run", "except SplitlibError as error:\n        self.error = error", "except SplitlibError as error:\n        self.complete = True\n        self.error = error")
_bug("splits claim a filter that they have not passed", SplitPrefetcher, "_arrivals", "            if splits:\n                yield Arrival(predicate,", "            if splits:\n                yield Arrival(self._enumerator.predicate,")
_bug("files are not remembered", SplitPrefetcher, "_arrivals", "file_ids += known_by", "pass")
_bug("what a checkpoint knows is listed again", SplitPrefetcher, "_arrivals", "known_by in self._left_out", "False")

# the coordinator
_bug("an acknowledged split is kept", Coordinator, "acknowledge", "del self._assigned[split.split_id]", "pass")
_bug("a newer attempt does not take over", Coordinator, "register_reader", "self._take_back(reader_id)", "pass")
_bug("a reader that goes keeps its splits", Coordinator, "remove_reader", "self._take_back(reader_id)", "pass")
_bug("an older attempt is heard", Coordinator, "_reader", "attempt not in (None, reader.attempt)", "False")
_bug("anybody acknowledges any split", Coordinator, "_holds", "held is not None and held[1] == reader_id", "held is not None")
_bug("a checkpoint forgets what is being read", Coordinator, "snapshot_state", "[tracked for tracked, _ in self._assigned.values()] + waiting", "waiting")
_bug("a checkpoint of a failed listing is complete", Coordinator, "_receive", "complete and self._prefetcher.error is None", "complete")
_bug("a restored coordinator lists nothing", Coordinator, "restore", "complete=checkpoint.complete", "complete=True")
_bug("a restored coordinator forgets its filters", Coordinator, "restore", "enumerator.set_dynamic_filtering_data(event.data, event.producer)", "pass")
_bug("the end is looked at too late", Coordinator, "_receive", "return complete and", "return self._prefetcher.complete and")
_bug("splits come back unfiltered", Coordinator, "_put_back", "self._still_wanted(returned, self._passed)", "returned")
_bug("arriving splits are not filtered", Coordinator, "_receive", "if arrival.predicate is not predicate:", "if False:")
_bug("waiting splits are not filtered", Coordinator, "_receive", "if predicate is not self._passed:", "if False:")
_bug("readers are not told of an error", Coordinator, "handle_split_request", "raise copy.copy(error) from error", "pass")
_bug("a closed coordinator answers", Coordinator, "close", "self._closed = True", "pass")
