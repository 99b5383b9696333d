"""Waits for calls that hang end at a deadline, at a cancellation or at the end of the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

import pytest

import splitlib
from splitlib import DynamicFileEnumerator, SplitConfig, SplitlibError
from splitlib.remote.calls import BoundedCalls, Workers
from splitlib.table import Table
from tests.support.coordinators import assert_no_thread_is_left, coordinator_of, keys, take
from tests.support.memory_connector import DetailedConnector, MemoryConnector, enumerator_of, ks

AT_ONCE_SECONDS = 0.5


class Hanging(DetailedConnector):
    """A connector with a method that hangs until the test releases it.

    Args:
        where: Name of the method.
        more: Arguments of the base class.
    """

    def __init__(self, where: str = "", **more) -> None:
        super().__init__(on_call=lambda method: self.hang() if method == where else None, **more)
        self.hangs = threading.Event()
        self.let_go = threading.Event()

    def hang(self) -> None:
        self.hangs.set()
        assert self.let_go.wait(60)

    def hosts(self, paths):
        self.on_call("hosts")
        return [[] for _ in paths]


WHERE = ["list_partitions", "load_details", "list_files", "hosts"]


@pytest.fixture
def hanging():
    """Yield a function that creates hanging connectors, and release their calls at the end."""
    made: list[Hanging] = []

    def make(where: str, **more) -> Hanging:
        made.append(Hanging(where, **more))
        return made[-1]

    yield make
    for connector in made:
        connector.let_go.set()
    assert_no_thread_is_left()


def seconds_of(call: Callable[[], object]) -> float:
    started = time.monotonic()
    call()
    return time.monotonic() - started


@pytest.mark.parametrize("where", WHERE)
def test_cancelling_ends_every_wait_at_once(hanging, where):
    connector = hanging(where)
    enumerator = enumerator_of(connector)
    caught: list[tuple[float, BaseException]] = []

    def consume() -> None:
        try:
            list(enumerator.enumerate_splits())
        except SplitlibError as error:
            caught.append((time.monotonic(), error))

    consumer = threading.Thread(target=consume, daemon=True)
    consumer.start()
    assert connector.hangs.wait(10)
    cancelled = time.monotonic()
    assert seconds_of(enumerator.cancel) < AT_ONCE_SECONDS
    consumer.join(5)
    ((at, error),) = caught
    assert at - cancelled < AT_ONCE_SECONDS
    assert "was cancelled. [connector=memory, table=t]" in str(error)


@pytest.mark.parametrize("where", WHERE)
def test_closing_a_coordinator_does_not_wait(hanging, where):
    connector = hanging(where)
    coordinator = coordinator_of(connector)
    coordinator.register_reader("r")
    coordinator.handle_split_request("r")
    assert connector.hangs.wait(10)
    assert seconds_of(coordinator.close) < 2 * AT_ONCE_SECONDS


def test_closing_the_iterator_does_not_wait(hanging):
    connector = hanging("")
    connector.on_list = lambda k: connector.hang() if k > 1 else None
    splits = enumerator_of(connector, listing_threads=1).select_files()
    for _ in range(2):
        next(splits)
    assert connector.hangs.wait(10)  # the listing of the next partition hangs
    assert seconds_of(splits.close) < 2 * AT_ONCE_SECONDS


@pytest.mark.parametrize("where", WHERE)
def test_the_deadline_of_a_call(hanging, where):
    enumerator = enumerator_of(hanging(where), call_deadline_seconds=0.1)

    def enumerate_all() -> None:
        with pytest.raises(splitlib.SourceUnavailable, match=r"0\.1 seconds.*call_deadline_sec"):
            list(enumerator.enumerate_splits())

    assert seconds_of(enumerate_all) < 5


def test_the_deadline_of_a_call_counts_from_when_it_begins():
    """The deadline applies to each listing separately. Each of 30 listings takes a third of it."""
    slow = MemoryConnector(30, 1, on_list=lambda k: time.sleep(0.05))
    enumerator = enumerator_of(slow, listing_threads=1, call_deadline_seconds=0.15)
    assert len(list(enumerator.enumerate_splits())) == 30


def test_the_deadline_of_an_enumeration():
    slow = MemoryConnector(1000, 1, on_list=lambda k: time.sleep(0.02))
    enumerator = enumerator_of(slow, listing_threads=1, enumeration_deadline_seconds=0.2)

    def enumerate_all() -> None:
        with pytest.raises(splitlib.SourceUnavailable, match=r"0\.2 sec.*enumeration_deadline_sec"):
            list(enumerator.enumerate_splits())

    assert seconds_of(enumerate_all) < 5


def test_the_deadline_of_a_call_that_ends_shortly_before_that_of_the_enumeration(hanging):
    limits = {"call_deadline_seconds": 0.1, "enumeration_deadline_seconds": 0.8}
    enumerator = enumerator_of(hanging("list_files"), listing_threads=1, **limits)
    with pytest.raises(splitlib.SourceUnavailable, match="A call took longer"):
        list(enumerator.enumerate_splits())


def test_a_slow_consumer_takes_nothing_from_the_deadline():
    enumerator = enumerator_of(MemoryConnector(20, 1), enumeration_deadline_seconds=0.3)
    count = 0
    for _ in enumerator.enumerate_splits():
        time.sleep(0.03)
        count += 1
    assert count == 20


def test_no_deadline():
    settings = {"call_deadline_seconds": 0, "enumeration_deadline_seconds": 0}
    assert len(list(enumerator_of(MemoryConnector(), **settings).enumerate_splits())) == 20
    for_ever = dict.fromkeys(settings, float("inf")) | {"filter_wait_seconds": float("inf")}
    enumerator = enumerator_of(MemoryConnector(), **for_ever)
    enumerator.announce_dynamic_filter("join")
    arrival = threading.Timer(0.05, enumerator.set_dynamic_filtering_data, (keys(1).data, "join"))
    arrival.start()
    assert ks(enumerator.enumerate_splits()) == [1, 1]


def test_opening_a_table_has_a_deadline():
    let_go = threading.Event()

    class Slow(MemoryConnector):
        @classmethod
        def open(cls, name, options):
            assert let_go.wait(60)
            return cls()

    splitlib.register("slow", Slow)
    with pytest.raises(splitlib.SourceUnavailable, match=r"call_deadline_seconds"):
        splitlib.load_table("t", "slow", config=SplitConfig(call_deadline_seconds=0.1))
    let_go.set()


def test_tries_end_at_the_deadline():
    def gone(k):
        raise ConnectionResetError("gone")

    settings = {"retry_attempts": 10**6, "retry_max_seconds": 10**6, "call_deadline_seconds": 0.3}

    def enumerate_all() -> None:
        with pytest.raises(splitlib.SourceUnavailable):
            list(enumerator_of(MemoryConnector(on_list=gone), **settings).enumerate_splits())

    assert seconds_of(enumerate_all) < 5


SCRIPT = """
    import sys, threading, time
    from tests.unit.remote.test_deadlines import Hanging
    from tests.support.memory_connector import enumerator_of

    connector = Hanging(sys.argv[1])
    enumerator = enumerator_of(connector)
    consumer = threading.Thread(target=lambda: list(enumerator.enumerate_splits()), daemon=True)
    consumer.start()
    assert connector.hangs.wait(60)
    enumerator.cancel()
    print("cancelled", time.time(), flush=True)
