"""Random numbers that are recorded, so that a drawn query can be replayed and simplified."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence


class Choices(random.Random):
    """A random generator that records each choice as a number in the range from 0 (inclusive) to 1
    (exclusive).

    Replaying the same numbers draws the same query. Smaller numbers usually draw a simpler query.

    Args:
        seed: Seed of new numbers.
        replayed: Numbers to replay instead. After the last one, every choice is zero.
    """

    def __init__(self, seed: int, replayed: Sequence[float] | None = None) -> None:
        super().__init__(seed)
        self._replayed = replayed
        self.made: list[float] = []
        """All choices made, in order."""

    def random(self) -> float:
        """See :meth:`random.Random.random`."""
        return self._made(super().random)

    def getrandbits(self, k: int, /) -> int:
        """See :meth:`random.Random.getrandbits`. At most 53 bits, the precision of a float."""
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
    """Return a shorter list of smaller choices that still fails.

    Blocks are removed first, then single choices are set to zero. This is a short form of
    Hypothesis's shrinking, described by David R. MacIver and Alastair F. Donaldson in "Test-Case
    Reduction via Test-Case Generation" (ECOOP 2020).

    Args:
        choices: Choices that fail.
        fails: Whether the given choices fail.
        attempts: Maximum number of calls to ``fails``.
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
