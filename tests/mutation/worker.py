"""A process that runs tests in a copy of the repository: ``python -m tests.mutation.worker``.

It imports the libraries that tests need, and runs each task in a fork. Each line of JSON on
standard input is a task. Each line of JSON on standard output is its result.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

# Modules that tests import and that take long to import. Each fork imports other modules again.
_PRELOADED = (
    "hypothesis",
    "pandas",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "pyspark.sql.functions",
)
_FIRST = 2
_MEMORY = 8 * 2**30
_RUN = [
    *("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not spark"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # preloaded modules cause this warning
]


class Chosen:
    """Pytest plugin that runs only some tests, in a given order, and records the first failure."""

    def __init__(self, chosen: list[str]) -> None:
        self._order = {name: place for place, name in enumerate(chosen)}
        self.found = 0
        self.failed: str | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._order]
        items.sort(key=lambda item: self._order[item.nodeid])
        self.found = len(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid


class Lines:
    """Pytest plugin that records the duration of each test and the lines that it runs."""

    def __init__(self) -> None:
        from coverage import Coverage

        self._coverage = Coverage(
            data_file=None, config_file=False, source=["splitlib", "connectors"]
        )
        self._coverage.start()
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self._coverage.switch_context(item.nodeid)
        started = time.monotonic()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.monotonic() - started

    def of_tests(self) -> dict[str, dict[str, list[int]]]:
        """Return the lines that each test ran, by test and file."""
        self._coverage.stop()
        data = self._coverage.get_data()
        found: dict[str, dict[str, list[int]]] = {name: {} for name in self.seconds}
        for path in data.measured_files():
            file = os.path.relpath(path)
            for line, tests in data.contexts_by_lineno(path).items():
                for test in tests:
                    if test:  # lines that ran during an import have an empty name
                        found[test].setdefault(file, []).append(line)
        return found


def lines_of_tests(files: list[str]) -> dict[str, Any]:
    """Run the tests of some files and return the lines that each test runs."""
    lines = Lines()
    code = pytest.main([*_RUN, *files], plugins=[lines])
    return {"code": int(code), "seconds": lines.seconds, "lines": lines.of_tests()}


def first_failure(tests: list[str]) -> dict[str, Any]:
    """Run tests until one fails, first those of a few files. Most mutants fail in these."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    code, found, failed = 0, 0, None
    for some in (files[:_FIRST], files[_FIRST:]):
        chosen = Chosen([test for test in tests if test.partition("::")[0] in some])
        if some and not code:
            code = int(pytest.main([*_RUN, "-x", *some], plugins=[chosen]))
            found, failed = found + chosen.found, chosen.failed
    return {"code": code, "found": found, "failed": failed}


def main() -> None:
    for name in _PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        task = json.loads(line)
        if "files" in task:
            answer = _in_fork(partial(lines_of_tests, task["files"]), task["seconds"])
        else:
            original = Path(task["file"]).read_text("utf-8")
            Path(task["file"]).write_text(task["source"], "utf-8")
            try:
                answer = _in_fork(partial(first_failure, task["tests"]), task["seconds"])
            finally:
                Path(task["file"]).write_text(original, "utf-8")
        print(json.dumps(answer), flush=True)


def _in_fork(run: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any] | None:
    """Run a function in a fork and return its result.

    Return an empty dict if the process died, and None if it exceeded the time limit.
    """
    answer, end = os.pipe()
    child = os.fork()
    if not child:
        try:
            _answer(run, end)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)  # an ordinary exit would run the parent's cleanup
    os.close(end)
    until, got = time.monotonic() + seconds, b""
    with os.fdopen(answer, "rb", buffering=0) as pipe:
        while not got.endswith(b"\n"):
            if not select.select([pipe], [], [], max(0, until - time.monotonic()))[0]:
                break
            if not (piece := pipe.read(1 << 20)):
                got = b"{}\n"
            got += piece
    with contextlib.suppress(ProcessLookupError):  # also ends processes that the tests started
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return json.loads(got) if got.endswith(b"\n") else None


def _answer(run: Callable[[], dict[str, Any]], end: int) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with open("output", "w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    answer = json.dumps(run()).encode()
    sys.stdout.flush()
    with os.fdopen(end, "wb") as pipe:
        pipe.write(answer + b"\n")


if __name__ == "__main__":
    main()
