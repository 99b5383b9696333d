"""A sample of footers shows whether row groups have few or nearly all values of a column."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from splitlib import DynamicFilteringData
from splitlib.filtering.predicate import Predicate
from splitlib.statistics.footers import GroupRow
from splitlib.statistics.row_groups import FileGroups, groups_array, overlap


@pytest.mark.parametrize(
    ("pairs", "share"),
    [
        ([(0, 9), (10, 19), (20, 29), (30, 39)], 1 / 4),
        ([(0, 9)] * 4, 1.0),
        ([(0, 9), (0, 9), (20, 29), (20, 29)], 1 / 2),
        ([(0, 9), (None, None)], 1.0),
        ([(None, None)], 1.0),
        ([(5, 5)], 1.0),
        # the ranges that start at 0, 5 and 10 are in 1, 2 and 2 ranges
        ([(0, 7), (5, 12), (10, 20)], 5 / 9),
    ],
)
def test_overlap(pairs: list[tuple[int | None, int | None]], share: float) -> None:
    assert overlap(of_groups(pairs)) == pytest.approx(share)


def test_overlap_is_the_counted_average() -> None:
    drawn = random.Random(3)
    pairs = [sorted((drawn.randrange(50), drawn.randrange(50))) for _ in range(40)]
    counts = [sum(low <= start <= high for low, high in pairs) for start, _ in pairs]
    assert overlap(of_groups(pairs)) == pytest.approx(sum(counts) / 40 / 40)


def of_groups(pairs: Any, *others: GroupRow) -> FileGroups:
    rows = [GroupRow(low, high, False, None, False, 0, 1) for low, high in pairs]
    return FileGroups({"item": groups_array([[*rows, *others]], pa.int64())})


def test_row_groups_without_values_do_not_overlap() -> None:
    nulls = GroupRow(None, None, True, False, False, 0, 1)
    assert overlap(of_groups([(0, 9), (10, 19)], nulls, nulls)) == 1 / 2


def test_columns_that_disagree_about_the_row_groups_of_a_file_are_not_used() -> None:
    one = GroupRow(0, 9, False, None, False, 0, 50)
    both = [[one, GroupRow(0, 9, False, None, False, 50, 99)], [one]]
    groups = FileGroups(
        {"item": groups_array(both, pa.int64()), "store": groups_array([[one], [one]], pa.int64())}
    )
    keys = DynamicFilteringData.from_values({"item": [77]})
    found = groups.match(Predicate(pa.schema([("item", pa.int64())]), [keys]))
    assert found.keeps.tolist() == [True, False]
    assert found.places_of_each().to_pylist() == [None, []]
