"""Data columns that are compared with join keys, if the names of columns differ only in case."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from splitlib.config import SplitConfig
from splitlib.enumeration.learning import learnable_columns
from splitlib.model import ReadFormat, TableMetadata
from splitlib.spark.predicates import row_filters

TABLE = TableMetadata(
    pa.schema({"v": pa.int64(), "day": pa.int32(), "Day": pa.int32()}),
    ("Day",),
    ReadFormat.of("parquet"),
)


def test_keys_of_a_partition_column_are_not_tested_on_a_data_column() -> None:
    """Filters ignore case, so keys of ``Day`` would drop rows by their values of ``day``."""
    no_session: Any = None  # only ORC depends on settings
    assert row_filters.tested_columns(no_session, TABLE) == {"v"}


def test_keys_of_a_partition_column_are_not_compared_with_footers() -> None:
    assert learnable_columns(TABLE, SplitConfig()).names == ["v"]
