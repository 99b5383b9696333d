"""Recorded random numbers draw the same query again, and ``smallest`` reduces them."""

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
    """For a seed, ``Choices``, its recorded numbers and ``random.Random`` draw the same query."""
    for draw in (draw_program, draw_trial):
        choices = Choices(seed)
        first = draw(seed, choices)
        assert draw(seed, Choices(seed, choices.made)) == first
        assert draw(seed, random.Random(seed)) == first == draw(seed)


def test_no_choices_draw_the_simplest() -> None:
    """When all recorded numbers are used, ``Choices`` continues with zeros."""
    assert draw_program(1, Choices(1, [])) == draw_program(1, Choices(1, [0.0] * 1000))


def test_the_smallest_is_found() -> None:
    """Of a thousand numbers, ``smallest`` keeps only two that still fail."""

    def fails(choices: Sequence[float]) -> bool:
        return bool(choices) and choices[0] > 0.2 and sum(c > 0.9 for c in choices) >= 2

    drawn = random.Random(7)
    found = smallest([0.5, *(drawn.random() for _ in range(1000))], fails, attempts=3000)
    assert fails(found)
    assert len(found) == 2, found


def test_attempts_are_bounded() -> None:
    """``smallest`` stops after ``attempts`` calls, because each call runs a query twice."""
    asked = []

    def fails(choices: Sequence[float]) -> bool:
        asked.append(choices)
        return False

    assert smallest([0.5] * 100, fails, attempts=10) == [0.5] * 100
    assert len(asked) == 10
