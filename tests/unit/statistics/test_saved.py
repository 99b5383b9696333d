"""Statistics in files are shared, and never needed: broken and foreign files are ignored."""

from __future__ import annotations

import logging
import os
import stat
import threading
import uuid
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData
from splitlib.cli.app import main
from splitlib.enumeration import analyze
from splitlib.enumeration.analyze import analyze_table
from splitlib.errors import InvalidFilter, UnsupportedTable
from splitlib.statistics import known
from splitlib.statistics import known as saved
from splitlib.statistics.store import ColumnKey, StatisticsStore
from tests.unit.statistics.tables import OLD_SECONDS, opened, selected, write

SCHEMA = pa.schema(
    [
        pa.field("item", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("tags", pa.list_(pa.string())),
    ]
)


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "LEARNED", StatisticsStore())


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    another_process(monkeypatch)


@pytest.fixture
def table(tmp_path: Path) -> splitlib.Table:
    for number in range(20):
        values = range(number * 10, number * 10 + 10)
        at = pa.array(values, pa.int64()).cast(pa.timestamp("us", "UTC"))
        names = [f"n{value:03}" for value in values]
        rows = pa.table({"item": values, "name": names, "at": at})
        write(tmp_path / f"t/{number:02}.parquet", rows, row_group_size=5)
    return opened(tmp_path / "t", SCHEMA)


def items(*values: int) -> DynamicFilteringData:
    return DynamicFilteringData.from_values({"item": list(values)})


def files_in(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.is_file())


def find(table: splitlib.Table, place: Path, *values: int) -> tuple[set[str], int]:
    found, enumerator = selected(table, items(*values), statistics_location=str(place))
    return found, enumerator.metrics.footers_read


