"""A file may be replaced just after its footer was read, by a file of the same size and time.

The storage of these tests keeps times in whole seconds, as object stores do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from pyarrow import orc

import splitlib
from splitlib import DynamicFilteringData, SplitConfig
from splitlib.enumeration import analyze
from splitlib.enumeration.analyze import analyze_table
from splitlib.enumeration.footer_reads import read_rows, sample, stored_file
from splitlib.filtering.predicate import Predicate
from splitlib.model import FILE_SCHEMA
from splitlib.statistics import known, orc_types
from splitlib.statistics.known import KnownStatistics, valid_now
from splitlib.statistics.orc_types import of_same_type
from splitlib.statistics.row_groups import group_type
from splitlib.statistics.store import StatisticsStore
from splitlib.storage import Storage
from tests.unit.statistics.tables import OLD_SECONDS, opened, selected, write

SCHEMA = pa.schema([pa.field("item", pa.int64())])
FILES = 20
Learn = Callable[[splitlib.Table, SplitConfig], Any]


class Clock:
    """A clock for splitlib, which stands still until a test changes it."""

    def __init__(self) -> None:
        self.now = OLD_SECONDS + 0.1

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (known, orc_types):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=clock.time))
    monkeypatch.setattr(known, "LEARNED", StatisticsStore())
    return clock


def write_items(path: Path, start: int) -> None:
    rows = pa.table({"item": pa.array(range(start, start + 10), pa.int64())})
    write(path, rows, compression="none", use_dictionary=False)


def items(*values: int) -> DynamicFilteringData:
    return DynamicFilteringData.from_values({"item": list(values)})


def by_query(table: splitlib.Table, config: SplitConfig) -> None:
    selected(table, items(5), statistics_location=config.statistics_location)


def by_analyze(table: splitlib.Table, config: SplitConfig) -> None:
    analyze_table(table, config=config)


def by_job(table: splitlib.Table, config: SplitConfig) -> None:
    def run(columns: Any, files: pa.RecordBatch) -> list[Any]:
        return [
            read_rows(table, columns, config, stored_file(files, row))
            for row in range(files.num_rows)
        ]

    analyze_table(table, config=config, by_job=run)


def by_planner(table: splitlib.Table, config: SplitConfig) -> None:
    found = next(splitlib.DynamicFileEnumerator(table, config).select_files())
    sample(table, SCHEMA, found.files.files, config).statistics.save()


def replaces_after_reading(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, path: Path, write_again: Callable[[], None]
) -> None:
    """Replace a file after its footer was read, and let the other footers take 3 s."""
    read = Storage.read_end

    def read_end(self: Storage, file: Any, length: int) -> bytes:
        found = read(self, file, length)
        if Path(file.path).name == path.name:
            before = path.stat()
            write_again()
            os.utime(path, ns=(0, before.st_mtime_ns))
            assert path.stat().st_size == before.st_size
            clock.now += 3
        return found

    monkeypatch.setattr(Storage, "read_end", read_end)


@pytest.mark.parametrize("age", [0.1, 2.0, 2.1])
@pytest.mark.parametrize("learn", [by_query, by_analyze, by_job, by_planner])
def test_files_that_were_young_when_their_footers_were_read_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, learn: Learn, age: float
) -> None:
    monkeypatch.setattr(analyze, "FILES_OF_DRIVER", 0)
    for number in range(FILES):
        write_items(tmp_path / f"t/{number:02}.parquet", number * 10)
    table, path = opened(tmp_path / "t", SCHEMA), tmp_path / "t/00.parquet"
    clock.now = OLD_SECONDS + age
    place = str(tmp_path / "stats")
    with monkeypatch.context() as slow:
        is_replaced = age <= 2  # later, a file gets another time
        replaces_after_reading(slow, clock, path, lambda: write_items(path, 900 * is_replaced))
        learn(table, SplitConfig(statistics_location=place))
    found, _ = selected(table, items(905), statistics_location=place)  # the same process
    assert found == ({"00.parquet"} if is_replaced else set())
    for _ in range(2):
        monkeypatch.setattr(known, "LEARNED", StatisticsStore())  # another process
        found, enumerator = selected(table, items(905), statistics_location=place)
        assert found == ({"00.parquet"} if is_replaced else set())
        assert enumerator.metrics.footers_read == 0
    assert selected(table, items(5))[0] == (set() if is_replaced else {"00.parquet"})


def test_the_types_of_young_orc_files_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    def write_orc(name: str) -> None:
        orc.write_table(pa.table({name: pa.array([1], pa.int64())}), tmp_path / "0.orc")

    write_orc("i")
    os.utime(tmp_path / "0.orc", (OLD_SECONDS, OLD_SECONDS))
    schema = pa.schema({"i": pa.int64(), "j": pa.string()})
    with splitlib.load_table(str(tmp_path), "files", format="orc", schema=schema) as table:
        files = table.files().select(["path", "size", "modified"])
        files = files.set_column(2, "modified", files["modified"].cast(pa.int64()))
        with monkeypatch.context() as slow:
            path = tmp_path / "0.orc"
            replaces_after_reading(slow, clock, path, lambda: write_orc("j"))
            found = of_same_type(table, files, schema, SplitConfig())
            assert (found.columns.names, found.files_read) == (["i", "j"], 1)
        for number_read in (1, 0):
            found = of_same_type(table, files, schema, SplitConfig())
            assert (found.columns.names, found.files_read) == (["i"], number_read)


@pytest.mark.parametrize("is_read", [True, False])
def test_a_footer_that_could_not_be_read_leaves_the_file_unsure(is_read: bool) -> None:
    """Statistics of another column may be those of a file that was replaced."""
    table = MagicMock(may_be_old=True, connector_name="x")
    table.metadata.location = "/t"
    table.unchanged = lambda files, _: pa.repeat(pa.scalar(False), len(files))
    columns = {"path": ["/t/0.parquet"], "size": [100], "modified": [1_600_000_000_000]}
    arrays = [pa.array(columns.get(f.name, [None]), f.type) for f in FILE_SCHEMA]
    files = pa.record_batch(arrays, schema=FILE_SCHEMA)
    kind = group_type(pa.int64())
    group = {"lower": 0, "upper": 9, "has_null": False, "has_value": True, "start": 0, "end": 90}
    group = {f.name: group.get(f.name, False) for f in kind.value_type}
    known, unknown = pa.array([[group]], kind), pa.nulls(1, kind)
    KnownStatistics(table, SplitConfig()).add(SCHEMA, files, {"item": known})
    now = KnownStatistics(table, SplitConfig())
    both = pa.schema([*SCHEMA, pa.field("amount", pa.int64())])
    amount = known if is_read else unknown
    now.add(both, files, {"item": known if is_read else unknown, "amount": amount})
    predicate, groups = Predicate(SCHEMA, [items(500)]), now.get(SCHEMA, files)
    matched = groups.match(predicate)
    assert not matched.keeps.any()
    valid, listings = valid_now(table, files, groups, matched, now.read_now, SplitConfig())
    assert valid.match(predicate).keeps.any() != is_read
    assert listings == (not is_read)
