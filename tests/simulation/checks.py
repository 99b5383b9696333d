"""All checks of a run.

A check takes a :class:`~tests.simulation.run.Run` and yields a description of each violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.simulation import call_checks, enumeration_checks, metastore_checks, reader_checks
from tests.simulation.run import Run


def violations(run: Run) -> dict[str, list[str]]:
    """Return the violations that each check finds in a run, by the name of the check."""
    checks: list[Callable[[Run], Iterator[str]]] = [everything_ends]
    if run.scheduler.failure is None:  # the history of a failed run is incomplete
        checks += [nothing_is_held, nothing_crashes]
        checks += [*call_checks.CHECKS, *enumeration_checks.CHECKS]
        checks += [*reader_checks.CHECKS, *metastore_checks.CHECKS]
    found = {check.__name__: list(check(run)) for check in checks}
    return {name: wrong for name, wrong in found.items() if wrong}


def everything_ends(run: Run) -> Iterator[str]:
    """Check that the run ended without a deadlock, an endless wait or a thread that still runs."""
    if run.scheduler.failure is not None:
        yield run.scheduler.failure


def nothing_is_held(run: Run) -> Iterator[str]:
    """Check that no lock is held when the run ends."""
    yield from (f"{lock} is held" for lock in run.held)


def nothing_crashes(run: Run) -> Iterator[str]:
    """Check that no thread ended with an error."""
    yield from run.scheduler.crashes