"""


@pytest.mark.parametrize("where", ["list_partitions", "list_files"])
def test_the_process_can_exit(where):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), where],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    ended = time.time()
    assert done.stdout.startswith("cancelled "), done.stderr
    assert done.returncode == 0
    assert ended - float(done.stdout.split()[1]) < 20


@pytest.mark.filterwarnings("ignore:This process")
@pytest.mark.parametrize("what", ["coordinator", "enumerator", "suspended", "pool"])
def test_a_forked_child_gets_an_error_and_does_not_wait(what):
    coordinator = coordinator_of(MemoryConnector(1000, 10))
    coordinator.register_reader("r")
    take(coordinator)  # from now on, the coordinator's thread is listing
    suspended = enumerator_of(MemoryConnector(1000, 10)).enumerate_splits()
    next(suspended)
    pool = Workers(1, "splitlib-test")
    assert pool.submit(lambda: 1).outcome.result() == 1
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            if what == "coordinator":
                coordinator.handle_split_request("r")
            elif what == "suspended":
                list(suspended)
            elif what == "pool":
                pool.submit(lambda: 1).outcome.result()
            else:
                next(coordinator.enumerator.enumerate_splits())
        except SplitlibError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    until = time.monotonic() + 10
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child waits")
        time.sleep(0.01)
    said = os.read(read, 4096).decode()
    os.close(read)
    assert "made before a fork" in said
    assert "Hint" in said
    coordinator.close()
    pool.stop()
    del suspended


def test_a_result_is_not_waited_for_in_another_process(monkeypatch):
    with BoundedCalls(SplitConfig(), Future()) as calls:
        task = calls.submit(lambda: 1)
        assert task.outcome.result(30) == 1
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: -1)
            with pytest.raises(SplitlibError, match="made before a fork"):
                calls.result(task)
        assert calls.result(task) == 1


def test_a_pool_does_in_order_what_it_is_given_and_only_as_many_at_once():
    busy, most, done = 0, 0, []
    lock = threading.Lock()

    def work(i: int) -> int:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.001)
        with lock:
            busy -= 1
            done.append(i)
        return i * i

    with Workers(4, "splitlib-test") as workers:
        assert list(workers.map(work, range(200))) == [i * i for i in range(200)]
    assert 1 < most <= 4
    assert sorted(done) == list(range(200))
    assert_no_thread_is_left()


def test_a_pool_waits_for_what_is_about_to_end_but_not_after_an_error(monkeypatch):
    monkeypatch.setattr("splitlib.remote.calls.TIDY_SECONDS", 5)
    begun, let_go, ended = threading.Event(), threading.Event(), threading.Event()

    def work(seconds: float) -> None:
        begun.set()
        let_go.wait(seconds)
        ended.set()

    with Workers(1, "splitlib-test") as workers:
        workers.submit(lambda: work(0.3))
        assert begun.wait(5)
    assert ended.is_set()

    def fail() -> None:
        with suppress(KeyError), Workers(1, "splitlib-test") as workers:
            workers.submit(lambda: work(20))
            raise KeyError

    assert seconds_of(fail) < 4
    let_go.set()
    assert_no_thread_is_left()


def test_an_idle_thread_is_used_again():
    with Workers(4, "splitlib-test") as workers:
        names = set()
        for _ in range(20):
            names.add(workers.submit(threading.get_ident).outcome.result())
            time.sleep(0.002)
        assert len(names) < 4


def test_an_idle_thread_keeps_no_result():
    class Result:
        pass

    gone = threading.Event()
    with Workers(1, "splitlib-test") as workers:
        task = workers.submit(Result)
        weakref.finalize(task.outcome.result(10), gone.set)
        del task
        assert gone.wait(10)


def test_ctrl_c_while_a_call_hangs(hanging):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    connector = hanging("list_files")
    splits = DynamicFileEnumerator(Table("t", "memory", connector)).enumerate_splits()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        main = threading.main_thread().ident
        assert main is not None
        threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGUSR1)).start()

        def enumerate_all() -> None:
            with pytest.raises(KeyboardInterrupt):
                next(splits)

        assert seconds_of(enumerate_all) < 2
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_nothing_begins_once_it_is_cancelled(hanging):
    """After a cancellation, neither the next call of a thread nor a queued call begins."""
    connector = hanging("", partitions=20, files=1)
    begun: list[str] = []

    def on_call(method: str) -> None:
        begun.append(method)
        if begun.count("list_files") == 2:
            connector.hang()

    connector.on_call = on_call
    enumerator = enumerator_of(connector, listing_threads=1)
    splits = enumerator.enumerate_splits()
    next(splits)  # after this call, no thread waits for splits
    assert connector.hangs.wait(10)
    enumerator.cancel()
    already = list(begun)
    connector.let_go.set()
    assert_no_thread_is_left()
    assert begun == already
    with pytest.raises(SplitlibError, match="was cancelled"):
        list(splits)
