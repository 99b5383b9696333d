"""The types of columns in the oldest and the newest ORC file, compared with the table's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

import splitlib
from splitlib import SplitConfig
from splitlib.statistics import orc_types
from splitlib.statistics.orc_types import of_same_type

TABLE = pa.schema(
    {
        "i": pa.int64(),
        "f": pa.float64(),
        "d": pa.decimal128(9, 2),
        "s": pa.string(),
        "t": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
    }
)
CONFIG = SplitConfig()


def listed(table: Any) -> pa.Table:
    files = table.files().select(["path", "size", "modified"])
    return files.set_column(2, "modified", files["modified"].cast(pa.int64()))


def same(root: Path, *files: Mapping[str, Any]) -> tuple[list[str], int]:
    """Write files of one row, oldest first, with these types of columns, and compare them."""
    for number, types in enumerate(files):
        path = root / f"{9 - number}.orc"  # the names are not in the order of the times
        columns = {name: pa.array([None], kind) for name, kind in types.items()}
        orc.write_table(pa.table(columns), path)
        os.utime(path, (number + 1, number + 1))
    with splitlib.load_table(str(root), "files", format="orc", schema=TABLE) as table:
        found, read = of_same_type(table, listed(table), TABLE, CONFIG)
    return found.names, read


def test_types_that_a_condition_can_be_compared_with(tmp_path: Path) -> None:
    own: dict[str, Any] = {field.name: field.type for field in TABLE}
    own["t"] = pa.timestamp("ns")
    narrow = {"I": pa.int8(), "f": pa.float32(), "d": pa.decimal128(30, 1), "other": pa.int32()}
    assert same(tmp_path, own, narrow) == (TABLE.names, 2)


@pytest.mark.parametrize("position", [0, 1])
def test_types_of_the_oldest_and_of_the_newest_file(tmp_path: Path, position: int) -> None:
    other = {"i": pa.string(), "f": pa.int32(), "s": pa.int32(), "day": pa.timestamp("ns")}
    files: list[dict[str, Any]] = [{"i": pa.int64()}] * 2
    files.insert(2 * position, other)
    assert same(tmp_path, *files) == (["d", "t"], 2)


def test_one_file_and_none(tmp_path: Path) -> None:
    assert same(tmp_path, {"s": pa.date32()}) == (["i", "f", "d", "t", "day"], 1)
    with splitlib.load_table(str(tmp_path), "files", format="orc", schema=TABLE) as table:
        assert of_same_type(table, listed(table).slice(0, 0), TABLE, CONFIG) == (TABLE, 0)


def test_files_that_cannot_be_read_decide_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(orc_types, "FOOTER_LENGTH", 10)  # shorter than any footer
    assert same(tmp_path, {"s": pa.string()}) == ([], 1)
    (tmp_path / "9.orc").write_bytes(b"not ORC, but long enough")
    monkeypatch.undo()
    with splitlib.load_table(str(tmp_path), "files", format="orc", schema=TABLE) as table:
        assert of_same_type(table, listed(table), TABLE, CONFIG) == (pa.schema([]), 1)
