"""Row groups of Parquet files with incomplete statistics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from splitlib import DynamicFilteringData
from splitlib.reading.formats import RowGroupFilter


@pytest.mark.parametrize("known", [True, False])
def test_a_null_count_that_is_unknown_is_not_none(known):
    """An unknown null count does not mean that there are no nulls. A file may omit the count."""
    schema = pa.schema([("k", pa.int64())])
    statistics = SimpleNamespace(null_count=0, has_null_count=known, has_min_max=True, min=5, max=7)
    column = SimpleNamespace(statistics=statistics, path="k")
    group = SimpleNamespace(column=lambda _: column, num_rows=9)
    metadata = SimpleNamespace(row_group=lambda _: group, schema=group, num_columns=1)
    footer: Any = metadata
    null = DynamicFilteringData.from_arrow(pa.table({"k": pa.nulls(1, pa.int64())}))
    kept = RowGroupFilter(schema, [null]).keeps(footer, schema, [0], lambda values, _: values)
    assert kept == ([] if known else [0])
