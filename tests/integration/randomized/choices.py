"""A random generator that records its numbers, so that a random query can be simplified."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices(random.Random):
    """A random generator that records all its numbers, and can replay recorded numbers.

    Numbers are at least 0 and less than 1. The same numbers draw the same query. Smaller numbers
    usually draw a simpler query.

    Args:
        seed: Seed of new numbers. It is not used if numbers are replayed.
        replayed: Numbers to replay; None for new numbers. After the last one, all are zero.
    """

    def __init__(self, seed: int, replayed: Sequence[float] | None = None) -> None:
        super().__init__(seed)
        self._replayed = replayed
        self.made: list[float] = []
        """All numbers returned so far, in order."""

    def random(self) -> float:
        """Return the next number, as :meth:`random.Random.random` does."""
        return self._made(super().random)

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of ``k`` random bits. ``k`` is at most 53, the precision of a float."""
        return int(self._made(lambda: super(Choices, self).getrandbits(k) / 2**k) * 2**k)

    def _made(self, draw: Callable[[], float]) -> float:
        if self._replayed is None:
            choice = draw()
        else:
            place = len(self.made)
            choice = self._replayed[place] if place < len(self._replayed) else 0.0
        self.made.append(choice)
        return choice


def some_of(drawn: random.Random, items: Sequence[T], number: int) -> list[T]:
    """Draw some distinct items. Unlike ``random.sample``, this ends if all numbers are zero."""
    pool = list(items)
    return [pool.pop(drawn.randrange(len(pool))) for _ in range(number)]


def smallest(
    choices: Sequence[float], fails: Callable[[Sequence[float]], bool], attempts: int
) -> list[float]:
    """Return a shorter list of smaller numbers that still draws a failing query.

    First, blocks of numbers are removed. Then single numbers are set to zero. Hypothesis shrinks
    its examples in a similar way, described by David R. MacIver and Alastair F. Donaldson in
    "Test-Case Reduction via Test-Case Generation" (ECOOP 2020).

    Args:
        choices: Recorded numbers that draw a failing query.
        fails: Function that returns whether the query drawn from a list of numbers fails.
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
