"""What is kept of a file is believed only as long as its path, size and time stay the same."""

from __future__ import annotations

import os
import signal
import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitlib.model import FILE_SCHEMA
from splitlib.statistics.footers import GroupRow
from splitlib.statistics.row_groups import groups_array
from splitlib.statistics.store import StatisticsStore

ITEM = pa.schema([pa.field("Item", pa.int64())])
NOW_MS = 1_700_000_000_000
File = tuple[str, int, int]


def batch(files: list[File]) -> pa.RecordBatch:
    rows = [(*file, 0) for file in files]
    columns = list(zip(*rows, strict=True)) if rows else [()] * 4
    arrays = [pa.array(c, f.type) for c, f in zip(columns, FILE_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)


def store_of(most_bytes: int = 1 << 20) -> StatisticsStore:
    return StatisticsStore(most_bytes)


def add(
    store: StatisticsStore, files: list[File], values: list[int], columns: pa.Schema = ITEM
) -> None:
    rows = [[GroupRow(value, value, False, True, False, 0, 9)] for value in values]
    names = [name.lower() for name in columns.names]
    groups = {name: groups_array(rows, pa.int64()) for name in names}
    store.add(columns, batch(files), groups, NOW_MS / 1000)


def get(store: StatisticsStore, files: list[File], columns: pa.Schema = ITEM) -> list[int | None]:
    (lists,) = store.get(columns, batch(files)).columns.values()
    return [None if groups is None else groups[0]["lower"] for groups in lists.to_pylist()]


files = st.tuples(st.sampled_from("abcdefgh"), st.integers(1, 2), st.sampled_from([1, 2, 0]))


@settings(deadline=None)
@given(st.lists(st.lists(files, min_size=1, max_size=5, unique=True), max_size=8), st.lists(files))
def test_the_store_returns_the_latest_version_or_nothing(
    added: list[list[File]], wanted: list[File]
) -> None:
    store, number = store_of(), 0
    known: dict[File, int] = {}
    latest: dict[str, File] = {}
    for some in added:
        once = list({path: (path, size, time) for path, size, time in some}.values())
        add(store, once, list(range(number, number + len(once))))
        for file in once:
            if file[2]:
                known[file] = number
                if file[2] >= latest.get(file[0], file)[2]:
                    latest[file[0]] = file
            number += 1
    for file, found in zip(wanted, get(store, wanted), strict=True):
        if latest.get(file[0]) == file:
            assert found == known[file]
        else:
            assert found in (None, known.get(file))


@pytest.mark.parametrize("changed", [("b", 1, 1), ("a", 2, 1), ("a", 1, 2), ("a", 1, 0)])
def test_another_file_is_unknown(changed: File) -> None:
    store = store_of()
    add(store, [("a", 1, 1)], [7])
    assert get(store, [("a", 1, 1), changed]) == [7, None]


def test_files_that_could_be_replaced_within_the_same_second_are_not_kept() -> None:
    store = store_of()
    new, old = ("new", 1, NOW_MS - 2000), ("old", 1, NOW_MS - 2001)
    add(store, [new, old, ("unknown", 1, 0)], [1, 2, 3])
    assert get(store, [new, old, ("unknown", 1, 0)]) == [None, 2, None]


@pytest.mark.parametrize("other", [("ITEM", pa.int64()), ("Item", pa.int32())])
def test_columns_of_other_types_or_names_in_other_case_are_apart(
    other: tuple[str, pa.DataType],
) -> None:
    store = store_of()
    add(store, [("a", 1, 1)], [7])
    assert get(store, [("a", 1, 1)], pa.schema([pa.field(*other)])) == [None]


def test_instants_are_the_same_in_every_time_zone() -> None:
    store, kinds = store_of(), [pa.timestamp("us", zone) for zone in ("Asia/Tokyo", "UTC")]
    columns = [pa.schema([pa.field("t", kind)]) for kind in kinds]
    rows = [[GroupRow(5, 6, False, True, False, 0, 9)]]
    store.add(columns[0], batch([("a", 1, 1)]), {"t": groups_array(rows, kinds[0])}, 1e9)
    (lists,) = store.get(columns[1], batch([("a", 1, 1)])).columns.values()
    assert lists.flatten().field("lower").cast(pa.int64()).to_pylist() == [5]


def test_the_size_is_bounded() -> None:
    store = store_of(20_000)
    for number in range(100):
        add(store, [(f"{number}-{i}", 1, 1) for i in range(20)], [1] * 20)
        assert store.nbytes <= 20_000
    assert get(store, [("99-19", 1, 1)]) == [1]
    used, unused = (pa.schema([pa.field(name, pa.int64())]) for name in "ab")
    store = store_of(15_000)
    for columns in (used, unused):
        add(store, [(str(i), 1, 1) for i in range(100)], [1] * 100, columns)
    assert get(store, [("1", 1, 1)], used) == [1]
    add(store, [(f"x{i}", 1, 1) for i in range(100)], [2] * 100, ITEM)
    assert (get(store, [("1", 1, 1)], used), get(store, [("1", 1, 1)], unused)) == ([1], [None])


def test_bytes_per_file() -> None:
    store = store_of()
    names = [
        f"s3://bucket/table/day=2000-01-01/part-{i:05}-{'0' * 36}.parquet" for i in range(5000)
    ]
    for start in range(0, 5000, 100):
        add(store, [(name, 1, 1) for name in names[start : start + 100]], [1] * 100)
    assert store.nbytes / 5000 < 70


def test_threads() -> None:
    store = store_of()
    errors: list[File] = []

    def work(number: int) -> None:
        for i in range(50):
            file = (f"{number}-{i}", 1, 1)
            add(store, [file], [i])
            if get(store, [file]) != [i]:
                errors.append(file)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert get(store, [(f"{number}-7", 1, 1) for number in range(4)]) == [7] * 4


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_has_the_content_and_no_lock_of_another_thread() -> None:
    store = store_of()
    add(store, [("a", 1, 1)], [7])
    with store.lock:
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # ends the child if it waits for the lock
            os._exit(0 if get(store, [("a", 1, 1)]) == [7] else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("seed", ["0", "random"])
def test_known_hashes_are_made_secret(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    made: list[int] = []
    monkeypatch.setenv("PYTHONHASHSEED", seed)

    def token(size: int) -> str:
        made.append(size)
        return "ab" * size

    monkeypatch.setattr("secrets.token_hex", token)
    store = store_of()
    add(store, [("a", 1, 1)], [7])
    assert get(store, [("a", 1, 1)]) == [7]
    assert made == ([8] if seed == "0" else [])
