"""The number of concurrent calls changes when the source throttles."""

from __future__ import annotations

import threading

import hypothesis.strategies as st
import pytest
from hypothesis import given

import splitlib
from splitlib.remote.calls import Call, current_call, working_on
from splitlib.remote.pace import Limit, Pace
from splitlib.remote.retry import retrying


def throttled() -> splitlib.SourceUnavailable:
    error = splitlib.SourceUnavailable("slow down")
    error.is_throttled = True
    return error


@given(st.integers(1, 64), st.lists(st.booleans(), max_size=200))
def test_the_limit_stays_in_its_bounds_and_moves_as_it_should(most, answers):
    limit = Limit(most)
    for now, answered in enumerate(answers):
        before = limit.calls
        if answered:
            limit.succeeded()
            assert before <= limit.calls <= before + 1
        else:
            limit.throttled(now, now + 0.5)
            assert max(1, before // 2) == limit.calls
        assert 1 <= limit.calls <= most


def test_one_crowd_lowers_it_once():
    limit = Limit(32)
    for _ in range(31):
        limit.throttled(began=0, now=1)
    assert limit.calls == 16
    limit.throttled(began=2, now=3)
    assert limit.calls == 8


def test_it_comes_back():
    limit = Limit(8)
    limit.throttled(0, 1)
    for _ in range(40):
        limit.succeeded()
    assert limit.calls == 8


def test_a_source_that_throttles_is_asked_again_as_long_as_it_answers_others(monkeypatch):
    monkeypatch.setattr("splitlib.remote.retry.random.uniform", lambda *_: 0)
    pace, config = Pace(4), splitlib.SplitConfig(retry_attempts=2)
    calls = []

    def call() -> str:
        calls.append(1)
        if len(calls) < 9:
            raise throttled()
        return "answer"

    with working_on(current := Call(60, pace)):
        assert retrying(call, config) == "answer"
    assert (len(calls), current.failed_attempts) == (9, 8)
    calls.clear()
    impatient = splitlib.SplitConfig(retry_max_seconds=0)
    with working_on(Call(60, Pace(4))), pytest.raises(splitlib.SourceUnavailable, match="slow"):
        retrying(call, impatient)
    assert len(calls) == 1


@pytest.mark.parametrize("is_throttled", [True, False])
def test_a_throttled_call_lowers_the_limit_of_its_source(is_throttled):
    pace, error, never = Pace(2), throttled(), threading.Event()
    error.is_throttled = is_throttled
    with pytest.raises(splitlib.SourceUnavailable, match="slow down"), pace.turn(never, 0):
        raise error
    assert pace.succeeded_at == float("-inf")
    with pace.turn(never, 0):
        assert _turn(pace, never, 0).startswith("The source throttles" if is_throttled else "had")


def test_a_call_without_a_deadline_of_its_own_gets_one():
    def seconds() -> float:
        current = current_call()
        assert current is not None
        return current.remaining_seconds()

    config = splitlib.SplitConfig(call_deadline_seconds=7)
    assert 0 < retrying(seconds, config) <= 7
    with working_on(Call(60)):
        assert 7 < retrying(seconds, config) <= 60


def test_a_call_in_a_call_needs_no_second_turn():
    config = splitlib.SplitConfig()
    with working_on(Call(60, Pace(1))):
        assert retrying(lambda: retrying(lambda: "answer", config), config) == "answer"


def test_whoever_waits_for_a_turn_can_be_abandoned():
    pace, abandoned = Pace(1), threading.Event()
    waiting = threading.Thread(target=lambda: failures.append(_turn(pace, abandoned)))
    failures: list[str] = []
    with pace.turn(threading.Event(), 0):
        waiting.start()
        abandoned.set()
        pace.wake()
        waiting.join(10)
    assert failures == ["The source throttles, and this call could not start in time."]


def _turn(pace: Pace, abandoned: threading.Event, seconds: float = 60) -> str:
    try:
        with pace.turn(abandoned, seconds):
            return "had its turn"
    except splitlib.SourceUnavailable as error:
        return str(error)
