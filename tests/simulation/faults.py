"""Faults in calls to the catalog and the storage: delays, hangs and errors."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from splitlib.errors import SourceUnavailable


class ThrottlingException(Exception):
    """An error of a storage client. Only its ``response`` shows that the client was throttled."""

    response = {"Error": {"Code": "Throttling"}}  # noqa: RUF012


_TRANSIENT = [SourceUnavailable, ConnectionResetError, TimeoutError, ThrottlingException]
_FINAL = [PermissionError, KeyError, ValueError]


@dataclass(frozen=True, slots=True)
class Fault:
    """The delay and the error of one call."""

    before_seconds: float = 0.0
    hangs: bool = False
    """Whether the call hangs until the end of the run."""
    error: Exception | None = None
    text: str = ""
    """Message of the error. No other error of the run has the same message."""
    transient: bool = False
    torn: bool = False
    """Whether the error is raised after a part of the answer was returned."""
    stale: bool = False
    """Whether the answer is computed before the delay, so that it may be outdated afterwards."""

    def fail(self, *, halfway: bool) -> None:
        """Raise the error if it occurs at this point of the call.

        Args:
            halfway: Whether a part of the answer was already returned.
        """
        if self.error is not None and self.torn == halfway:
            raise self.error


class Faults:
    """Source of a random fault for each call.

    Args:
        random: Random numbers of the run.
        deadline_seconds: Deadline of a call, in seconds. Some delays are longer.
        may_hang: Whether calls may hang. False if splitlib waits for calls without a deadline.
    """

    def __init__(self, random: Random, deadline_seconds: float, *, may_hang: bool) -> None:
        self._random = random
        self._errors = 0
        self._deadline = deadline_seconds
        kinds = {"slow": 4.0, "transient": 4.0, "late": 1.0, "final": 0.4, "hang": 0.4}
        if not may_hang:
            del kinds["hang"]
        chosen = [kind for kind in kinds if random.random() < 0.5]
        self._kinds, self._weights = chosen, [kinds[kind] for kind in chosen]
        self._rate = random.choice([0.0, 0.05, 0.15, 0.4]) if chosen else 0.0

    def draw(self) -> Fault:
        """Return a random fault for one call."""
        random = self._random
        usual = random.choice([0.0, 0.0, 0.001, 0.05])
        if random.random() >= self._rate:
            return Fault(usual, stale=random.random() < 0.5)
        (kind,) = random.choices(self._kinds, self._weights)
        if kind == "slow":
            return Fault(random.uniform(0.05, 2.0), stale=random.random() < 0.5)
        if kind == "late":
            return Fault(random.choice([0.5, 0.999, 1.0, 1.001, 1.5]) * (self._deadline or 50.0))
        if kind == "hang":
            return Fault(hangs=True)
        transient = kind == "transient"
        self._errors += 1
        text = f"injected error {self._errors}."
        error: Exception = random.choice(_TRANSIENT if transient else _FINAL)(text)
        torn = random.random() < 0.4
        return Fault(usual, error=error, text=text, transient=transient, torn=torn)
