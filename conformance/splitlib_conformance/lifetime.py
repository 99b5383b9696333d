"""Tests that an open table supports several threads, and releases its connections when closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from splitlib import DynamicFilteringData, FileSplit, SplitConfig, SplitlibError, Table
from splitlib_conformance.base import KitBase, Subject, enumerator
from splitlib_conformance.expectations import expect, expect_files
from splitlib_conformance.faults import unavailable
from splitlib_conformance.harness import Harness
from splitlib_conformance.source_calls import SourceCalls

_THREADS = 4
_ROUNDS = 3
_WAIT_SECONDS = 5


class LifetimeTests(KitBase):
    """Tests of threads, unfinished listings and connections."""

    def test_several_threads_at_once(self, simple: Subject) -> None:
        """One open table supports several enumerations at the same time."""
        with self.open(simple.address) as table:
            for splits in _at_once(lambda _: list(enumerator(table).enumerate_splits())):
                expect_files(splits, simple.files, f"in {_THREADS} threads at once")

    def test_several_filters_at_once(self, simple: Subject) -> None:
        """Concurrent enumerations with different filters do not affect each other."""
        with self.open(simple.address) as table:

            def read(k: int) -> list[FileSplit]:
                only = DynamicFilteringData.from_values({"k": [k]})
                return list(enumerator(table, only).enumerate_splits())

            for _ in range(_ROUNDS):
                for k, splits in enumerate(_at_once(read)):
                    expected = simple.files_where([{"k": k}])
                    expect_files(splits, expected, f"for k={k} while others read other k")

    def test_half_read_listing_can_be_left(self, simple: Subject) -> None:
        """After a caller stops reading a listing, the table can be used again and closed."""
        with self.open(simple.address) as table:
            listing = enumerator(table, listing_threads=1).select_files()
            next(listing)
            listing.close()
            splits = list(enumerator(table).enumerate_splits())
        expect_files(splits, simple.files, "again after an unfinished listing")

    def test_connections_are_given_back(self, harness: Harness, simple: Subject) -> None:
        """``close`` releases all connections, no matter how the table was used."""

        def half_read(table: Table) -> None:
            listing = enumerator(table, listing_threads=1).select_files()
            next(listing)
            listing.close()

        uses: dict[str, Callable[[Table], object]] = {
            "used": lambda table: None,
            "read": lambda table: list(enumerator(table).enumerate_splits()),
            "read by several threads": lambda table: _at_once(
                lambda _: list(enumerator(table).enumerate_splits())
            ),
            "partly read": half_read,
        }

        def open_and_close(of: Callable[[Table], object]) -> None:
            with self.open(simple.address) as table:
                of(table)

        for of in uses.values():  # Let connection pools grow to their full size before counting.
            open_and_close(of)
        before = harness.open_connections()
        for use, of in uses.items():
            open_and_close(of)
            _expect_given_back(harness, before, f"a table was opened, {use} and closed")

    def test_failed_opening_gives_connections_back(self, harness: Harness) -> None:
        """If ``open`` raises an error, it first closes its connections, because callers cannot."""
        before = harness.open_connections()
        with suppress(SplitlibError):
            self.open(harness.missing_table())
        _expect_given_back(harness, before, "failing to open a table that does not exist")

    def test_broken_opening_gives_connections_back(self, harness: Harness) -> None:
        """If any call to the source fails in ``open``, ``open`` closes its connections."""
        subject, calls = self.create_numbered(harness, 1), SourceCalls()
        with harness.watch(calls):
            self.open(subject.address).close()
        before = harness.open_connections()
        for at in range(1, 1 + calls.made):
            failing = SourceCalls(unavailable(harness), at)
            with harness.watch(failing), suppress(SplitlibError):
                self.open(subject.address, config=SplitConfig(retry_attempts=1)).close()
            _expect_given_back(harness, before, f"opening a table failed at its call {at}")


def _at_once(read: Callable[[int], list[FileSplit]]) -> Iterator[list[FileSplit]]:
    """Run ``read`` in several threads that start at the same time, and yield the results."""
    start = threading.Barrier(_THREADS)

    def begin(number: int) -> list[FileSplit]:
        start.wait()
        return read(number)

    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(begin, range(_THREADS))


def _expect_given_back(harness: Harness, before: int, when: str) -> None:
    """Fail if more than ``before`` connections are still open after some seconds."""
    __tracebackhide__ = True
    until = time.monotonic() + _WAIT_SECONDS
    while (now := harness.open_connections()) > before and time.monotonic() < until:
        time.sleep(0.02)
    expect(
        now <= before,
        f"left {now - before} connections open after {when}",
        "close to release all of them, or open if it raises",
    )
