from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib.coordination.assigners import (
    FifoAssigner,
    LargestFirstAssigner,
    LocalityAssigner,
    pack,
)
from splitlib.model import FileSplit, ReadFormat

MIB = 2**20


def split(name, length=1, hosts=()):
    return FileSplit(
        name, f"/{name}", 0, length, length, 0, {}, ReadFormat.of("parquet"), (), hosts
    )


def names(splits):
    return [one.split_id for one in splits]


def take_all(assigner, hostname=None):
    taken = []
    while (one := assigner.take(hostname)) is not None:
        taken.append(one)
    return names(taken)


@pytest.mark.parametrize("kind", [FifoAssigner, LocalityAssigner, LargestFirstAssigner])
class TestAny:
    @given(
        lengths=st.lists(st.integers(1, 5), max_size=20),
        steps=st.lists(st.sampled_from(["take a", "take c", "take", "remove", "back"])),
    )
    def test_every_split_comes_out_once(self, kind, lengths, steps):
        assigner = kind()
        hosts = [(), ("A",), ("b", "a"), ("b",)]
        splits = [split(str(i), n, hosts[i % 4]) for i, n in enumerate(lengths)]
        assigner.add(splits)
        waiting, taken = {s.split_id: s for s in splits}, []
        for step in steps:
            if step.startswith("take"):
                one = assigner.take(step[5:] or None)
                assert (one is None) == (not waiting)
                if one is not None:
                    taken.append(waiting.pop(one.split_id))
            elif step == "remove":
                gone = sorted(waiting)[:2]
                assigner.remove({*gone, "unknown"})
                for name in gone:
                    del waiting[name]
            elif taken:
                back = taken.pop()
                waiting[back.split_id] = back
                assigner.add_back([back])
            assert len(assigner) == len(waiting)
            assert sorted(names(assigner)) == sorted(waiting)
        assert sorted(take_all(assigner, "b")) == sorted(waiting)
        assert assigner.take(None) is None


def test_fifo_keeps_the_order_and_takes_back_in_front():
    assigner = FifoAssigner()
    assigner.add(map(split, "abcd"))
    first = [one for _ in "ab" if (one := assigner.take(None)) is not None]
    assigner.add(map(split, "ef"))
    assigner.add_back(iter(first))
    assigner.remove({"d"})
    assert names(assigner) == list("abcef")
    assert take_all(assigner) == list("abcef")


def test_locality_prefers_what_is_here_then_what_is_nowhere_then_anything():
    assigner = LocalityAssigner()
    assigner.add(
        [
            split("elsewhere", hosts=("B",)),
            split("nowhere"),
            split("here 1", hosts=("b", "A")),
            split("here 2", hosts=("a",)),
        ]
    )
    assert take_all(assigner, "a") == ["here 1", "here 2", "nowhere", "elsewhere"]


def test_locality_gives_something_to_a_host_that_has_nothing():
    assigner = LocalityAssigner()
    one, two = split("1", hosts=("a",)), split("2", hosts=("a",))
    assigner.add([one, two])
    assert assigner.take("z") == one
    assert assigner.take(None) == two


def test_the_largest_goes_first_and_of_equal_ones_the_first():
    assigner = LargestFirstAssigner()
    assigner.add([split("1", 5), split("2", 9), split("3", 5), split("4", 7)])
    assert take_all(assigner) == ["2", "4", "1", "3"]


# Lengths are in MiB. The expected tasks were computed by hand with Spark's rule.
@pytest.mark.parametrize(
    ("lengths", "target", "cost", "tasks"),
    [
        ([], 128, 4, []),
        ([1], 128, 4, [[1]]),
        ([300], 128, 4, [[300]]),
        ([128, 128], 128, 4, [[128], [128]]),
        ([60, 60, 60], 128, 4, [[60, 60], [60]]),
        ([62, 62, 62], 124, 4, [[62], [62], [62]]),
        ([60, 60], 124, 4, [[60, 60]]),
        ([1] * 30, 100, 4, [[1] * 20, [1] * 10]),
        ([10, 90, 30, 5], 100, 4, [[90], [30, 10, 5]]),
        ([2, 1], 2, 0, [[2], [1]]),
    ],
)
def test_packing_as_spark_does(lengths, target, cost, tasks):
    splits = [split(str(i), n * MIB) for i, n in enumerate(lengths)]
    packed = pack(splits, target * MIB, cost * MIB)
    assert [[one.length // MIB for one in task] for task in packed] == tasks


def test_opening_a_file_costs_as_much_as_in_spark():
    for lengths, tasks in (((62, 62), 1), ((63, 62), 2)):
        splits = [split(str(i), n * MIB) for i, n in enumerate(lengths)]
        assert len(pack(splits, 128 * MIB)) == tasks


@given(
    lengths=st.lists(st.integers(1, 200), max_size=60),
    target=st.integers(1, 150),
    cost=st.integers(0, 20),
)
def test_packing_keeps_every_split_once_and_tasks_small(lengths, target, cost):
    splits = [split(str(i), n) for i, n in enumerate(lengths)]
    tasks = pack(splits, target, cost)
    assert sorted(int(one.split_id) for task in tasks for one in task) == list(range(len(lengths)))
    assert all(tasks)
    for task in tasks:
        assert len(task) == 1 or sum(s.length for s in task) + cost * (len(task) - 1) <= target
    assert tasks == pack(splits, target, cost)
