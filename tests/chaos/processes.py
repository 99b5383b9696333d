"""Tests that end processes at random times.

Processes are killed while they assign splits, or interrupted by Ctrl-C while their calls hang.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.chaos import driver
from tests.chaos.cells import ANY
from tests.chaos.lying_filesystem import Spec
from tests.chaos.measure import Row, measured
from tests.chaos.runs import Outcome, Step
from tests.chaos.subjects import FOR_EVER, KnownFile, LyingSubject, Subject

INTERRUPTED = {
    "files on a disk": "files",
    "iceberg on a disk": "manifests",
    "hive": "names",
    "files on S3": "files",
    "iceberg on S3": "manifests",
}
"""Stage of the enumeration at which calls hang until the process is interrupted, by table."""

_KILLS = 4
_LIFE_SECONDS = 0.5
"""Maximum time until a process is killed, in seconds. The whole work takes about as long."""
_WORK_SECONDS = 60.0
INTERRUPT_SECONDS = 1.0
_END_SECONDS = 20.0
_PAUSE_SECONDS = 0.02


class Kills:
    """Tests that kill processes while they assign a table's splits. The last process may finish.

    Args:
        subject: The table.
    """

    def __init__(self, subject: LyingSubject) -> None:
        self.name = f"{subject.name} / checkpoints / SIGKILL"
        self._subject = subject
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([driver.__name__])

    def measure(self, runs: int, seed: int, at_once: int, progress: Callable[[], None]) -> Row:
        """Kill processes in each of many runs, and return the outcomes."""
        return measured(self.name, self._once, runs, seed, at_once, progress)

    def _once(self, number: int) -> Outcome:
        outcome = Outcome(number)
        rng = random.Random(number)
        with tempfile.TemporaryDirectory() as given:
            directory = Path(given)
            for life in range(_KILLS + 1):
                seconds = _WORK_SECONDS if life == _KILLS else rng.uniform(0, _LIFE_SECONDS)
                outcome.struck += self._live(directory, seconds, rng)
                if (directory / "done").exists():
                    break
            outcome.violation = _wrong(directory, self._subject.files)
        return outcome

    def _live(self, directory: Path, seconds: float, rng: random.Random) -> bool:
        """Run a process for some time, then kill it. Return whether it was still running."""
        subject = self._subject
        # All requests are late, so that some processes are killed during a request.
        lies = Spec("late", ANY, rng.randrange(2**63), _PAUSE_SECONDS, 0, FOR_EVER)
        options = dict(subject.options(lies.text()))
        job = (directory, subject.table, subject.connector, options, rng.randrange(2**63))
        process = self._context.Process(target=driver.hand_out, args=job)
        process.start()
        process.join(seconds)
        killed = process.exitcode is None
        process.kill()
        process.join()
        return killed


class Interrupts:
    """Tests that send SIGINT to a process at a random time, while its calls hang.

    Args:
        subject: The table.
        stage: Stage of the enumeration at which calls hang.
    """

    def __init__(self, subject: Subject, stage: str) -> None:
        self.name = f"{subject.name} / {stage} / Ctrl-C"
        self._subject = subject
        self._stage = stage

    def measure(self, runs: int, seed: int, at_once: int, progress: Callable[[], None]) -> Row:
        """Interrupt a process in each of many runs, and return the outcomes."""
        # One run at a time, since its two processes already compete for the machine.
        return measured(self.name, self._once, runs, seed, 1, progress)

    def _once(self, number: int) -> Outcome:
        outcome = Outcome(number)
        rng = random.Random(number)
        subject = self._subject
        with subject.reached(self._stage, "hang", rng) as way, ExitStack() as ended:
            job = {
                "table": subject.table,
                "connector": subject.connector,
                "options": dict(way.options),
            }
            # An idle process shows how long any process takes to end on this machine.
            idle, hanging = (ended.enter_context(_started(each)) for each in (None, job))
            time.sleep(rng.uniform(0, 1))
            took = _seconds_to_end([idle, hanging])
            _, said = hanging.communicate()
            if hanging not in took:
                outcome.violation = "it did not end"
                return outcome
            # A process that exits with 0 finished its work before the signal had an effect.
            outcome.struck = hanging.returncode != 0 and said != ""
            outcome.steps.append(Step(max(took[hanging] - took[idle], 0), INTERRUPT_SECONDS))
            if took[hanging] - took[idle] > INTERRUPT_SECONDS:
                outcome.violation = f"{took[hanging]:.2f} s to end, an idle one {took[idle]:.2f} s"
            elif outcome.struck and not _was_interrupted(hanging.returncode, said):
                outcome.violation = f"it ended with {hanging.returncode}: {said[-300:]}"
        return outcome


def _was_interrupted(code: int, said: str) -> bool:
    """Return whether a process ended with an uncaught ``KeyboardInterrupt``.

    The exit code is usually that of the signal. Python exits with 1 if another thread ran ``exec``
    at that time, as imports do.
    """
    return code in (-signal.SIGINT, 1) and said.rstrip().endswith("KeyboardInterrupt")


@contextmanager
def _started(job: Mapping[str, Any] | None) -> Iterator[subprocess.Popen[str]]:
    """Start a driver process, and wait until it begins its job. With None, the process is idle."""
    process = subprocess.Popen(
        [sys.executable, "-m", driver.__name__, json.dumps(job)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def _seconds_to_end(processes: Sequence[subprocess.Popen[str]]) -> dict[Any, float]:
    """Send SIGINT to processes, and return the time that each takes to end, in seconds.

    Processes that do not end are killed. The result does not contain them.
    """
    started = time.monotonic()
    for process in processes:
        process.send_signal(signal.SIGINT)
    found: dict[Any, float] = {}
    while len(found) < len(processes) and time.monotonic() < started + _END_SECONDS:
        for process in processes:
            if process not in found and process.poll() is not None:
                found[process] = time.monotonic() - started
        time.sleep(0.005)
    for process in processes:
        process.kill()
    return found


def _wrong(directory: Path, files: Mapping[str, KnownFile]) -> str:
    """Describe what is wrong with the assigned splits, or return an empty text."""
    if not (directory / "done").exists():
        return "the last process did not come to its end"
    found = sorted(map(tuple, driver.handed_out(directory)))
    ends: dict[str, int] = dict.fromkeys(files, 0)
    for path, start, length in found:
        if ends.get(path) != start:
            return f"{path} from {start} is handed out twice or out of place"
        ends[path] += length
    return _short(path for path, file in files.items() if ends[path] != file.size)


def _short(paths: Iterable[str]) -> str:
    missing = list(paths)
    return f"not handed out: {missing}" if missing else ""
