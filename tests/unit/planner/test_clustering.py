"""A sample of footers shows whether row groups have few or nearly all values of a column."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from splitlib.filtering.domains import Ranges
from splitlib.spark.planner.clustering import Clustering, GroupBounds, bounds_in
from splitlib.statistics.footers import parse_footer
from splitlib.storage import StoredFile

ITEM = pa.field("item", pa.int64())


def parquet_of(table, **options):
    data = io.BytesIO()
    pq.write_table(table, data, **options)
    return data.getvalue()


def footer_of(values, *, group=10, kind=None, **options):
    table = pa.table({"item": pa.array(values, kind), "n": range(len(values))})
    return parse_footer(parquet_of(table, row_group_size=group, **options))


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
    """Row groups without values are left out."""
    found = bounds_in(footer_of([*range(20), *[None] * 10, 5, *[None] * 5], **options), ITEM)
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
@pytest.mark.parametrize("column", ["item", "other"])
def test_no_bounds(values, kind, options, column):
    field = pa.field(column, pa.timestamp("us") if pa.types.is_timestamp(kind) else kind)
    footer = footer_of(values, kind=kind, **options)
    file = StoredFile(f"{id(object())}", 1, 1)
    assert Clustering(lambda _: footer).bounds([file], field) is None


def test_footers_of_unchanged_files_are_read_once():
    name = id(object())
    read = []

    def read_footer(file):
        read.append(file)
        return footer_of(range(100) if file.modified == 1 else range(500, 600))

    files = [StoredFile(f"{name}/{i}", 9, 1) for i in range(3)]
    for _ in range(2):
        clustering = Clustering(read_footer)
        bounds = clustering.bounds(files, ITEM)
        assert clustering.bounds(files, pa.field("n", pa.int64())) is not None
        assert bounds is not None
        assert bounds.overlap == pytest.approx(3 / 30)
    assert read == files
    again = files[1]._replace(modified=2)
    bounds = Clustering(read_footer).bounds([files[0], again], ITEM)
    assert bounds is not None
    assert sorted(bounds.lower.to_pylist()) == [*range(0, 100, 10), *range(500, 600, 10)]
    assert read == [*files, again]


def test_older_files_without_the_column_or_with_a_narrower_type():
    name = id(object())
    footers = {
        f"{name}/0": footer_of(range(10), kind=pa.int32()),
        f"{name}/1": footer_of(range(10, 30)),
        f"{name}/2": parse_footer(parquet_of(pa.table({"n": range(3)}))),
        f"{name}/3": None,
    }
    files = [StoredFile(path, 1, 1) for path in footers]
    clustering = Clustering(lambda file: footers[file.path])
    found = clustering.bounds(files, ITEM)
    assert found is not None
    assert found.lower.to_pylist() == [0, 10, 20, None]
    assert found.upper.to_pylist() == [9, 19, 29, None]
    assert clustering.bounds(files[2:], ITEM) is None
    assert clustering.bounds([], ITEM) is None
