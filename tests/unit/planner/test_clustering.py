"""A sample of footers shows whether row groups have few or nearly all values of a column."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from splitlib.filtering.domains import Ranges
from splitlib.spark.planner.clustering import (
    Clustering,
    GroupBounds,
    StoredFile,
    bounds_in,
)


def footer_of(values, *, group=10, kind=None, **options):
    data = io.BytesIO()
    table = pa.table({"Item": pa.array(values, kind), "n": range(len(values))})
    pq.write_table(table, data, row_group_size=group, **options)
    return pq.read_metadata(pa.BufferReader(data.getvalue()))


def bounds_of(*pairs):
    lower, upper = zip(*pairs, strict=True)
    return GroupBounds(pa.array(lower, pa.int64()), pa.array(upper, pa.int64()))


@pytest.mark.parametrize(
    ("pairs", "overlap"),
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
def test_overlap(pairs, overlap):
    assert bounds_of(*pairs).overlap == pytest.approx(overlap)


def test_overlap_is_the_counted_average():
    drawn = random.Random(3)
    pairs = [sorted((drawn.randrange(50), drawn.randrange(50))) for _ in range(40)]
    counts = [sum(low <= start <= high for low, high in pairs) for start, _ in pairs]
    assert bounds_of(*pairs).overlap == pytest.approx(sum(counts) / 40 / 40)


def test_share_in_ranges():
    bounds = bounds_of((0, 9), (10, 19), (20, 29), (None, None))
    keys = Ranges(pa.array([3, 25]), pa.array([4, 25]))
    assert bounds.share_in(keys) == 3 / 4


@pytest.mark.parametrize("options", [{}, {"version": "1.0"}])
def test_bounds_in_a_footer(options):
    """Row groups without values are left out, and names are compared without case."""
    found = bounds_in(footer_of([*range(20), *[None] * 10, 5, *[None] * 5], **options), "item")
    assert found is not None
    assert found.lower.to_pylist() == [0, 10, 5]
    assert found.upper.to_pylist() == [9, 19, 5]


@pytest.mark.parametrize(
    ("values", "kind", "options"),
    [
        ([1, 2], pa.int64(), {"write_statistics": False}),
        ([[1], [2]], pa.list_(pa.int64()), {}),
        ([1, 2], pa.timestamp("ns"), {"use_deprecated_int96_timestamps": True}),
    ],
)
def test_no_bounds(values, kind, options):
    assert bounds_in(footer_of(values, kind=kind, **options), "item") is None
    assert bounds_in(footer_of(values, kind=kind, **options), "other") is None


def test_footers_of_unchanged_files_are_read_once():
    name = id(object())
    read = []

    def read_footer(file):
        read.append(file)
        return footer_of(range(100) if file.modified == 1 else range(500, 600))

    files = [StoredFile(f"{name}/{i}", 9, 1) for i in range(3)]
    for _ in range(2):
        bounds = Clustering(read_footer).bounds(files, "item")
        assert bounds is not None
        assert bounds.overlap == pytest.approx(3 / 30)
    assert read == files
    again = files[1]._replace(modified=2)
    bounds = Clustering(read_footer).bounds([files[0], again], "item")
    assert bounds is not None
    assert sorted(bounds.lower.to_pylist()) == [*range(0, 100, 10), *range(500, 600, 10)]
    assert read == [*files, again]


def test_files_with_other_types_are_not_compared():
    name = id(object())
    kinds = {f"{name}/0": pa.int32(), f"{name}/1": pa.int64()}
    files = [StoredFile(path, 1, 1) for path in kinds]
    clustering = Clustering(lambda file: footer_of(range(9), kind=kinds[file.path]))
    assert clustering.bounds(files, "item") is None
    assert clustering.bounds(files[:1], "item") is not None
    assert clustering.bounds([], "item") is None
