"""Files are dropped by CHAR columns, whatever padding their writers have stored."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from splitlib import DynamicFilteringData
from splitlib.model import LOGICAL_TYPE
from tests.unit.statistics.tables import opened, selected, write


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    files=st.lists(st.lists(st.text("ab \t!", max_size=5), min_size=1, max_size=4), max_size=5),
    keys=st.lists(st.text("ab \t!", max_size=5), min_size=1, max_size=2),
)
def test_char_values_are_compared_without_padding(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[str]], keys: list[str]
) -> None:
    """Some writers store CHAR with padding. A tab sorts before the spaces of padding."""
    root = tmp_path_factory.mktemp("char")
    write(root / "other.parquet", pa.table({"item": ["zzz"]}))
    for number, values in enumerate(files):
        write(root / f"{number}.parquet", pa.table({"item": values}))
    char = pa.field("item", pa.string(), metadata={LOGICAL_TYPE: b"char(5)"})
    kept, _ = selected(
        opened(root, pa.schema([char])), DynamicFilteringData.from_values({"item": keys})
    )
    wanted = {key.rstrip(" ") for key in keys}
    assert kept >= {
        f"{number}.parquet"
        for number, values in enumerate(files)
        if not wanted.isdisjoint(value.rstrip(" ") for value in values)
    }
    assert "other.parquet" not in kept
