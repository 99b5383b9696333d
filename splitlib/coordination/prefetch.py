"""A thread that enumerates a bounded number of splits ahead of the readers."""

from __future__ import annotations

import _thread
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass

from splitlib.coordination.checkpoint import TrackedSplit
from splitlib.enumeration.enumerator import DynamicFileEnumerator, complete
from splitlib.enumeration.splitting import FILE_ID_BYTES
from splitlib.errors import SourceError, SplitlibError, error_context
from splitlib.filtering.predicate import Predicate
from splitlib.telemetry import reported

# Number of splits to enumerate ahead of the readers. This is enough to keep readers busy until the
# thread runs again, and so few that a late filter can still prune most of the table.
BUFFERED_SPLITS = 1024
ARRIVAL_SPLITS = 128
_CLOSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch of splits from the enumerating thread. It contains all splits of its files."""

    predicate: Predicate
    """A predicate that all these splits match. Splits are matched again if it is out of date."""
    splits: list[TrackedSplit]
    file_ids: bytes
    """Concatenated file ids of :data:`~splitlib.enumeration.splitting.FILE_ID_BYTES` each."""


class SplitPrefetcher:
    """Enumerates splits in its own thread, and appends them to :attr:`arrived`.

    ``arrived`` is used without a lock. With a lock, the enumerating thread would wait most of the
    time while many readers request splits.

    Args:
        enumerator: The enumerator that lists the splits.
        known_files: Concatenated ids of files to skip.
        complete: Whether the enumeration is already complete.
    """

    def __init__(
        self, enumerator: DynamicFileEnumerator, known_files: bytes = b"", *, complete: bool = False
    ) -> None:
        self.arrived: deque[Arrival] = deque()
        self.error: SplitlibError | None = None
        """Why the enumeration failed; None if it did not fail. Set before :attr:`complete`."""
        self.complete = complete
        """Whether the enumeration has ended. Read this before :attr:`arrived`, because splits may
        arrive between the two reads."""
        self._enumerator = enumerator
        self._left_out = frozenset(
            known_files[i : i + FILE_ID_BYTES] for i in range(0, len(known_files), FILE_ID_BYTES)
        )
        self._sent = 0
        self._wanted = BUFFERED_SPLITS
        self._go_on = threading.Event()
        self._closed = False
        self._cancelled: Future[None] = Future()
        self._thread: threading.Thread | None = None

    def start(self, owner: object) -> None:
        """Start the thread, unless it is running. It stops when ``owner`` is garbage-collected.

        This method is not thread-safe.
        """
        if self._thread is None and not self.complete:
            finalizer = weakref.finalize(owner, self._stop_in, os.getpid())
            finalizer.atexit = False  # Do not stop at exit: the thread ends with the process.
            self._thread = threading.Thread(target=self._run, name="splitlib-prefetch", daemon=True)
            self._thread.start()

    def taken(self, received: int, waiting: int) -> None:
        """Report the readers' progress. The thread resumes when half of the buffer is used up.

        Args:
            received: Total number of splits taken from :attr:`arrived`.
            waiting: Number of these splits that are not yet handed to a reader.
        """
        self._wanted = received - waiting + BUFFERED_SPLITS
        if waiting < BUFFERED_SPLITS // 2 and not self._go_on.is_set():
            self._go_on.set()

    def stop(self) -> None:
        """Stop this enumeration, without waiting for its thread to end."""
        self._closed = True
        complete(self._cancelled)
        self._go_on.set()

    def _stop_in(self, process: int) -> None:
        if os.getpid() == process:  # A forked child process does not have this thread.
            # The garbage collector may call this in a thread that holds a lock of stop() or of the
            # threading module. So run stop() in a new thread, created without that module.
            _thread.start_new_thread(self.stop, ())

    def close(self) -> None:
        """Stop the enumeration, and wait up to half a second for the thread to end."""
        self.stop()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        table = self._enumerator.table
        try:
            with error_context(connector=table.connector_name, table=table.name):
                for arrival in self._arrivals():
                    self._wait_for_space()
                    if self._closed:
                        return
                    self._sent += len(arrival.splits)
                    self.arrived.append(arrival)
        except SplitlibError as error:
            self.error = error
        except BaseException as error:  # Readers must see every error of this thread.
            self.error = SourceError(
                f"The enumeration failed with {type(error).__name__}: {error}",
                connector=table.connector_name,
                table=table.name,
            )
            self.error.__cause__ = error
        self.complete = True

    def _wait_for_space(self) -> None:
        while self._sent >= self._wanted and not self._closed:
            self._go_on.clear()
            # Check again: another thread may have changed these values before clear().
            if self._sent >= self._wanted and not self._closed:
                self._go_on.wait()

    def _arrivals(self) -> Iterator[Arrival]:
        maker = self._enumerator.split_maker()
        # The predicate is read before the files are selected. Filters are added but never removed,
        # so the files match at least this predicate.
        predicate = self._enumerator.predicate
        selected_files = self._enumerator.select_files(hosts=True, cancelled=self._cancelled)
        with closing(selected_files) as chosen:
            for selected in chosen:
                splits: list[TrackedSplit] = []
                file_ids = bytearray()
                for of_file in maker.splits_of(selected):
                    known_by = of_file.file_id
                    if known_by in self._left_out:
                        continue
                    file_ids += known_by
                    splits += [TrackedSplit(s, selected, of_file.row) for s in of_file.splits]
                    if len(splits) >= ARRIVAL_SPLITS:
                        yield Arrival(predicate, splits, bytes(file_ids))
                        splits, file_ids = [], bytearray()
                if splits:
                    yield Arrival(predicate, splits, bytes(file_ids))
                predicate = self._enumerator.predicate
        reported(self._enumerator.explain)
