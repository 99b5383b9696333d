"""Calls that are retried after an error, and calls that are not."""

from __future__ import annotations

import threading
import time

import pytest

import splitlib
from splitlib.remote.calls import Call, working_on
from splitlib.remote.retry import retrying


class Flaky:
    def __init__(self, failures, error):
        self.failures, self.error, self.calls = failures, error, 0

    def __call__(self):
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error
        return "answer"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr("splitlib.remote.retry.random.uniform", lambda *_: 0)


def test_what_is_unavailable_is_tried_again():
    call = Flaky(4, splitlib.SourceUnavailable("down"))
    assert retrying(call, splitlib.SplitConfig()) == "answer"
    assert call.calls == 5


def test_not_for_ever_and_nothing_else():
    call = Flaky(99, splitlib.SourceUnavailable("down"))
    with pytest.raises(splitlib.SourceUnavailable, match=r"all 3 attempts .* \(retry_attempts\)"):
        retrying(call, splitlib.SplitConfig(retry_attempts=3))
    assert call.calls == 3
    late = Flaky(99, splitlib.SourceUnavailable("down"))
    with pytest.raises(splitlib.SourceUnavailable):
        retrying(late, splitlib.SplitConfig(retry_max_seconds=0))
    assert late.calls == 1
    final = Flaky(1, splitlib.SourceError("broken"))
    with pytest.raises(splitlib.SourceError):
        retrying(final, splitlib.SplitConfig())
    assert final.calls == 1


@pytest.mark.parametrize(
    ("config", "seconds", "limit"),
    [
        (splitlib.SplitConfig(retry_max_seconds=7), 100.0, "7 seconds (retry_max_seconds)"),
        (splitlib.SplitConfig(), 5.0, "5 seconds (call_deadline_seconds)"),
    ],
)
def test_the_passed_limit_is_named(monkeypatch, config, seconds, limit):
    pauses = iter([0, 8])
    monkeypatch.setattr("splitlib.remote.retry.random.uniform", lambda *_: next(pauses))
    call = Call(seconds)
    with working_on(call), pytest.raises(splitlib.SourceUnavailable) as caught:
        retrying(Flaky(99, splitlib.SourceUnavailable("down")), config)
    hint = f"attempts failed for {limit}. Try again later, or raise this limit."
    assert caught.value.hint == hint


def test_pauses_are_random_below_a_bound_that_doubles_until_it_stops_growing(monkeypatch):
    bounds: list[tuple[float, float]] = []
    waited: list[float] = []

    def drawn(low, high):
        bounds.append((low, high))
        return high / 1000

    class Recorded(threading.Event):
        def wait(self, timeout=None):
            waited.append(timeout)
            return False

    monkeypatch.setattr("splitlib.remote.retry.random.uniform", drawn)
    call = Call(60)
    call.abandoned = Recorded()
    with working_on(call):
        retrying(
            Flaky(8, splitlib.SourceUnavailable("down")), splitlib.SplitConfig(retry_attempts=9)
        )
    assert [low for low, _ in bounds] == [0] * 8
    assert [high for _, high in bounds] == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 6.4, 6.4])
    assert waited == [high / 1000 for _, high in bounds]


def test_an_abandoned_call_is_not_made():
    call, flaky = Call(60), Flaky(0, splitlib.SourceUnavailable("down"))
    call.abandoned.set()
    with working_on(call), pytest.raises(splitlib.SourceUnavailable, match="was abandoned"):
        retrying(flaky, splitlib.SplitConfig())
    assert flaky.calls == 0


def test_a_hint_of_the_error_itself_is_kept():
    error = splitlib.SourceUnavailable("down", hint="wait until the maintenance ends.")
    with pytest.raises(splitlib.SourceUnavailable) as caught:
        retrying(Flaky(99, error), splitlib.SplitConfig(retry_attempts=3))
    assert caught.value.hint == "wait until the maintenance ends."


def test_a_call_that_was_tried_once_has_no_hint_about_attempts():
    with pytest.raises(splitlib.SourceUnavailable) as caught:
        retrying(
            Flaky(99, splitlib.SourceUnavailable("down")), splitlib.SplitConfig(retry_attempts=1)
        )
    assert caught.value.hint is None


def test_after_the_deadline_the_error_says_so():
    def slow():
        time.sleep(0.05)
        raise splitlib.SourceUnavailable("down")

    call = Call(0.02)
    with working_on(call), pytest.raises(splitlib.SourceUnavailable, match="longer than") as caught:
        retrying(slow, splitlib.SplitConfig())
    assert str(caught.value.__cause__) == "down"
