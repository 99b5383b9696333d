"""Split coordinators over in-memory tables, and readers that request splits from them."""

from __future__ import annotations

import gc
import sys
import threading
import time
import traceback

import pyarrow as pa

from splitlib.coordination.coordinator import (
    AssignedSplit,
    DynamicFileSplitEnumerator,
    SplitResponse,
    WaitForSplits,
)
from splitlib.filtering.data import DynamicFilteringData, DynamicFilteringEvent
from splitlib.model import FileSplit
from tests.support.memory_connector import enumerator_of


def keys(*values: int, producer: object = None) -> DynamicFilteringEvent:
    data = DynamicFilteringData.from_arrow(pa.table({"k": pa.array(values, pa.int64())}))
    return DynamicFilteringEvent(data, producer)


def coordinator_of(connector, assigner=None, **config) -> DynamicFileSplitEnumerator:
    return DynamicFileSplitEnumerator(enumerator_of(connector, **config), assigner)


def ask(coordinator: DynamicFileSplitEnumerator, reader: str = "r", **more) -> SplitResponse:
    """Request a split for a reader, and return the response.

    While the response is ``WaitForSplits``, request again, for up to 30 seconds.
    """
    until = time.monotonic() + 30
    while isinstance(answer := coordinator.handle_split_request(reader, **more), WaitForSplits):
        assert time.monotonic() < until, "told to wait for ever"
        time.sleep(answer.delay_seconds)
    return answer


def take(coordinator, reader="r", **more) -> FileSplit:
    """Return the next split without acknowledging it."""
    answer = ask(coordinator, reader, **more)
    assert isinstance(answer, AssignedSplit), answer
    return answer.split


def read_all(coordinator, reader="r", **more) -> list[FileSplit]:
    """Read and acknowledge splits until there are no more."""
    read = []
    while isinstance(answer := ask(coordinator, reader, **more), AssignedSplit):
        coordinator.acknowledge([answer.split], reader)
        read.append(answer.split)
    return read


def own_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("splitlib")]


def assert_no_thread_is_left() -> None:
    until = time.monotonic() + 120  # Calls of earlier tests may still hang.
    while (left := own_threads()) and time.monotonic() < until:
        gc.collect()  # An enumeration that a test abandoned ends when it is garbage-collected.
        time.sleep(0.01)
    assert not left, f"threads are left: {left}\n{_where_they_are()}"


def _where_they_are() -> str:
    """Return the innermost stack frames of each splitlib thread."""
    frames = sys._current_frames()
    names = {t.ident: t.name for t in threading.enumerate() if t.name.startswith("splitlib")}
    own = ((names[ident], frame) for ident, frame in frames.items() if ident in names)
    return "\n".join(f"{name}:\n{''.join(traceback.format_stack(f)[-4:])}" for name, f in own)
