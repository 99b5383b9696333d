"""The time of a version is that of its file in the log, or is written in its commit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import splitlib
from tests.support.delta_log import add, commit, field, metadata, protocol
from tests.unit.connectors.delta.tables import names, opened, simple, splits


def test_a_time_selects_the_newest_commit_before_it(root: Path) -> None:
    simple(root, add("a"))
    commit(root, [add("b")])
    for version, seconds in enumerate([100, 300, 200]):  # the clock went back before the last one
        os.utime(root / "_delta_log" / f"{version:020}.json", (seconds, seconds))
    assert names(splits(root, timestamp=299_999)) == []
    assert names(splits(root, timestamp=300_000)) == ["a"]
    assert names(splits(root, timestamp=300_001)) == ["a", "b"]
    assert names(splits(root, timestamp="1970-01-01T01:00:00Z")) == ["a", "b"]
    with pytest.raises(splitlib.SnapshotNotFound):
        opened(root, timestamp=99_999)
    with pytest.raises(splitlib.ConfigError, match="exclude each other"):
        opened(root, timestamp=1, version=1)


@pytest.mark.parametrize("enabled", ["true", "TRUE"])  # Spark keeps the text that a user wrote
def test_commits_may_contain_their_time(root: Path, enabled: str) -> None:
    configuration = {"delta.enableInCommitTimestamps": enabled}
    columns = [field("c", "long")]
    for i in range(4):
        changed = metadata(columns, **(configuration if i == 0 else {}))
        first = [{"commitInfo": {"inCommitTimestamp": 1000 * i}}]
        commit(root, [*first, *([protocol(), changed] if i == 0 else []), add(f"f{i}")])
    assert [len(splits(root, timestamp=1000 * i + 999)) for i in range(4)] == [1, 2, 3, 4]


def test_the_times_of_files_hold_before_commits_contain_theirs(root: Path) -> None:
    since = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "2",
    }
    simple(root, add("a"))
    commit(
        root,
        [
            {"commitInfo": {"inCommitTimestamp": 5000}},
            metadata([field("c", "long")], **since),
            add("b"),
        ],
    )
    for version in (0, 1, 2):
        os.utime(root / "_delta_log" / f"{version:020}.json", (version + 1, version + 1))
    assert [len(splits(root, timestamp=moment)) for moment in (1000, 2000, 4999, 5000)] == [
        0,
        1,
        1,
        2,
    ]


@pytest.mark.parametrize(
    "first",
    [
        [],
        [{"commitInfo": {"operation": "WRITE"}}],
        [{"commitInfo": {"inCommitTimestamp": None}}],
        [{"commitInfo": None, "inCommitTimestamp": 0}],
    ],
)
def test_a_commit_without_its_time_is_an_error(root: Path, first: list[dict[str, Any]]) -> None:
    enabled = metadata([field("c", "long")], **{"delta.enableInCommitTimestamps": "true"})
    commit(root, [*first, protocol(), enabled, add("a")])
    says = r"0{20}\.json in the log of the table has no inCommitTimestamp"
    with pytest.raises(splitlib.CorruptMetadata, match=says):
        opened(root, timestamp=1000)


def test_the_time_zero_is_a_time(root: Path) -> None:
    enabled = metadata([field("c", "long")], **{"delta.enableInCommitTimestamps": "true"})
    first = {"commitInfo": {"inCommitTimestamp": 0}}
    commit(root, [first, protocol(), enabled, add("a")])
    assert names(splits(root, timestamp=0)) == ["a"]
    with pytest.raises(splitlib.SnapshotNotFound, match="no version at or before -1 ms"):
        opened(root, timestamp=-1)


def test_a_file_of_a_commit_without_a_time_is_an_error(root: Path) -> None:
    simple(root, add("a"))
    os.utime(root / "_delta_log" / f"{1:020}.json", (0, 0))
    with pytest.raises(splitlib.SnapshotNotFound, match="does not return when version 1 was"):
        opened(root, timestamp=10**15)
