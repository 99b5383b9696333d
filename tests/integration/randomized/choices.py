"""Chance that is recorded, so that what was drawn can be drawn again, and made smaller."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence


class Choices(random.Random):
    """A source of chance whose every choice is a number from 0 up to, not including, 1.

    The same numbers draw the same thing; smaller ones mostly draw a simpler one.

    Args:
        seed: Where the numbers come from.
        replayed: The numbers instead, each in turn; after the last there are only zeros.
    """

    def __init__(self, seed: int, replayed: Sequence[float] | None = None) -> None:
        super().__init__(seed)
        self._replayed = replayed
        self.made: list[float] = []
        """The numbers so far."""

    def random(self) -> float:
        """See :meth:`random.Random.random`."""
        return self._made(super().random)

    def getrandbits(self, k: int, /) -> int:
        """See :meth:`random.Random.getrandbits`; for up to 53 bits, as a number has no more."""
        return int(self._made(lambda: super(Choices, self).getrandbits(k) / 2**k) * 2**k)

    def _made(self, draw: Callable[[], float]) -> float:
        if self._replayed is None:
            choice = draw()
        else:
            place = len(self.made)
            choice = self._replayed[place] if place < len(self._replayed) else 0.0
        self.made.append(choice)
        return choice


def smallest(
    choices: Sequence[float], fails: Callable[[Sequence[float]], bool], attempts: int
) -> list[float]:
    """Fewer and smaller choices that still fail: blocks left out, then single ones made zero.

    That is how Hypothesis shrinks, in short; David R. MacIver and Alastair F. Donaldson describe it
    in "Test-Case Reduction via Test-Case Generation" (ECOOP 2020).

    Args:
        choices: What fails.
        fails: Whether other choices fail as well.
        attempts: How often that may be asked.
    """
    best = list(choices)
    tried = 0
    is_better = True
    while is_better:
        is_better = False
        for smaller in _smaller(best):
            if tried >= attempts:
                return best
            tried += 1
            if fails(smaller):
                best, is_better = smaller, True
                break
    return best


def _smaller(choices: Sequence[float]) -> Iterator[list[float]]:
    size = len(choices) // 2
    while size:
        for start in range(0, len(choices), size):
            yield [*choices[:start], *choices[start + size :]]
        size //= 2
    for place, choice in enumerate(choices):
        if choice:
            yield [*choices[:place], 0.0, *choices[place + 1 :]]
