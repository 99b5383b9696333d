"""Fuzz one target: ``python -m tests.fuzzing TARGET``. A bug in the decoder may crash this process.

The stored inputs run first. With ``--runs``, random changes of them follow. With ``--seconds``,
Atheris searches for inputs that run new code. An input that fails, hangs or takes too much memory
is stored in the directory of findings. Then fix the bug, and move the input to
``tests/fuzzing/corpus/TARGET``.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import importlib
import os
import pkgutil
import random
import resource
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from tests.fuzzing import targets
from tests.fuzzing.mutations import mutated

CORPUS = Path(__file__).with_name("corpus")
TARGETS = sorted(module.name for module in pkgutil.iter_modules(targets.__path__))
MEMORY_BYTES = 3 * 2**30
INPUT_SECONDS = 20
INPUT_BYTES = 1 << 16
KEPT_BYTES = 1 << 14
TRACED = ("/splitlib/", "/splitlib_delta/", "/splitlib_hive/", "/splitlib_iceberg/")
Step = tuple[str, int, int]
INSTRUMENTED = ["splitlib", "splitlib_delta", "splitlib_hive", "splitlib_iceberg", "pyiceberg.avro"]


def kept(target: str) -> list[bytes]:
    """Return the inputs that the repository stores for a target."""
    return [path.read_bytes() for path in sorted((CORPUS / target).glob("*"))]


def limited(target: ModuleType, file: Path) -> Callable[[bytes], bool]:
    """Return the target's ``run`` with a time limit.

    Each input is written to ``file`` before it runs, so that it is not lost in a crash.
    """
    now = os.open(file, os.O_CREAT | os.O_RDWR)

    def run(data: bytes) -> bool:
        os.ftruncate(now, 0)
        os.pwrite(now, data, 0)
        faulthandler.dump_traceback_later(INPUT_SECONDS, exit=True)
        try:
            used: bool = target.run(data)
            return used
        finally:
            faulthandler.cancel_dump_traceback_later()

    return run


def at_random(
    target: ModuleType, run: Callable[[bytes], bool], inputs: Sequence[bytes], runs: int, seed: int
) -> None:
    """Run inputs and random changes of them. Print how many were accepted and refused."""
    source = random.Random(seed)
    found: Counter[bool] = Counter(map(run, inputs))
    for _ in range(runs):
        found[run(mutated(source.choice(inputs), inputs, target.TOKENS, source))] += 1
    print(f"{target.__name__}: {found[True]} used, {found[False]} refused")


def keep(target: ModuleType, run: Callable[[bytes], bool], found: Path) -> None:
    """Copy inputs from a directory to the corpus if they run code that no stored input runs."""
    name = target.__name__.rpartition(".")[2]
    known = set[Step]().union(*(steps_of(run, data) for data in [*target.seeds(), *kept(name)]))
    candidates = (path.read_bytes() for path in found.glob("*"))
    for data in sorted(candidates, key=lambda data: (len(data), data)):
        steps = steps_of(run, data)
        if len(data) <= KEPT_BYTES and not steps <= known:
            known |= steps
            (CORPUS / name).mkdir(parents=True, exist_ok=True)
            (CORPUS / name / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    print(f"{name}: {len(kept(name))} inputs are kept")


def steps_of(run: Callable[[bytes], bool], data: bytes) -> set[Step]:
    """Return all pairs of successive lines that run for an input in the project's code."""
    found: set[Step] = set()
    last: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if not any(part in frame.f_code.co_filename for part in TRACED):
            return None
        if event == "line":
            found.add((frame.f_code.co_filename, last.get(frame, 0), frame.f_lineno))
            last[frame] = frame.f_lineno
        return trace

    sys.settrace(trace)
    try:
        run(data)
    finally:
        sys.settrace(None)
    return found


def guided(name: str, findings: Path, seconds: int) -> None:
    """Search with Atheris for inputs that run new code. This function does not return.

    New inputs are stored in a directory next to the findings.
    """
    import atheris  # optional: not every platform has a wheel

    with atheris.instrument_imports(include=INSTRUMENTED):
        target = importlib.import_module(f"{targets.__name__}.{name}")
    words, own, seeds = findings / f"{name}.words", findings / name, findings / f"{name}.seeds"
    for directory in (own, seeds, CORPUS / name):  # Atheris requires all of them to exist
        directory.mkdir(parents=True, exist_ok=True)
    words.write_text("".join(f'"{_escaped(token)}"\n' for token in target.TOKENS), "ascii")
    for seed in target.seeds():
        (seeds / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    limits = [
        f"-dict={words}",
        f"-timeout={INPUT_SECONDS}",
        f"-rss_limit_mb={MEMORY_BYTES >> 20}",
        f"-max_len={INPUT_BYTES}",
        f"-artifact_prefix={findings}/{name}-",
        f"-max_total_time={seconds}",
        "-print_final_stats=1",
    ]
    inputs = map(str, (own, seeds, CORPUS / name))
    atheris.Setup([sys.argv[0], *limits, *inputs], lambda data: target.run(data) and None)
    atheris.Fuzz()


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--runs", type=int, help="so many changes at random")
    parser.add_argument("--seed", type=int, default=1, help="of what is random")
    parser.add_argument("--seconds", type=int, default=60, help="how long Atheris looks")
    parser.add_argument("--keep", action="store_true", help="add what it found to the kept inputs")
    parser.add_argument("--findings", type=Path, default=Path(".fuzzing"), help="a directory")
    parser.add_argument("--input", type=Path, help="a file to try, and nothing else")
    given = parser.parse_args()
    given.findings.mkdir(exist_ok=True)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    if given.runs is None and given.input is None and not given.keep:
        guided(given.target, given.findings, given.seconds)
    target = importlib.import_module(f"{targets.__name__}.{given.target}")
    run = limited(target, given.findings / f"{given.target}.now")
    if given.input is not None:
        print("used" if run(given.input.read_bytes()) else "refused")
    elif given.keep:
        keep(target, run, given.findings / given.target)
    else:
        at_random(target, run, [*target.seeds(), *kept(given.target)], given.runs, given.seed)


if __name__ == "__main__":
    main()
