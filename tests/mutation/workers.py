"""Copies of the repository, each with a process that runs tests."""

from __future__ import annotations

import compileall
import json
import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

_NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
ROOTS = (".", "connectors", "conformance")
_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")


class Worker:
    """A copy of the repository, and a process that runs :mod:`tests.mutation.worker` in it.

    Python checks bytecode in the copy by a hash of the source. Modification times are not
    sufficient, because two mutants may have the same one.
    """

    def __init__(self, root: Path, directory: Path) -> None:
        shutil.copytree(root, directory, ignore=_NOT_COPIED)
        for package in ("splitlib", "connectors", "conformance"):
            compileall.compile_dir(
                directory / package,
                quiet=1,
                invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
            )
        paths = os.pathsep.join(str(directory / each) for each in ROOTS)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutation.worker"],
            cwd=directory,
            # With ``CI``, Hypothesis uses the same examples in every run.
            env={**os.environ, "PYTHONPATH": paths, "CI": "true"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._output = directory / "output"

    def ask(self, **task: Any) -> dict[str, Any] | None:
        """Run a task and return its result. None if the task exceeded its time limit."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(task), file=self._process.stdin, flush=True)
        answer: dict[str, Any] | None = json.loads(self._process.stdout.readline())
        return answer

    def output(self) -> str:
        """Return the latest output of pytest."""
        return self._output.read_text("utf-8")

    def close(self) -> None:
        """End the process. The copy stays on disk."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Pool:
    """A pool of workers that run tasks in parallel."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in workers:
            self._idle.put(worker)

    def each(
        self, run: Callable[[Worker, _Task], _Answer], tasks: Sequence[_Task]
    ) -> Iterator[tuple[_Task, _Answer]]:
        """Run every task on an idle worker. Yield it with its result when it is done."""

        def on_one(task: _Task) -> _Answer:
            worker = self._idle.get()
            try:
                return run(worker, task)
            finally:
                self._idle.put(worker)

        with ThreadPoolExecutor(len(self._workers)) as threads:
            waiting = {threads.submit(on_one, task): task for task in tasks}
            try:
                for done in as_completed(waiting):
                    yield waiting[done], done.result()
            finally:
                threads.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """End the workers' processes."""
        for worker in self._workers:
            worker.close()
