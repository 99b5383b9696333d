"""Recorded choices draw the same queries again, and can be reduced."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.integration.randomized.choices import Choices, smallest
from tests.integration.randomized.read_trials import draw_trial
from tests.integration.randomized.star_programs import draw_program


@given(st.integers(min_value=0, max_value=2**40))
def test_recorded_choices_draw_the_same(seed: int) -> None:
    """A seed draws the same with recorded choices and with a plain random generator."""
    for draw in (draw_program, draw_trial):
        choices = Choices(seed)
        first = draw(seed, choices)
        assert draw(seed, Choices(seed, choices.made)) == first
        assert draw(seed, random.Random(seed)) == first == draw(seed)


def test_no_choices_draw_the_simplest() -> None:
    """After the last replayed choice, every choice is zero."""
    assert draw_program(1, Choices(1, [])) == draw_program(1, Choices(1, [0.0] * 1000))


def test_the_smallest_is_found() -> None:
    """Only three of a thousand choices matter, one of them by its position."""

    def fails(choices: Sequence[float]) -> bool:
        return bool(choices) and choices[0] > 0.2 and sum(c > 0.9 for c in choices) >= 2

    drawn = random.Random(7)
    found = smallest([0.5, *(drawn.random() for _ in range(1000))], fails, attempts=3000)
    assert fails(found)
    assert len(found) == 2, found


def test_attempts_are_bounded() -> None:
    """The limit matters because each attempt runs a query twice."""
    asked = []

    def fails(choices: Sequence[float]) -> bool:
        asked.append(choices)
        return False

    assert smallest([0.5] * 100, fails, attempts=10) == [0.5] * 100
    assert len(asked) == 10
