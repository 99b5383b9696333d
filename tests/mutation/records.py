"""Results of earlier runs, stored in files and reused while code and tests are unchanged."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.mutation.operators import Mutant

TESTS = ("tests/unit", "tests/conformance")
# These tests run code in subprocesses. Lines that run there are not measured.
_IN_OTHER_PROCESSES = {
    "tests/unit/test_fuzzing.py",
    "tests/unit/test_page_in_browser.py",
    "tests/unit/test_simulation.py",
    "tests/conformance/test_planted_bugs.py",
}
# Maximum usual duration of the tests of one mutant, in seconds. If more tests run its line, only
# some are used.
MOST_SECONDS = 60
_HELPERS = ("tests/support", "tests/fuzzing")
_SOURCES = ("splitlib", "connectors", "conformance")


def test_files(root: Path) -> list[str]:
    """Return the test files with which mutants are tested, without those that use subprocesses."""
    found = (path for folder in TESTS for path in (root / folder).rglob("test_*.py"))
    return sorted({str(path.relative_to(root)) for path in found} - _IN_OTHER_PROCESSES)


class Digests:
    """Hashes of the files that can change a result."""

    def __init__(self, root: Path) -> None:
        self._root = root
        tests = [root / "tests/conftest.py"]
        tests += [path for each in (*TESTS, *_HELPERS) for path in (root / each).rglob("*.py")]
        sources = [path for each in _SOURCES for path in (root / each).rglob("*.py")]
        self._helpers = _digest(path for path in tests if not path.name.startswith("test_"))
        self.everything = _digest([*sources, *tests])

    def of_test_file(self, file: str) -> str:
        """Return a hash of a test file and of the helpers that all tests share."""
        return self._helpers + self.of_file(file)

    def of_file(self, file: str) -> str:
        """Return a hash of a file. Empty if the file does not exist."""
        path = self._root / file
        return _digest([path]) if path.exists() else ""


class TestsOfLines:
    """The tests that run each line.

    Args:
        measured: Results of :func:`tests.mutation.worker.lines_of_tests`, one per test file.
    """

    __test__ = False

    def __init__(self, measured: Iterable[Mapping[str, Any]]) -> None:
        self.seconds: dict[str, float] = {}
        self._of_line: dict[str, dict[int, set[str]]] = {}
        for each in measured:
            self.seconds.update(each["seconds"])
            for test, files in each["lines"].items():
                for file, lines in files.items():
                    of_line = self._of_line.setdefault(file, {})
                    for line in lines:
                        of_line.setdefault(line, set()).add(test)

    def of(self, file: str, mutant: Mutant) -> list[str]:
        """Return the tests that run the mutant's line.

        For a line outside of functions, return the tests that run any line of its file. Tests in
        the module's own test file come first, then those of its package, then the fastest tests.
        The list ends when their total time reaches ``MOST_SECONDS``.
        """
        of_line = self._of_line.get(file, {})
        if mutant.statement is None:
            found = set[str]().union(*of_line.values())
        else:
            found = of_line.get(mutant.line, set()) | of_line.get(mutant.statement, set())
        names = (Path(file).stem, Path(file).parent.name.removeprefix("splitlib_"))

        def rank(test: str) -> tuple[bool, bool, float]:
            words = set(re.split(r"\W|test_", test.partition("::")[0]))
            module, package = (name not in words for name in names)
            return module, package, self.seconds[test]

        ranked = sorted(found, key=rank)
        taken = itertools.accumulate(map(self.seconds.__getitem__, ranked))
        return [test for test, total in zip(ranked, taken, strict=True) if total <= MOST_SECONDS]


class Results:
    """The outcome of each mutant, stored as one line of JSON."""

    def __init__(self, file: Path, digests: Digests) -> None:
        self._file, self._digests = file, digests
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        self._known = {found["key"]: found for found in map(json.loads, lines)}

    def get(self, file: str, mutant: Mutant) -> dict[str, Any] | None:
        """Return the stored outcome of a mutant. None without a valid outcome.

        If a test failed, the outcome is valid while the test file and the mutant are unchanged.
        Otherwise it is valid while no file changes.
        """
        found = self._known.get(_key(file, mutant))
        if found is None:
            return None
        test = found["by"]
        wanted = self._digests.of_test_file(test.partition("::")[0]) if test else None
        return found if found["digest"] == (wanted or self._digests.everything) else None

    def add(self, file: str, mutant: Mutant, outcome: str, by: str | None) -> dict[str, Any]:
        """Store the outcome of a mutant and the test that failed."""
        digest = self._digests.of_test_file(by.partition("::")[0]) if by else ""
        found = {
            "key": _key(file, mutant),
            "outcome": outcome,
            "by": by,
            "digest": digest or self._digests.everything,
        }
        with self._file.open("a", encoding="utf-8") as written:
            written.write(json.dumps(found) + "\n")
        return found


def _key(file: str, mutant: Mutant) -> str:
    return hashlib.sha256(f"{file}\n{mutant.source}".encode()).hexdigest()


def _digest(paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(str(path).encode() + path.read_bytes())
    return found.hexdigest()
