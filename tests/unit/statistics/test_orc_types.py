"""The types of columns in all ORC files, compared with the table's."""

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
        "day": pa.date32(),
    }
)
CONFIG = SplitConfig()


def listed(table: Any) -> pa.Table:
    files = table.files().select(["path", "size", "modified"])
    return files.set_column(2, "modified", files["modified"].cast(pa.int64()))


def same(root: Path, *files: Mapping[str, Any]) -> tuple[list[str], int]:
    """Write files of one row with these types of columns, and compare them."""
    for number, types in enumerate(files):
        columns = {name: pa.array([None], kind) for name, kind in types.items()}
        orc.write_table(pa.table(columns), root / f"{number}.orc")
    with splitlib.load_table(str(root), "files", format="orc", schema=TABLE) as table:
        found = of_same_type(table, listed(table), TABLE, CONFIG)
    assert (found.reason is None) == (found.columns == TABLE)
    return found.columns.names, found.files_read


def test_types_that_a_condition_can_be_compared_with(tmp_path: Path) -> None:
    own: dict[str, Any] = {field.name: field.type for field in TABLE}
    narrow = {"I": pa.int8(), "f": pa.float32(), "d": pa.decimal128(30, 1), "other": pa.int32()}
    assert same(tmp_path, own, narrow) == (TABLE.names, 2)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_types_of_every_file(tmp_path: Path, position: int) -> None:
    other = {"i": pa.string(), "f": pa.int32(), "s": pa.int32(), "day": pa.timestamp("ns")}
    files: list[dict[str, Any]] = [{"i": pa.int64()}] * 2
    files.insert(position, other)
    assert same(tmp_path, *files) == (["d"], 3)


@pytest.mark.parametrize("others", [False, True])
def test_timestamps_are_left_out(tmp_path: Path, others: bool) -> None:
    """When clocks are set back, ORC's reader takes the earlier of two equal times for the later."""
    kinds = {"t": pa.timestamp("us", "UTC"), "i": pa.int64(), "s": pa.string()}
    stored = kinds | ({"s": pa.int64()} if others else {})
    columns = {name: pa.array([None], kind) for name, kind in stored.items()}
    orc.write_table(pa.table(columns), tmp_path / "0.orc")
    schema = pa.schema(kinds)
    with splitlib.load_table(str(tmp_path), "files", format="orc", schema=schema) as table:
        found = of_same_type(table, listed(table), schema, CONFIG)
    assert found.columns.names == (["i"] if others else ["i", "s"])
    clocks = "are timestamps, which ORC's reader compares wrongly when clocks are set back"
    assert found.reason == ("have other types in some files or " if others else "") + clocks


def test_a_file_is_read_once_until_it_changes(tmp_path: Path) -> None:
    for number in range(3):
        orc.write_table(pa.table({"i": pa.array([number])}), tmp_path / f"{number}.orc")
        os.utime(tmp_path / f"{number}.orc", (2, 2))  # old enough that its types are kept
    with splitlib.load_table(str(tmp_path), "files", format="orc", schema=TABLE) as table:
        assert of_same_type(table, listed(table), TABLE, CONFIG) == (TABLE, 3, None)
        assert of_same_type(table, listed(table), TABLE, CONFIG) == (TABLE, 0, None)
        orc.write_table(pa.table({"i": ["a"]}), tmp_path / "1.orc")
        os.utime(tmp_path / "1.orc", (1, 1))
        found = of_same_type(table, listed(table), TABLE, CONFIG)
        assert (found.columns.names, found.files_read) == (["f", "d", "s", "day"], 1)


def test_types_known_from_an_old_listing_are_read_again(tmp_path: Path, monkeypatch: Any) -> None:
    for number in range(2):
        orc.write_table(pa.table({"i": pa.array([number])}), tmp_path / f"{number}.orc")
        os.utime(tmp_path / f"{number}.orc", (2, 2))  # old enough that its types are kept
    with splitlib.load_table(str(tmp_path), "files", format="orc", schema=TABLE) as table:
        listing = listed(table)
        of_same_type(table, listing, TABLE, CONFIG)
        connector = table.connector
        monkeypatch.setattr(connector, "may_be_old", True, raising=False)
        is_first = pa.array([True, False])
        monkeypatch.setattr(connector, "unchanged", lambda *_: is_first, raising=False)
        assert of_same_type(table, listing, TABLE, CONFIG) == (TABLE, 1, None)


def test_too_many_files_are_not_read(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(orc_types, "MOST_FILES", 1)
    assert same(tmp_path, {"i": pa.int64()}, {"i": pa.int64()}) == ([], 0)


def test_one_file_and_none(tmp_path: Path) -> None:
    assert same(tmp_path, {"s": pa.date32()}) == (["i", "f", "d", "day"], 1)
    with splitlib.load_table(str(tmp_path), "files", format="orc", schema=TABLE) as table:
        assert of_same_type(table, listed(table).slice(0, 0), TABLE, CONFIG) == (TABLE, 0, None)


def test_files_that_cannot_be_read_decide_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(orc_types, "FOOTER_LENGTH", 10)  # shorter than any footer
    assert same(tmp_path, {"s": pa.string()}) == ([], 1)
    (tmp_path / "0.orc").write_bytes(b"not ORC, but long enough")
    monkeypatch.undo()
    with splitlib.load_table(str(tmp_path), "files", format="orc", schema=TABLE) as table:
        found = of_same_type(table, listed(table), TABLE, CONFIG)
    assert (found.columns.names, found.files_read) == ([], 1)
    assert found.reason == "have types that could not be read from all files"
