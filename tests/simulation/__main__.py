"""Runs seeds, replays one, or says after how many each planted bug is found."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext

_HANGS_AFTER_SECONDS = 120


def main() -> int:
    if sys.flags.hash_randomization:  # sets of texts are to have the same order every time
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="0:300", help="which, from:to (0:300)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="print all that happens in one")
    parser.add_argument("--bug", help="with this planted bug")
    parser.add_argument(
        "--bugs",
        nargs="?",
        const="",
        metavar="TEXT",
        help="say when each planted bug is found, or each with TEXT in its name",
    )
    given = parser.parse_args()

    from tests.simulation.planted_bugs import BUGS
    from tests.simulation.run import prepare

    prepare()
    gc.collect()
    gc.freeze()
    first, last = map(int, given.seeds.split(":"))
    if given.bugs is not None:
        return find_all([name for name in BUGS if given.bugs in name], range(first, last))
    with BUGS[given.bug]() if given.bug else nullcontext():
        if given.replay is not None:
            return replay(given.replay)
        return run_all(range(first, last))


def run_all(seeds: range) -> int:
    """Run seeds, and say which have failed."""
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
    return bool(failed)


def replay(seed: int) -> int:
    """Print what happens in one run, and what is wrong with it."""
    from tests.simulation.checks import violations
    from tests.simulation.run import simulate

    run = simulate(seed)
    print(run.setting)
    print(run.history)
    found = violations(run)
    for check, wrong in found.items():
        for one in wrong:
            print(f"{check}: {one}")
    return bool(found)


def find_all(names: list[str], seeds: range) -> int:
    """Say after how many seeds each planted bug is found, and by which check."""
    from tests.simulation.planted_bugs import BUGS

    missed = 0
    for name in names:
        with BUGS[name]():
            runs = ((n, found) for n, (_, found, _) in enumerate(_runs(seeds), 1) if found)
            number, found = next(runs, (0, {}))
        missed += not found
        said = f"{number:5} {', '.join(found)}" if found else "not found"
        print(f"{name:50} {said}", flush=True)
    print(f"{len(names) - missed} of {len(names)} planted bugs found within {len(seeds)} seeds")
    return bool(missed)


def _runs(seeds: range) -> Iterator[tuple[int, dict[str, list[str]], int]]:
    """Each seed, what is wrong in its run, and how many steps that took."""
    from tests.simulation.checks import violations
    from tests.simulation.run import simulate

    for seed in seeds:
        faulthandler.dump_traceback_later(_HANGS_AFTER_SECONDS, exit=True)
        run = simulate(seed)
        yield seed, violations(run), run.scheduler.steps
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    sys.exit(main())
