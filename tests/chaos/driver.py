"""The work of processes that the tests kill or interrupt.

A process assigns splits and writes checkpoints (:func:`hand_out`), or enumerates a table.
``python -m tests.chaos.driver JOB`` does the latter. ``JOB`` is a JSON object with the arguments of
:func:`enumerate_table`. With ``null``, the process only waits.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import splitlib
from splitlib import DynamicFileEnumerator
from splitlib.coordination.coordinator import (
    AssignedSplit,
    DynamicFileSplitEnumerator,
    WaitForSplits,
)
from splitlib.errors import InvalidCheckpoint
from splitlib.model import FileSplit
from tests.chaos import lying_filesystem

READY = "listing begins"
assert lying_filesystem.PROTOCOL  # importing this module registers its protocol with fsspec
_READER = "reader"


def enumerate_table(table: str, connector: str, options: dict[str, Any]) -> None:
    """Print ``READY``, and enumerate all splits of a table."""
    print(READY, flush=True)
    with splitlib.load_table(table, connector, **options) as opened:
        for _ in DynamicFileEnumerator(opened).enumerate_splits():
            pass


def hand_out(
    directory: Path, table: str, connector: str, options: dict[str, Any], seed: int
) -> None:
    """Assign and acknowledge all splits, starting from the last complete checkpoint.

    After some splits, the process writes two files: the splits acknowledged since the last
    checkpoint, and a checkpoint of the coordinator. A checkpoint is complete if a coordinator can
    be restored from it. A file ``done`` marks the end of the work.
    """
    rng = random.Random(seed)
    with splitlib.load_table(table, connector, **options) as opened:
        epoch, coordinator = _restored(directory, DynamicFileEnumerator(opened))
        with coordinator:
            coordinator.register_reader(_READER)
            finished = False
            while not finished:
                splits = list(_taken(coordinator, rng.randint(1, 4)))
                finished = not splits
                done = splits[: rng.randint(0, len(splits))]
                coordinator.acknowledge(done, _READER)
                coordinator.add_splits_back(splits[len(done) :], _READER)
                epoch += 1
                _splits_path(directory, epoch).write_text(json.dumps(list(map(_told, done))))
                _write_slowly(_state_path(directory, epoch), coordinator.snapshot_state(), rng)
    (directory / "done").touch()


def handed_out(directory: Path) -> list[list[Any]]:
    """Return all acknowledged splits in a directory, each as path, start and length."""
    epochs = [json.loads(path.read_text()) for path in sorted(directory.glob("*.splits"))]
    return [split for epoch in epochs for split in epoch]


def _restored(
    directory: Path, enumerator: DynamicFileEnumerator
) -> tuple[int, DynamicFileSplitEnumerator]:
    for path in sorted(directory.glob("*.state"), reverse=True):
        try:
            restored = DynamicFileSplitEnumerator.restore(path.read_bytes(), enumerator)
        except InvalidCheckpoint:
            continue  # The process was killed while it wrote this file.
        return int(path.stem), restored
    return 0, DynamicFileSplitEnumerator(enumerator)


def _taken(coordinator: DynamicFileSplitEnumerator, most: int) -> Iterator[FileSplit]:
    count = 0
    while count < most:
        match coordinator.handle_split_request(_READER):
            case AssignedSplit(split):
                count += 1
                yield split
            case WaitForSplits(delay):
                time.sleep(delay)
            case _:
                return


def _write_slowly(path: Path, data: bytes, rng: random.Random) -> None:
    with path.open("wb", buffering=0) as file:
        while data:
            size = rng.randint(1, len(data))
            file.write(data[:size])
            data = data[size:]
            time.sleep(rng.uniform(0, 0.01))


def _told(split: FileSplit) -> list[Any]:
    return [split.path, split.start, split.length]


def _splits_path(directory: Path, epoch: int) -> Path:
    return directory / f"{epoch:06}.splits"


def _state_path(directory: Path, epoch: int) -> Path:
    return directory / f"{epoch:06}.state"


def main(job: dict[str, Any] | None) -> None:
    """Enumerate the table of a job. With None, wait."""
    # A shell makes its background processes ignore SIGINT, so set the default handler again.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if job is None:
        print(READY, flush=True)
        time.sleep(60)
    else:
        enumerate_table(**job)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
