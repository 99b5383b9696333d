"""What must be true of every run.

A check takes a :class:`~tests.simulation.run.Run` and yields what is wrong, in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.simulation import call_checks, enumeration_checks, metastore_checks, reader_checks
from tests.simulation.run import Run


def violations(run: Run) -> dict[str, list[str]]:
    """What is wrong, by the name of the check that says so."""
    checks: list[Callable[[Run], Iterator[str]]] = [everything_ends]
    if run.scheduler.failure is None:  # else the rest of the run is missing
        checks += [nothing_is_held, nothing_crashes]
        checks += [*call_checks.CHECKS, *enumeration_checks.CHECKS]
        checks += [*reader_checks.CHECKS, *metastore_checks.CHECKS]
    found = {check.__name__: list(check(run)) for check in checks}
    return {name: wrong for name, wrong in found.items() if wrong}


def everything_ends(run: Run) -> Iterator[str]:
    """No deadlock, no wait for ever, no thread that is left."""
    if run.scheduler.failure is not None:
        yield run.scheduler.failure


def nothing_is_held(run: Run) -> Iterator[str]:
    """No lock has an owner at the end."""
    yield from (f"{lock} is held" for lock in run.held)


def nothing_crashes(run: Run) -> Iterator[str]:
    """No error ends a thread."""
    yield from run.scheduler.crashes
