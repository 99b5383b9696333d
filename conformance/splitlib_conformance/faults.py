"""Tests that a failing source leads to a retry or the right error, but never to missing files.

The source is the catalog or storage that the connector calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import pytest

from splitlib import (
    AccessDenied,
    DynamicFileEnumerator,
    FileSplit,
    SourceUnavailable,
    SplitConfig,
    SplitlibError,
)
from splitlib_conformance.base import KitBase, Subject, enumerator
from splitlib_conformance.expectations import expect, expect_files
from splitlib_conformance.harness import Harness
from splitlib_conformance.source_calls import Call, SourceCalls

_PARTITIONS = 2
_MOST_CALLS = 12
_DEADLINE_SECONDS = 0.15
_WAIT_SECONDS = 20


def unavailable(harness: Harness) -> Callable[[Call], Any]:
    """Return a replacement for a call. It raises the error of an unavailable source."""

    def fail(call: Call) -> NoReturn:
        raise harness.failure("unavailable")

    return fail


def _refused(harness: Harness) -> Callable[[Call], Any]:
    def fail(call: Call) -> NoReturn:
        raise harness.failure("refused")

    return fail


def _broken(harness: Harness) -> Callable[[Call], Any]:
    return lambda call: harness.garbage(call())


class _Hang:
    """A replacement for a call that hangs until the test releases it.

    Attributes:
        begun: Event that is set as soon as a call hangs.
        over: Event that the test sets to release the call.
    """

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.over = threading.Event()

    def __call__(self, call: Call) -> Any:
        self.begun.set()
        self.over.wait(2 * _WAIT_SECONDS)
        return call()


@dataclass
class Outcome:
    """The result of reading a table while one call to its source failed.

    Attributes:
        at: Number of the failing call, from 1.
        subject: The table.
        calls: Counter of the calls to the source, which also replaced one of them.
        splits: The splits; None if there was an error.
        error: The error; None if there was no error.
        begun: Whether some partitions were listed before the error.
    """

    at: int
    subject: Subject
    calls: SourceCalls
    splits: list[FileSplit] | None = None
    error: Exception | None = None
    begun: bool = False


class FaultTests(KitBase):
    """Tests that read a table several times. Each time, a different call to its source fails."""

    def test_unavailable_source_is_tried_again(self, harness: Harness) -> None:
        """After one failed call, the connector still works, so the engine's retry succeeds."""
        for outcome in self._each_call(harness, unavailable(harness)):
            _expect_whole_or(outcome, SourceUnavailable, "was unavailable once")
            expect(
                outcome.error is None or outcome.begun,
                f"raised {_described(outcome.error)} when call {outcome.at} of its source was "
                "unavailable once, and failed again when the engine retried",
                "success of the retry, because the source works again",
            )

    def test_source_that_stays_unavailable(self, harness: Harness) -> None:
        """If the source stays unavailable, the connector raises an error or returns all files."""
        for outcome in self._each_call(
            harness, unavailable(harness), from_then_on=True, attempts=1
        ):
            _expect_whole_or(outcome, SourceUnavailable, "and all after it were unavailable")

    def test_refusal_is_access_denied(self, harness: Harness) -> None:
        """If the source rejects the credentials, the connector raises ``AccessDenied``."""
        for outcome in self._each_call(harness, _refused(harness), from_then_on=True, attempts=1):
            _expect_whole_or(outcome, AccessDenied, "and all after it were refused")

    def test_garbage_is_an_error(self, harness: Harness) -> None:
        """For a malformed response, the connector raises an error, or still returns all files."""
        for outcome in self._each_call(harness, _broken(harness)):
            _expect_whole_or(outcome, SplitlibError, "returned garbage")

    def test_hanging_call_ends_at_its_deadline(self, harness: Harness) -> None:
        """A hanging call ends at its deadline. The table works again as soon as the source does."""
        for outcome in self._each_hanging_call(harness, call_deadline_seconds=_DEADLINE_SECONDS):
            _expect_whole_or(outcome, SourceUnavailable, "hung")

    def test_hanging_open_ends_at_its_deadline(self, harness: Harness) -> None:
        """If a call in ``open`` hangs, opening ends at its deadline, and a later attempt works."""
        subject, opening = self.create_numbered(harness, _PARTITIONS), SourceCalls()
        with harness.watch(opening):
            self.open(subject.address).close()
        if not opening.made:
            pytest.skip("not tried: the connector calls nothing in open that the harness watches")
        settings = {"call_deadline_seconds": _DEADLINE_SECONDS, "retry_attempts": 1}
        for at in range(1, 1 + min(opening.made, _MOST_CALLS)):
            hang = _Hang()
            outcome = Outcome(at, subject, SourceCalls(hang, at))
            with harness.watch(outcome.calls):
                _expect_end(hang, at, partial(self._open_and_read, outcome, settings))
            _expect_whole_or(outcome, SourceUnavailable, "hung")
            when = f"again after call {at} of open had hung and ended"
            expect_files(self.splits(subject), subject.files, when)

    def test_cancel_in_the_middle(self, harness: Harness) -> None:
        """After an enumeration is cancelled during a call, the table can be read and closed."""
        for outcome in self._each_hanging_call(harness, cancelled=True):
            _expect_whole_or(outcome, SplitlibError, "hung and the enumeration was cancelled")

    def _each_call(
        self,
        harness: Harness,
        fault: Callable[[Call], Any],
        *,
        from_then_on: bool = False,
        attempts: int = 3,
    ) -> Iterator[Outcome]:
        """Open and read new tables. For each of them, a different call to the source fails.

        Args:
            harness: Harness that creates the tables.
            fault: Replacement for the failing call.
            from_then_on: Whether all later calls fail too.
            attempts: Number of attempts that the engine makes for a call.
        """
        settings = {"listing_threads": 1, "retry_attempts": attempts}
        for at in range(1, 1 + self._calls(harness, opening=True)):
            calls = SourceCalls(fault, at, from_then_on=from_then_on)
            outcome = Outcome(at, self.create_numbered(harness, _PARTITIONS), calls)
            with harness.watch(calls):
                self._open_and_read(outcome, settings)
            yield outcome

    def _each_hanging_call(
        self, harness: Harness, *, cancelled: bool = False, **limits: Any
    ) -> Iterator[Outcome]:
        """Read open tables. For each of them, a different call to the source hangs.

        After each read, the table is read again without a hanging call.

        Args:
            harness: Harness that creates the tables.
            cancelled: Whether to cancel the enumeration when the call hangs.
            limits: Settings of the enumeration.
        """
        most = self._calls(harness, opening=False)
        if not most:
            pytest.skip("not tried: the connector calls nothing after it has loaded a snapshot")
        for at in range(1, 1 + most):
            hang = _Hang()
            calls = SourceCalls(hang, at)
            outcome = Outcome(at, self.create_numbered(harness, _PARTITIONS), calls)
            with self.open(outcome.subject.address) as table, harness.watch(calls):
                running = enumerator(table, listing_threads=1, **limits)
                _expect_end(
                    hang,
                    at,
                    partial(_enumerate, outcome, running),
                    running.cancel if cancelled else None,
                )
                again = list(enumerator(table).enumerate_splits())
            when = f"again after call {at} of its source had hung and ended"
            expect_files(again, outcome.subject.files, when)
            yield outcome

    def _calls(self, harness: Harness, *, opening: bool) -> int:
        """Return the number of calls that reading a table requires, at most ``_MOST_CALLS``.

        With ``opening``, calls to open the table count too. Without it, a table with a snapshot may
        require none.
        """
        subject, calls = self.create_numbered(harness, _PARTITIONS), SourceCalls()
        outcome = Outcome(0, subject, calls)
        pinned = False
        if opening:
            with harness.watch(calls):
                self._open_and_read(outcome, {"listing_threads": 1})
        else:
            with self.open(subject.address) as table, harness.watch(calls):
                _enumerate(outcome, enumerator(table, listing_threads=1))
                pinned = table.metadata.snapshot_id is not None
        if outcome.error:
            raise outcome.error
        expect_files(outcome.splits or [], subject.files)
        expect(
            calls.made or pinned,
            "read a table, but the harness counted no call to the source",
            "every call to pass through the object given to Harness.watch",
        )
        return min(calls.made, _MOST_CALLS)

    def _open_and_read(self, outcome: Outcome, settings: Mapping[str, Any]) -> None:
        try:
            with self.open(outcome.subject.address, config=SplitConfig(**settings)) as table:
                _enumerate(outcome, enumerator(table, **settings))
        except Exception as error:
            outcome.error = error


