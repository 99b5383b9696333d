"""Statistics from earlier plans do not drop files that have changed since they were listed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from splitlib import DynamicFilteringData
from splitlib.statistics import known
from splitlib.statistics.store import StatisticsStore
from tests.unit.statistics.tables import opened, selected, write

SCHEMA = pa.schema([("item", pa.int64())])


def test_a_file_that_may_have_changed_is_not_counted_as_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "LEARNED", StatisticsStore())
    for number in range(20):
        write(tmp_path / f"{number:02}.parquet", pa.table({"item": [number]}))
    table, wanted = opened(tmp_path, SCHEMA), DynamicFilteringData.from_values({"item": [5]})
    assert selected(table, wanted)[0] == {"05.parquet"}

    def unchanged(files: pa.RecordBatch, threads: int) -> pa.BooleanArray:
        return pc.invert(pc.ends_with(files["path"], "15.parquet"))

    monkeypatch.setattr(table.connector, "may_be_old", True, raising=False)
    monkeypatch.setattr(table.connector, "unchanged", unchanged, raising=False)
    found, enumerator = selected(table, wanted)
    assert found == {"05.parquet", "15.parquet"}
    metrics, report = enumerator.metrics, enumerator.explain()
    assert (metrics.footers_read, metrics.files_dropped) == (0, {"footers": 18})
    assert (report.files, report.row_groups) == ((2, 20), (1, 19))
