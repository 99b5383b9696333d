"""Tests of the data source, which Spark 3.5 cannot have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.abilities import DataSourceTests


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> DataSourceTests:
    """Collect a module, or skip it."""
    return DataSourceTests.from_parent(parent, path=module_path)