def _expect_end(
    hang: _Hang, at: int, read: Callable[[], None], cancel: Callable[[], None] | None = None
) -> None:
    """Fail unless ``read`` ends while a call hangs. Then release the call.

    Args:
        hang: The replacement for the call.
        at: Number of the call, for the message.
        read: Function that reads the table. It runs in another thread.
        cancel: Function to call as soon as the call hangs; None means to wait for the deadline.
    """
    reader = threading.Thread(target=read)
    reader.start()
    if cancel is not None and hang.begun.wait(_WAIT_SECONDS):
        cancel()
    reader.join(_WAIT_SECONDS)
    still_waiting = reader.is_alive()
    hang.over.set()
    reader.join()
    expect(
        not still_waiting,
        f"blocked the reader for {_WAIT_SECONDS} seconds when call {at} of its source hung",
        "an error as soon as the deadline has passed, or the enumeration is cancelled",
    )


def _enumerate(outcome: Outcome, running: DynamicFileEnumerator) -> None:
    try:
        outcome.splits = list(running.enumerate_splits())
    except Exception as error:
        outcome.error = error
    outcome.begun = running.metrics.partitions_total > 0


def _expect_whole_or(outcome: Outcome, kind: type[SplitlibError], what: str) -> None:
    """Fail unless all files were read, or an error of class ``kind`` was raised."""
    __tracebackhide__ = True
    when = f"when call {outcome.at} of its source {what}"
    if outcome.error is None:
        expect_files(outcome.splits or [], outcome.subject.files, f"{when}, without an error")
        return
    expect(
        isinstance(outcome.error, kind),
        f"raised {_described(outcome.error)} {when}",
        f"splitlib.errors.{kind.__name__}, or a complete result",
    )


def _described(error: Exception | None) -> str:
    return f"{type(error).__name__} ({error})"
