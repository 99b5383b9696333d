"""A PySpark without data sources in Python, such as 3.5."""

from __future__ import annotations

import sys

import pytest

import splitlib


def test_the_data_source_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("splitlib.spark.datasource")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)
    with pytest.raises(splitlib.UnsupportedTable, match="has no data sources in Python"):
        _ = splitlib.SplitlibDataSource
