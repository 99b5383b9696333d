"""Fixtures: an Iceberg catalog in a directory, and a small table in it."""

from __future__ import annotations

import pytest

from tests.support.iceberg_tables import (
    append,
    create,
    data_file,
    make_catalog,
)
from tests.unit.connectors.iceberg.simple_tables import BY_D, SIMPLE


@pytest.fixture
def catalog(tmp_path):
    made = make_catalog(tmp_path)
    yield made
    made.close()


@pytest.fixture
def table(catalog):
    """Create a table with two snapshots. Each of them adds one file."""
    made = create(catalog, SIMPLE, BY_D)
    append(made, [data_file(made, [{"d": 1}])])
    append(made, [data_file(made, [{"d": 2}])])
    return made
