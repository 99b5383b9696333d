from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

import splitlib
from splitlib import SplitConfig
from splitlib.remote.calls import (
    BoundedCalls,
    Workers,
    cached_property,
    current_call,
    in_parallel,
    in_pool,
)


def test_results_are_in_the_order_of_the_arguments():
    together = threading.Barrier(4)

    def squared(number):
        together.wait(60)
        return number**2

    assert in_parallel(squared, [3, 1, 2, 0], threads=4) == [9, 1, 4, 0]
    assert in_parallel(squared, []) == []


def test_threads_of_a_pool_know_it():
    with Workers(2, "pool") as pool:
        assert list(pool.map(lambda _: in_pool(), range(3))) == [True] * 3
    assert not in_pool()


def test_one_call_needs_no_thread():
    assert in_parallel(lambda _: threading.current_thread(), [1]) == [threading.current_thread()]


def test_error_ends_the_other_calls():
    started, ended = threading.Event(), threading.Event()

    def call(number):
        if number:
            started.wait(60)
            raise KeyError(number)
        started.set()
        call = current_call()
        assert call is not None
        assert call.abandoned.wait(60)
        ended.set()

    with pytest.raises(KeyError):
        in_parallel(call, [0, 1], threads=2)
    assert ended.wait(60)


@pytest.mark.parametrize("cancel", [True, False])
def test_cancellation_and_deadline_end_the_calls(cancel):
    cancelled: Future[None] = Future()
    started = threading.Event()
    seconds = 0 if cancel else 0.01
    config = SplitConfig(call_deadline_seconds=seconds)
    calls, errors = threading.Semaphore(0), []

    def wait(_):
        started.set()
        call = current_call()
        assert call is not None
        assert call.abandoned.wait(60)
        calls.release()

    def work():
        try:
            in_parallel(wait, [1, 2], threads=2)
        except splitlib.SourceUnavailable as error:
            errors.append(error)
        finally:
            calls.release()

    with BoundedCalls(config, cancelled) as bounded:
        task = bounded.submit(work)
        assert started.wait(60)
        if cancel:
            cancelled.set_result(None)
        with pytest.raises(splitlib.SplitlibError):
            bounded.result(task)
        for _ in range(3):
            assert calls.acquire(timeout=60)
    assert "did not end in time" in str(errors[0])


def test_an_abandoned_task_that_is_queued_never_starts():
    may_end = threading.Event()
    with Workers(1, "pool") as pool:
        running, queued = pool.submit(lambda: may_end.wait(60)), pool.submit(pytest.fail)
        pool.abandon(queued)
        assert queued.outcome.cancelled()
        assert queued.call.abandoned.is_set()
        may_end.set()
        assert running.outcome.result(60)


def test_a_pool_that_was_stopped_starts_no_task():
    pool = Workers(1, "pool")
    pool.stop()
    task = pool.submit(pytest.fail)
    assert task.outcome.cancelled()
    assert task.call.abandoned.is_set()


def test_a_property_keeps_its_description():
    class Lazy:
        @cached_property
        def value(self):
            """The value."""

    assert Lazy.__dict__["value"].__doc__ == "The value."


def test_a_slow_property_does_not_block_other_objects():
    class Lazy:
        def __init__(self, compute):
            self.compute = compute

        @cached_property
        def value(self):
            return self.compute()

    begun, may_end = threading.Event(), threading.Event()

    def slowly():
        begun.set()
        return may_end.wait(30)

    slow = Lazy(slowly)
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert begun.wait(30)
    assert Lazy(lambda: 2).value == 2
    may_end.set()
    thread.join()
    assert slow.value is True


def test_fewer_threads_than_allowed(monkeypatch):
    start, most, done = threading.Thread.start, [0], threading.Event()
    started: list[threading.Thread] = []

    def limited(thread):
        if len(started) >= most[0]:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with Workers(8, "pool") as pool:
        for _ in range(8):  # as many as the maximum number of threads
            with pytest.raises(RuntimeError, match="new thread"):
                pool.submit(pytest.fail)
        most[0] = 2
        tasks = [pool.submit(done.wait) for _ in range(6)]
        assert len(started) == 2
        done.set()
        assert all(task.outcome.result(60) for task in tasks)
