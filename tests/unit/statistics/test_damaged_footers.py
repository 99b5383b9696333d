"""Footers with impossible numbers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from splitlib.arrow.parquet_footer import parse_footer
from splitlib.statistics.footers import rows_of_groups
from tests.unit.statistics.test_footers import of_values


class Changed:
    """An object with some other attributes than ``real``."""

    def __init__(self, real: Any, **changed: Any) -> None:
        self.real = real
        vars(self).update(changed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@pytest.mark.parametrize("count", [-1, 7])
def test_an_impossible_number_of_nulls_is_ignored(count: int) -> None:
    footer = parse_footer(of_values([1, None, 3]))
    group = footer.metadata.row_group(0)
    found = Changed(group.column(0).statistics, null_count=count)
    chunk = Changed(group.column(0), statistics=found)
    metadata = Changed(footer.metadata, row_group=lambda _: Changed(group, column=lambda _: chunk))
    (kept,) = rows_of_groups(footer._replace(metadata=metadata), [pa.field("c", pa.int64())])
    assert {(row.has_null, row.has_value) for row in kept} == {(None, None)}


def test_an_impossible_size_is_an_error() -> None:
    footer = parse_footer(of_values([1]))
    group = footer.metadata.row_group(0)
    chunk = Changed(group.column(0), total_compressed_size=2**63 - 1)
    metadata = Changed(footer.metadata, row_group=lambda _: Changed(group, column=lambda _: chunk))
    with pytest.raises(ValueError, match="cannot be in the bytes"):
        rows_of_groups(footer._replace(metadata=metadata), [pa.field("c", pa.int64())])
