"""Row groups of Parquet files with incomplete statistics, or in partitions."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from splitlib import DynamicFilteringData
from splitlib.arrow.parquet_footer import parse_footer
from splitlib.reading.formats import RowGroupFilter


@pytest.mark.parametrize("known", [True, False])
def test_a_null_count_that_is_unknown_is_not_none(known):
    """An unknown null count does not mean that there are no nulls. A file may omit the count."""
    schema = pa.schema([("k", pa.int64())])
    statistics = SimpleNamespace(null_count=0, has_null_count=known, has_min_max=True, min=5, max=7)
    statistics.physical_type = "INT64"
    column = SimpleNamespace(statistics=statistics, is_stats_set=True, path="k")
    column.physical_type = "INT64"
    column.logical_type = SimpleNamespace(type="NONE")
    group = SimpleNamespace(column=lambda _: column, num_rows=9)
    metadata = SimpleNamespace(row_group=lambda _: group, schema=group, num_columns=1)
    footer: Any = SimpleNamespace(metadata=metadata, ordered=(True,))
    null = DynamicFilteringData.from_arrow(pa.table({"k": pa.nulls(1, pa.int64())}))
    kept = RowGroupFilter(schema, [null]).keeps(footer, schema, [0], lambda values, _: values)
    assert kept == ([] if known else [0])


@pytest.mark.parametrize("constant", [5, None])
@pytest.mark.parametrize("stored", ["p", "other"])
def test_a_constant_is_used_in_place_of_a_column_of_the_file(constant, stored):
    """A row group is skipped if its bounds and the constant do not fit the same tuple of keys."""
    file = pa.BufferOutputStream()
    rows = pa.table({"id": [1, 2, 3, 4], stored: pa.array([6, 6, 6, 6], pa.int32())})
    pq.write_table(rows, file, row_group_size=2)
    footer = parse_footer(file.getvalue().to_pybytes())
    schema = pa.schema([("id", pa.int64()), ("p", pa.int32())])
    keys = pa.table({"id": [1, 4], "p": [6, constant]}, schema)
    constants = {"p": pa.scalar(constant, pa.int32())}
    kept = RowGroupFilter(schema, [DynamicFilteringData.from_arrow(keys)]).within(constants)
    for each in (kept, pickle.loads(pickle.dumps(kept))):
        found = each.keeps(footer, rows.schema, [0, 1], lambda values, _: values)
        assert found == [1]


@pytest.mark.parametrize("nanoseconds", [1_000_000_001, 1_000_000_999])
def test_bounds_of_times_in_nanoseconds(nanoseconds):
    file = pa.BufferOutputStream()
    rows = pa.table({"t": pa.array([nanoseconds], pa.int64()).cast(pa.time64("ns"))})
    pq.write_table(rows, file)
    kept = RowGroupFilter(rows.schema, [DynamicFilteringData.from_arrow(rows)])
    footer = parse_footer(file.getvalue().to_pybytes())
    assert kept.keeps(footer, rows.schema, [0], lambda values, _: values) == [0]


@pytest.mark.parametrize("kind", [pa.decimal128(25, 2), pa.string(), pa.binary()])
@pytest.mark.parametrize("is_declared", [True, False])
def test_bounds_of_bytes_in_an_unknown_order_skip_nothing(kind, is_declared):
    """Parquet writers of 2015 compared the bytes of decimals and texts as signed numbers."""
    file = pa.BufferOutputStream()
    values = pa.array(["1", "3"]).cast(kind)
    pq.write_table(pa.table({"k": values}), file)
    footer = parse_footer(file.getvalue().to_pybytes())._replace(ordered=(is_declared,))
    schema = pa.schema([("k", kind)])
    keys = pa.table({"k": pa.array(["5"]).cast(kind)})
    kept = RowGroupFilter(schema, [DynamicFilteringData.from_arrow(keys)])
    assert kept.keeps(footer, schema, [0], lambda values, _: values) == ([] if is_declared else [0])
