"""Run seeds, replay one seed, or count the seeds until each planted bug is found."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise

from tests.simulation.checks import violations
from tests.simulation.planted_bugs import BUGS
from tests.simulation.run import prepare, simulate

# Time limit of one run, in real time. A run usually takes a tenth of a second.
_HANGS_AFTER_SECONDS = 120


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="0:300", metavar="FROM:TO", help="(%(default)s)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="print all that happens in one")
    parser.add_argument("--bug", choices=BUGS, metavar="BUG", help="with this planted bug")
    parser.add_argument(
        "--bugs",
        nargs="*",
        metavar="BUG",
        help="after how many seeds these planted bugs are found, or each",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    seeds = range(first, last)
    if given.jobs > 1:
        return share(seeds, given.jobs, [] if given.bug is None else ["--bug", given.bug])
    if sys.flags.hash_randomization:  # a set of strings must have the same order in every run
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    prepare()
    gc.collect()
    gc.freeze()
    if given.bugs is not None:
        return find_all(given.bugs or list(BUGS), seeds)
    with BUGS[given.bug]() if given.bug else nullcontext():
        return run_all(seeds) if given.replay is None else replay(given.replay)


def share(seeds: range, jobs: int, more: list[str]) -> int:
    """Split the seeds among several processes, and return the highest exit code."""
    bounds = [seeds.start + len(seeds) * part // jobs for part in range(jobs + 1)]
    command = [sys.executable, "-m", "tests.simulation", *more, "--seeds"]
    started = [subprocess.Popen([*command, f"{a}:{b}"]) for a, b in pairwise(bounds)]
    return max(process.wait() for process in started)


def run_all(seeds: range) -> int:
    """Run seeds, print the violations, and return the exit code."""
    failed, steps, started = Counter[str](), 0, time.perf_counter()
    for number, (seed, found, taken) in enumerate(_runs(seeds), 1):
        steps += taken
        for check, wrong in found.items():
            failed[check] += 1
            print(f"seed {seed}: {check}: {wrong[0]}", flush=True)
        if number % 1000 == 0:
            spent = time.perf_counter() - started
            print(f"{number} of {len(seeds)} seeds, {spent:.0f} s", file=sys.stderr, flush=True)
    spent = time.perf_counter() - started
    print(f"{len(seeds)} seeds, {steps} steps, {spent:.1f} s: {dict(failed) or 'nothing found'}")
    return int(bool(failed))


def replay(seed: int) -> int:
    """Run one seed, print its history and violations, and return the exit code."""
    run = simulate(seed)
    print(run.setting.config, run.setting.abilities, run.history, sep="\n")
    found = violations(run)
    for check, wrong in found.items():
        for one in wrong:
            print(f"{check}: {one}")
    return int(bool(found))


def find_all(names: list[str], seeds: range) -> int:
    """Print the number of seeds until each planted bug is found, and the checks that find it.

    Returns:
        The exit code, 1 if a bug was not found.
    """
    missed = 0
    for name in names:
        with BUGS[name]():
            runs = ((n, found) for n, (_, found, _) in enumerate(_runs(seeds), 1) if found)
            number, found = next(runs, (0, {}))
        missed += not found
        said = f"{number:5} {', '.join(found)}" if found else "not found"
        print(f"{name:50} {said}", flush=True)
    print(f"{len(names) - missed} of {len(names)} planted bugs found within {len(seeds)} seeds")
    return int(bool(missed))


def _runs(seeds: range) -> Iterator[tuple[int, dict[str, list[str]], int]]:
    """Run each seed, and yield it with its violations and its number of steps."""
    for seed in seeds:
        faulthandler.dump_traceback_later(_HANGS_AFTER_SECONDS, exit=True)
        run = simulate(seed)
        yield seed, violations(run), run.scheduler.steps
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    sys.exit(main())
