"""Deletion vectors in the log and in files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import splitlib
from splitlib import DynamicFileEnumerator, SplitConfig, Table
from tests.support import delta_log
from tests.support.delta_log import add, commit, protocol, remove
from tests.unit.connectors.delta.tables import names, opened, simple, splits


@pytest.mark.parametrize("storage", ["i", "u", "p"])
def test_deletion_vectors(root: Path, storage: str) -> None:
    rows = [0, 3, 70_000, 2**33]
    simple(root, add("a"), add("b"))
    vector = (
        delta_log.inline_vector(rows)
        if storage == "i"
        else delta_log.stored_vector(
            root, rows, prefix="x1" if storage == "u" else "x 1%", is_absolute=storage == "p"
        )
    )
    commit(root, [protocol("deletionVectors"), remove("a"), add("a", deletionVector=vector)])
    with opened(root) as table:
        found = list(DynamicFileEnumerator(table, SplitConfig()).enumerate_splits())
        deletes = {Path(s.path).name: s.deletes for s in found}
        assert deletes["b"] == ()
        [delete] = deletes["a"]
        assert table.read_vector(delete).to_pylist() == rows
        assert (delete.kind, delete.format) == ("vector", "delta")
        assert delete.length == vector["sizeInBytes"] + (0 if storage == "i" else 8)
        # A later vector replaces the earlier one.
        other = delta_log.inline_vector([1])
        commit(root, [remove("a", deletionVector=vector), add("a", deletionVector=other)])
    with opened(root) as table:
        found = list(DynamicFileEnumerator(table, SplitConfig()).enumerate_splits())
        vectors = [d for s in found for d in s.deletes]
        assert [table.read_vector(d).to_pylist() for d in vectors] == [[1]]
        assert len(found) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"cardinality": 3},
        {"sizeInBytes": 7},
        {"pathOrInlineDv": "0000000000"},
        {"storageType": "x"},
        {"sizeInBytes": -1},
    ],
)
def test_a_damaged_deletion_vector_is_an_error(root: Path, change: dict[str, Any]) -> None:
    vector = {**delta_log.inline_vector([0, 3]), **change}
    simple(root)
    commit(root, [protocol("deletionVectors"), add("a", deletionVector=vector)])
    with (
        opened(root) as table,
        pytest.raises((splitlib.CorruptMetadata, splitlib.UnsupportedTable)),
    ):
        _read_vectors(table)


def test_a_deletion_vector_that_was_cut_off_is_an_error(root: Path) -> None:
    vector = delta_log.stored_vector(root, [0, 3])
    simple(root)
    commit(root, [protocol("deletionVectors"), add("a", deletionVector=vector)])
    (file,) = root.glob("*.bin")
    file.write_bytes(file.read_bytes()[:-1])
    says = rf"{file.name}: The deletion vector is truncated\."
    with opened(root) as table, pytest.raises(splitlib.CorruptMetadata, match=says):
        _read_vectors(table)


def _read_vectors(table: Table) -> None:
    for split in DynamicFileEnumerator(table, SplitConfig()).enumerate_splits():
        table.read_vector(split.deletes[0])


def test_a_file_with_a_vector_is_another_file(root: Path) -> None:
    vector = {"deletionVector": delta_log.inline_vector([1])}
    simple(root, add("a"))
    commit(root, [protocol("deletionVectors"), add("a", **vector), remove("a")])
    commit(root, [remove("a")])
    assert names(splits(root)) == ["a"]
    commit(root, [remove("a", **vector)])
    assert names(splits(root)) == []
