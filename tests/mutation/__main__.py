"""Test a random sample of mutants and report those that no test detects.

A mutant is a copy of a module with one small bug. The sample depends only on the code and the seed.
Files with more lines that can be mutated have more mutants in the sample. Each mutant is tested
with the tests that run its line. Results are stored in ``.mutants``. The next run reuses them,
except results that a change of the code may have invalidated.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.mutation.operators import Mutant, mutants_of
from tests.mutation.records import Digests, Results, TestsOfLines, test_files
from tests.mutation.workers import Pool, Worker

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".mutants"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
# The planner's modules that run without Spark. The passes are listed in
# splitlib/spark/planner/decide.py.
PLANNER = ("decide", "eligibility", "join_graph", "lineage", "materializable")
MUTATED = (
    *(f"splitlib/{room}/*.py" for room in ("arrow", "hive", "remote", "filtering", "enumeration")),
    "splitlib/coordination/*.py",
    "splitlib/table.py",
    "splitlib/checks.py",
    "splitlib/spark/logical_plan.py",
    *(f"splitlib/spark/planner/{name}.py" for name in PLANNER),
    "connectors/*/*.py",
)
# Time limit for the tests of a mutant: the usual time multiplied by the factor, plus the seconds.
# The margin allows for slow machines and failing tests. Beyond it, a mutant has an endless loop.
PATIENCE_SECONDS, PATIENCE_FACTOR = 30, 5
COLLECTING_SECONDS = 3600
# Number of groups into which test files are split to measure their lines. With many groups, slow
# files keep all processes equally busy.
PARTS = 8


class Task(NamedTuple):
    """One mutant to test."""

    file: str
    mutant: Mutant
    diff: str


class Outcome(NamedTuple):
    """The result of the tests of one mutant."""

    name: str
    """``killed``, ``survived``, ``late`` or ``not run``."""
    by: str | None
    """Name of the test that failed. None if no test failed."""


def sources() -> dict[str, str]:
    """Return the sources of all mutated files, by path."""
    paths = sorted(path for pattern in MUTATED for path in ROOT.glob(pattern))
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}


def sample(count: int, seed: int) -> list[Task]:
    """Return a random sample of mutants. Files with more mutable lines have more mutants in it."""
    by_line: dict[str, dict[int, list[Mutant]]] = {}
    texts = sources()
    for file, text in texts.items():
        for mutant in mutants_of(text):
            by_line.setdefault(file, {}).setdefault(mutant.line, []).append(mutant)
    lines = sum(map(len, by_line.values()))
    tasks, before = [], 0
    for file, of_line in by_line.items():
        # The counts are cumulative, so that rounding errors do not add up.
        after = before + len(of_line)
        wanted = count * after // lines - count * before // lines
        before = after
        chosen = _chosen(of_line, wanted, random.Random(f"{seed} {file}"))
        tasks += [Task(file, mutant, mutant.diff(texts[file])) for mutant in chosen]
    return tasks


def _chosen(
    of_line: Mapping[int, Sequence[Mutant]], count: int, source: random.Random
) -> list[Mutant]:
    """Choose random mutants from as many lines as possible.

    With a larger count, the same mutants and more are chosen.
    """
    lines = list(of_line)
    source.shuffle(lines)
    shuffled = {line: source.sample(of_line[line], len(of_line[line])) for line in lines}
    rounds = range(max(map(len, shuffled.values())))
    every = (
        shuffled[line][turn] for turn in rounds for line in lines if turn < len(shuffled[line])
    )
    return [mutant for _, mutant in zip(range(count), every, strict=False)]


def measured(pool: Pool, digests: Digests) -> TestsOfLines:
    """Measure which lines each test runs. Stored results of unchanged files are reused."""
    kept = KEPT / "lines.json"
    known = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    files = test_files(ROOT)

    def is_new(file: str) -> bool:
        depends = known.get(file, {}).get("depends", {})
        same = all(digests.of_file(each) == digest for each, digest in depends.items())
        return not same or known.get(file, {}).get("digest") != digests.of_test_file(file)

    missing = [file for file in files if is_new(file)]
    print(f"Running the tests of {len(missing)} files for the lines that they run.", flush=True)
    parts = [part for i in range(PARTS) if (part := missing[i::PARTS])]
    for part, answer in pool.each(lines_of_tests, parts):
        for file in part:
            tests = [test for test in answer["seconds"] if test.partition("::")[0] == file]
            lines = {test: answer["lines"][test] for test in tests}
            known[file] = {
                "digest": digests.of_test_file(file),
                "depends": {each: digests.of_file(each) for ran in lines.values() for each in ran},
                "seconds": {test: answer["seconds"][test] for test in tests},
                "lines": lines,
            }
        kept.write_text(json.dumps(known), "utf-8")
    return TestsOfLines(known[file] for file in files)


def lines_of_tests(worker: Worker, files: list[str]) -> dict[str, Any]:
    """Measure which lines the tests in some files run. Exit the program if a test fails."""
    answer = worker.ask(files=files, seconds=COLLECTING_SECONDS)
    if not answer or answer["code"] not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(f"Without any mutant, tests fail:\n{worker.output()[-5000:]}")
    return answer


def outcome_of(worker: Worker, task: Task, tests: Sequence[str], seconds: float) -> Outcome:
    """Run the tests of a mutant and return its outcome."""
    if not tests:
        return Outcome("not run", None)
    answer = worker.ask(file=task.file, source=task.mutant.source, tests=tests, seconds=seconds)
    if answer is None:
        return Outcome("late", None)
    if answer.get("code") == 0:
        assert answer["found"] == len(tests), f"not all tests were found: {worker.output()}"
        return Outcome("survived", None)
    return Outcome("killed", answer.get("failed"))


def run(tasks: Sequence[Task], processes: int) -> Iterator[tuple[Task, str]]:
    """Yield each mutant with the name of its outcome. Stored outcomes come first."""
    KEPT.mkdir(exist_ok=True)
    digests = Digests(ROOT)
    results = Results(KEPT / "results.jsonl", digests)
    left = []
    for task in tasks:
        if known := results.get(task.file, task.mutant):
            yield task, known["outcome"]
        else:
            left.append(task)
    if not left:
        return
    random.Random(0).shuffle(left)  # an interrupted run then has tested a random sample too
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        pool = Pool([Worker(ROOT, Path(scratch, str(number))) for number in range(processes)])
        tests = measured(pool, digests)

        def tried(worker: Worker, task: Task) -> Outcome:
            chosen = tests.of(task.file, task.mutant)
            needed = sum(tests.seconds[test] for test in chosen)
            return outcome_of(worker, task, chosen, PATIENCE_SECONDS + PATIENCE_FACTOR * needed)

        for task, outcome in pool.each(tried, left):
            results.add(task.file, task.mutant, *outcome)
            yield task, outcome.name
        pool.close()


def equivalents() -> dict[tuple[str, str], str]:
    """Return the reasons in the list of equivalent mutants, by file and diff.

    An equivalent mutant behaves like the original code, so no test can detect it.
    """
    listed = tomllib.loads(EQUIVALENT.read_text("utf-8"))["equivalent"]
    return {(each["file"], each["change"].strip()): each["reason"] for each in listed}


def report(outcomes: Mapping[Task, str]) -> None:
    """Print the undetected mutants, the number of each outcome and the score."""
    same = equivalents()
    counts: Counter[str] = Counter()
    for task, outcome in outcomes.items():
        noticed = outcome in ("killed", "late")
        excused = not noticed and (task.file, task.diff.strip()) in same
        if not noticed and not excused:
            print(f"\n{task.file}:{task.mutant.line}: {task.mutant.operator}, {outcome}")
            print(task.diff)
        counts["equivalent" if excused else outcome] += 1
    killed, judged = counts["killed"] + counts["late"], len(outcomes) - counts["equivalent"]
    print(f"\n{len(outcomes)} mutants:", ", ".join(f"{n} {name}" for name, n in counts.items()))
    print(f"score: {killed} of {judged}, {100 * killed / max(judged, 1):.1f}%")


def main() -> None:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--number", type=int, default=300, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--processes", type=int, default=2, help="how many at a time")
    parser.add_argument("--file", default="", help="only of files whose name has this in it")
    arguments = parser.parse_args()
    tasks = [t for t in sample(arguments.number, arguments.seed) if arguments.file in t.file]
    outcomes: dict[Task, str] = {}
    for task, outcome in run(tasks, arguments.processes):
        outcomes[task] = outcome
        if outcome not in ("killed", "late"):
            print(f"[{len(outcomes)} of {len(tasks)}] {task.file}:{task.mutant.line} {outcome}")
    report(outcomes)


if __name__ == "__main__":
    main()
