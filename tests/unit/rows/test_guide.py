"""The examples of docs/rows.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

GUIDE = (Path(__file__).parents[3] / "docs" / "rows.md").read_text("utf-8")


def test_the_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for day in range(6):
        directory = tmp_path / f"warehouse/sales/day={day}"
        directory.mkdir(parents=True)
        rows = pa.table({"store": [1, 2, 3], "amount": [day, 10 * day, 100 * day]})
        pq.write_table(rows, directory / "f.parquet")
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    names["table"].close()
    assert names["table"].files(names["keys"]).num_rows == 2
    assert names["dataset"].to_table()["amount"].to_pylist() == [3, 40]
    assert names["lazy"].collect().height == 2
    assert names["relation"].aggregate("sum(amount)").fetchall() == [(43,)]
    joined = "SELECT sum(amount) FROM sales JOIN (VALUES (1)) stores(store) USING (store)"
    assert names["connection"].sql(joined).fetchall() == [(3,)]