@pytest.mark.parametrize("scheme", ["", "file://", "memory://"])
def test_another_process_reads_no_footers(
    table: splitlib.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    place: Any = f"{scheme}{tmp_path}/stats"
    assert find(table, place, 5) == ({"00.parquet"}, 20)
    another_process(monkeypatch)
    assert find(table, place, 33) == ({"03.parquet"}, 0)
    assert find(table, place, 33) == ({"03.parquet"}, 0)


def test_a_file_that_was_replaced_is_read_again(
    table: splitlib.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "stats"
    find(table, place, 5)
    path = tmp_path / "t/00.parquet"
    os.utime(path, (OLD_SECONDS, OLD_SECONDS + 1))
    another_process(monkeypatch)
    assert find(table, place, 5) == ({"00.parquet"}, 1)
    another_process(monkeypatch)
    assert find(table, place, 5) == ({"00.parquet"}, 0)
    assert len(files_in(place)) == 2


def test_only_the_owner_may_read_and_write(table: splitlib.Table, tmp_path: Path) -> None:
    place = tmp_path / "stats"
    find(table, place, 5)
    (file,) = files_in(place)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert str(tmp_path) not in str(file.relative_to(place))


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def other_columns(file: Path) -> None:
    pq.write_table(pa.table({"path": ["x"], "size": [1], "modified": [1]}), file)


def with_nulls(file: Path) -> None:
    rows = pq.read_table(file)
    sizes = pa.nulls(rows.num_rows, pa.int64())
    pq.write_table(rows.set_column(1, "size", sizes), file)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def other_type(file: Path) -> None:
    rows = pq.read_table(file)
    pq.write_table(rows.set_column(1, "size", rows["size"].cast(pa.int32())), file)


def without_places(file: Path) -> None:
    rows = pq.read_table(file)
    groups = [[{**group, "start": None} for group in groups.as_py()] for groups in rows["groups"]]
    changed = pa.array(groups, rows["groups"].type)
    pq.write_table(rows.set_column(3, "groups", changed), file)


def damaged_pages(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4:200] = bytes(196)
    file.write_bytes(content)


def larger_than_it_looks(file: Path) -> None:
    rows = pq.read_table(file).slice(0, 1)
    groups = rows["groups"][0].as_py()[:1] * (saved.MOST_VALUES // 6)
    pq.write_table(rows.set_column(3, "groups", pa.array([groups], rows["groups"].type)), file)


DAMAGES = [
    truncated,
    larger_than_it_looks,
    other_columns,
    with_nulls,
    empty,
    other_type,
    without_places,
    damaged_pages,
]


def with_digest(file: Path) -> None:
    """Give a file the name that splitlib gives to a file with this content."""
    digest = blake2b(file.read_bytes(), digest_size=16).hexdigest()
    file.rename(file.with_name(f"{uuid.uuid4().hex}-{digest}.parquet"))


def without_digest(file: Path) -> None:
    file.rename(file.with_name(f"{uuid.uuid4().hex}.parquet"))


@pytest.mark.parametrize("damage", [*DAMAGES, without_digest])
@pytest.mark.parametrize("has_digest", [False, True])
def test_broken_files_are_ignored(
    table: splitlib.Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    damage: Any,
    has_digest: bool,
) -> None:
    place = tmp_path / "stats"
    find(table, place, 5)
    (file,) = files_in(place)
    monkeypatch.setattr(saved, "MOST_VALUES", 6000)
    damage(file)
    if has_digest:
        (file,) = files_in(place)
        with_digest(file)
    another_process(monkeypatch)
    if has_digest and damage is without_digest:
        assert find(table, place, 5) == ({"00.parquet"}, 0)
        return
    with caplog.at_level(logging.WARNING, "splitlib"):
        assert find(table, place, 5) == ({"00.parquet"}, 20)
        table_of_more = opened(tmp_path / "t", SCHEMA)
        write(tmp_path / "t/20.parquet", pa.table({"item": [1000]}))
        assert find(table_of_more, place, 5)[1] == 1
    assert caplog.text.count("are ignored") == 1


def test_files_that_are_too_large_are_ignored(
    table: splitlib.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "stats"
    find(table, place, 5)
    another_process(monkeypatch)
    monkeypatch.setattr(saved, "MOST_FILE_BYTES", 10)
    assert find(table, place, 5) == ({"00.parquet"}, 20)


@pytest.mark.parametrize("place", ["file", "missing://x"])
def test_a_place_that_cannot_be_used_changes_nothing(
    table: splitlib.Table, tmp_path: Path, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    (tmp_path / "file").write_text("")
    where: Any = place if "://" in place else tmp_path / place
    with caplog.at_level(logging.WARNING, "splitlib"):
        assert find(table, where, 5)[0] == {"00.parquet"}
    assert "are not saved" in caplog.text


def test_files_may_be_deleted(
    table: splitlib.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "stats"
    find(table, place, 5)
    read = saved.SavedColumn.read

    def deleted(self: Any, path: str) -> pa.Table:
        Path(path).unlink()
        return read(self, path)

    monkeypatch.setattr(saved.SavedColumn, "read", deleted)
    another_process(monkeypatch)
    assert find(table, place, 5) == ({"00.parquet"}, 20)


def test_files_that_could_not_be_read_are_read_later(
    table: splitlib.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "stats"
    find(table, place, 5)
    another_process(monkeypatch)
    with monkeypatch.context() as slow:
        slow.setattr(saved.SavedColumn, "read", Mock(side_effect=TimeoutError))
        config = splitlib.SplitConfig(statistics_location=str(place))
        statistics = saved.KnownStatistics(table, config)
        files = next(DynamicFileEnumerator(table, config).select_files()).files.files
        found = statistics.get(pa.schema([SCHEMA.field("item")]), files)
        assert found.columns["item"].null_count == 20
    assert find(table, place, 5) == ({"00.parquet"}, 0)


def test_a_place_that_does_not_answer_is_used_once(
    table: splitlib.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "stats"
    find(table, place, 5)
    another_process(monkeypatch)
    never = threading.Event()
    load = Mock(side_effect=lambda *_: never.wait())
    config = splitlib.SplitConfig(statistics_location=str(place))
    with monkeypatch.context() as slow:
        slow.setattr(saved, "SECONDS", 0.05)
        slow.setattr(saved.SavedColumn, "load", load)
        for _ in range(2):
            statistics = saved.KnownStatistics(table, config)
            files = next(DynamicFileEnumerator(table, config).select_files()).files.files
            found = statistics.get(SCHEMA, files)
            assert found.columns["item"].null_count == 20
            statistics.save()
    never.set()
    assert load.call_count == 1
    monkeypatch.setattr(saved, "PAUSED_UNTIL", {})
    assert find(table, place, 5) == ({"00.parquet"}, 0)


@pytest.mark.parametrize(
    "secret",
    [
        "s3://key:{}@bucket/f.parquet",
        "sftp://me:a/{}@host/f.parquet",
        "https://host/f.parquet?X-Amz-Signature={}",
    ],
)
def test_paths_with_credentials_are_not_saved(secret: str) -> None:
    paths = ["abfss://box@account/a@b/f.parquet", secret.format("hidden"), "/a?b.parquet"]
    assert saved.without_secrets(pa.array(paths)).to_pylist() == [True, False, True]


def test_forgotten_statistics_are_loaded_again(
    table: splitlib.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "stats"
    config = splitlib.SplitConfig(statistics_location=str(place))
    analyze_table(table, ["item"], config=config)
    monkeypatch.setattr(saved, "LEARNED", StatisticsStore(most_bytes=3000))
    for _ in range(2):
        assert find(table, place, 5) == ({"00.parquet"}, 0)
        analyze_table(table, ["name"])  # there is no space for both
    assert len(files_in(place)) == 1


@pytest.mark.parametrize("limit", ["MOST_FILE_BYTES", "MOST_VALUES"])
def test_no_file_becomes_too_large(
    table: splitlib.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    place = tmp_path / "stats"
    column = saved.SavedColumn(str(place), "t", ColumnKey("item", pa.int64()))
    find(table, tmp_path / "other", 5)
    (file,) = files_in(tmp_path / "other")
    rows = pq.read_table(file)
    monkeypatch.setattr(saved, "MOST_FILES", 4)
    most = file.stat().st_size if limit == "MOST_FILE_BYTES" else 400
    monkeypatch.setattr(saved, limit, most)
    for number in range(12):
        paths = pa.array([f"{path}{number}" for path in rows["path"].to_pylist()])
        column.save(rows.set_column(0, "path", paths))
    assert sum(part.num_rows for _, part in column.load() if part) == 12 * 20


def test_many_files_are_merged(
    table: splitlib.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved, "MOST_FILES", 4)
    place, path = tmp_path / "stats", tmp_path / "t/00.parquet"
    for number in range(10):
        os.utime(path, (OLD_SECONDS, OLD_SECONDS + number))
        assert find(table, place, 5)[0] == {"00.parquet"}
        assert len(files_in(place)) <= 4
    another_process(monkeypatch)
    assert find(table, place, 5, 33) == ({"00.parquet", "03.parquet"}, 0)
    rows = pa.concat_tables([pq.read_table(file) for file in files_in(place)])
    assert rows.num_rows < 25


def test_several_processes_at_once(
    table: splitlib.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved, "MOST_FILES", 3)
    errors: list[Any] = []
    column = saved.SavedColumn(str(tmp_path / "stats"), "t", ColumnKey("item", pa.int64()))
    find(table, tmp_path / "other", 5)
    (file,) = files_in(tmp_path / "other")
    rows = pq.read_table(file)

    def work() -> None:
        for _ in range(5):
            try:
                column.save(rows)
                assert all(part.num_rows == 20 for _, part in column.load() if part)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert all(not file.name.startswith(".") for file in files_in(tmp_path / "stats"))


def test_analyze(table: splitlib.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, seen = tmp_path / "stats", []
    config = splitlib.SplitConfig(statistics_location=str(place))
    with monkeypatch.context() as patched:
        patched.setattr(analyze, "time", SimpleNamespace(perf_counter=iter([5, 7.5]).__next__))
        found = analyze_table(
            table, config=config, progress=lambda so_far: seen.append(so_far.files)
        )
    assert found.seconds == 2.5
    assert found.columns == ("item", "name", "at")
    assert (found.files, found.learned, found.footers_read, found.row_groups) == (20, 20, 20, 40)
    assert seen == [20]
    assert analyze_table(table, ["ITEM"], config=config).footers_read == 0
    another_process(monkeypatch)
    assert find(table, place, 33) == ({"03.parquet"}, 0)
    name = DynamicFilteringData.from_values({"name": ["n033"]})
    found_files, enumerator = selected(table, name, statistics_location=str(place))
    assert (found_files, enumerator.metrics.footers_read) == ({"03.parquet"}, 0)


def test_analyze_reads_footers_of_large_tables_in_jobs(
    table: splitlib.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in [("FILES_OF_DRIVER", 2), ("FILES_TOGETHER", 2), ("_FILES_OF_JOB", 7)]:
        monkeypatch.setattr(analyze, name, number)
    jobs = []

    def by_job(columns: object, files: Any) -> list[Any]:
        jobs.append(files.num_rows)
        return [None] * files.num_rows

    assert analyze_table(table, by_job=by_job).learned == 20
    assert jobs == [8, 8, 2]


def test_analyze_refuses_what_it_cannot_learn(table: splitlib.Table, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTable, match="no statistics of 'tags'"):
        analyze_table(table, ["tags"])
    with pytest.raises(InvalidFilter, match="no column 'itm'"):
        analyze_table(table, ["itm"])
    off = splitlib.SplitConfig(learn_statistics=False)
    with pytest.raises(UnsupportedTable, match="learn_statistics is off"):
        analyze_table(table, config=off)
    orc = splitlib.load_table(
        str(tmp_path), "files", schema=SCHEMA, partition_schema=pa.schema([]), format="orc"
    )
    with pytest.raises(UnsupportedTable, match="no Parquet files"):
        analyze_table(orc)


@pytest.mark.parametrize("fields", [["item"], ["day", "item"]])
def test_analyze_refuses_filters_on_other_columns(tmp_path: Path, fields: list[str]) -> None:
    write(tmp_path / "day=1/0.parquet", pa.table({"item": range(10)}))
    table = splitlib.load_table(str(tmp_path), "files")
    data = DynamicFilteringData.from_values({name: [1] for name in fields})
    with pytest.raises(InvalidFilter, match=r"^item cannot select files .* keys are day"):
        analyze_table(table, filters=[data])


def test_analyze_counts_no_files_that_are_too_young(
    table: splitlib.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as young:
        young.setattr(saved, "time", SimpleNamespace(time=lambda: OLD_SECONDS + 1.0))
        found = analyze_table(table)
    assert (found.files, found.learned, found.young, found.row_groups) == (20, 0, 20, 0)
    assert "; analyze 20 new files again in a moment" in str(found)
    assert "new files" not in str(analyze_table(table, ["item", "Item"]))
    assert analyze_table(table, ["item", "Item"]).columns == ("item",)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day in (1, 2):
        rows = pa.table({"item": range(10), "name": ["x"] * 10})
        write(tmp_path / f"t/day={day}/0.parquet", rows)
    place = tmp_path / "stats"
    arguments = ["analyze", "-c", "files", "--set", f"statistics_location={place}"]
    assert main([*arguments, "--filter", "day=1", "--columns", "item", str(tmp_path / "t")]) == 0
    assert "statistics of item: 1 of 1 files, 1 row groups (1 footers" in capsys.readouterr().out
    found = main([*arguments, "--filter", "day=2", "--columns", "ITEM", str(tmp_path / "t")])
    assert found == 0
    assert "statistics of item: 1 of 1 files" in capsys.readouterr().out
    assert main([*arguments, "--json", str(tmp_path / "t")]) == 0
    assert '"files": 2, "learned": 2, "young": 0, "footers_read": 2' in capsys.readouterr().out
    assert len(files_in(place)) == 4
