"""Arrow, Polars and DuckDB return exactly the rows that the filters contain."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import dataset

import splitlib
from splitlib import DynamicFilteringData
from splitlib.errors import ConnectorNotInstalled, SourceError
from splitlib.rows import calls as calls_module
from splitlib.rows.calls import Calls
from splitlib.rows.dataset import relation
from tests.unit.rows import drawn_tables as drawn

ENGINES = {
    "arrow": lambda table, filters: table.to_arrow_dataset(*filters).to_table(),
    "polars": lambda table, filters: table.to_polars(*filters).collect().to_arrow(),
    "duckdb": lambda table, filters: table.to_duckdb(*filters).to_arrow_table(),
}


def opened(root, **options):
    return splitlib.load_table(
        str(root), "files", schema=drawn.DATA, partition_schema=drawn.KEYS, **options
    )


@settings(max_examples=40, deadline=None)
@given(written=drawn.tables(), filters=st.lists(drawn.filters(), max_size=2))
def test_equal_rows(tmp_path_factory, written, filters):
    root = tmp_path_factory.mktemp("t") / "table"
    expected = drawn.matching(drawn.write(root, written), filters)
    with opened(root, percent_escapes="utf-8") as table:
        for name, read in ENGINES.items():
            found = read(table, filters)
            assert found.column_names == table.schema.names, name
            assert drawn.shown(found.to_pylist()) == expected, name


ROWS = pa.table(
    {
        "id": pa.array(range(10), pa.int64()),
        "v": [0.5, -0.0, float("nan"), None, 4, 5, 6, 7, 8, float("inf")],
    }
)


@pytest.fixture
def table(tmp_path):
    """A table with two partitions, whose files have row groups of five rows."""
    for part in (1, 2):
        (tmp_path / "t" / f"k={part}").mkdir(parents=True)
        path = tmp_path / "t" / f"k={part}" / "f.parquet"
        pq.write_table(ROWS, path, row_group_size=5)
    with splitlib.load_table(str(tmp_path / "t"), "files") as opened:
        yield opened


def test_polars_evaluates_conditions_itself(table):
    lazy = table.to_polars(DynamicFilteringData.from_values({"k": [1]}))
    v = pl.col("v")
    assert lazy.filter(v > 1).select("id").collect()["id"].to_list() == [2, 4, 5, 6, 7, 8, 9]
    assert lazy.filter(v.eq(math.nan)).collect()["id"].to_list() == [2]
    assert lazy.select(pl.len()).collect().item() == 10
    numbered = lazy.with_row_index()
    assert numbered.select("index").collect().height == 10
    assert numbered.select(pl.col("index").max()).collect().item() == 9
    assert lazy.select(pl.int_range(pl.len())).collect().height == 10
    assert lazy.head(3).collect()["id"].to_list() == [0, 1, 2]
    assert lazy.filter(pl.col("id") > 3).head(2).collect()["id"].to_list() == [4, 5]
    assert lazy.select("k", "id").collect().columns == ["k", "id"]
    assert lazy.collect_schema() == {"id": pl.Int64, "v": pl.Float64, "k": pl.Int32}
    nothing = DynamicFilteringData.from_values({"k": pa.array([], pa.int32())})
    assert table.to_polars(nothing).collect().schema == lazy.collect_schema()


def test_duckdb_evaluates_conditions_itself(table):
    connection = duckdb.connect()
    found = table.to_duckdb(DynamicFilteringData.from_values({"k": [1]}), connection=connection)
    assert found.filter("v > 1").order("id").project("id").fetchall() == [
        (2,), (4,), (5,), (6,), (7,), (8,), (9,)
    ]  # fmt: skip
    connection.register("facts", found)
    connection.execute("CREATE TABLE dim AS SELECT i AS id FROM range(3, 1000) t(i)")
    query = "FROM facts JOIN dim USING (id) WHERE v > 4"
    assert connection.sql(f"SELECT count(*), sum(k) {query}").fetchall() == [(5, 5)]
    plan = connection.sql(f"SELECT id {query}").explain()
    scan = plan[plan.index("ARROW_SCAN") :]
    assert "Filters" not in scan
    assert "v" in scan


def test_duckdb_starts_scans_without_the_global_lock():
    """PyArrow's ``to_reader`` holds the lock while it waits for threads that open files."""

    class Scanner:
        def __init__(self, scanner):
            self.projected_schema, self.to_batches = scanner.projected_schema, scanner.to_batches

        def to_reader(self):
            raise AssertionError("to_reader holds the global lock")

    class Watched(dataset.InMemoryDataset):  # type: ignore[misc]  # PyArrow has no types for it
        def scanner(self, **options):
            return Scanner(super().scanner(**options))

    rows = pa.table({"id": [1, 2], "v": [0.5, 1.5]})
    found = relation(Watched(rows), duckdb.connect())
    assert found.project("id").fetchall() == [(1,), (2,)]
    assert found.filter("v > 1").fetchall() == [(2, 1.5)]


def test_columns_of_a_query_are_read_alone(table):
    """Neither engine reads the column whose values cannot be read."""
    for path in table.files()["path"].to_pylist():
        metadata = pq.read_metadata(path)
        column = metadata.row_group(0).column(1)
        with open(path, "r+b") as file:
            file.seek(column.dictionary_page_offset or column.data_page_offset)
            file.write(b"\xff" * 8)
    assert table.to_polars().select(pl.col("id").sum()).collect().item() == 90
    assert table.to_duckdb().aggregate("sum(id)").fetchall() == [(90,)]
    with pytest.raises(OSError, match="page header"):
        table.to_arrow_dataset().to_table()


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_a_missing_engine_is_named(table, monkeypatch, engine):
    monkeypatch.setitem(sys.modules, engine, None)
    with pytest.raises(ConnectorNotInstalled, match=rf"pip install 'splitlib\[{engine}\]'"):
        getattr(table, f"to_{engine}")()


# A program that reads a part of a table. Its arguments are the table, and how to open and read it.
READS_A_PART = """
import os
import sys
import fsspec
import splitlib

root, kind, part = sys.argv[1:]
if kind == "memory":
    fsspec.filesystem("memory").put(root, "/t", recursive=True)
    root = "memory://t"
table = splitlib.load_table(root, "files")
keys = [{"v": [0.5]}] if kind == "converted" else []
rows = table.to_arrow_dataset(*keys)
if part == "next":
    batches = rows.to_batches()
    next(batches)
elif part == "dropped":
    next(rows.to_batches())
elif part == "many":
    several = [table.to_arrow_dataset(*keys).to_batches() for _ in range(6)]
    for batches in several:
        next(batches)
elif part == "raise":
    for batch in rows.to_batches():
        raise KeyError("an error of the program")
elif part == "head":
    assert rows.head(1).num_rows == 1
elif part == "polars":
    assert table.to_polars(*keys).head(1).collect().height == 1
elif part == "duckdb":
    assert len(table.to_duckdb(*keys).limit(1).fetchall()) == 1
elif part == "exit":
    batches = rows.to_batches()
    next(batches)
    sys.exit(7)
print("done")
"""
CODES = {"raise": 1, "exit": 7}
FEW = ["local-next", "converted-raise", "converted-head", "local-polars", "local-duckdb"]
FEW += ["memory-next"]
CASES = [
    pytest.param(kind, part, id=name, marks=[] if name in FEW else pytest.mark.long)
    for kind in ("local", "converted", "memory")
    for part in ("next", "dropped", "many", "raise", "head", "polars", "duckdb", "exit")
    for name in [f"{kind}-{part}"]
]


@pytest.fixture(scope="module")
def many_files(tmp_path_factory):
    """A table of so many files that Arrow reads ahead when a program ends."""
    root = tmp_path_factory.mktemp("many") / "t"
    for part in range(60):
        (root / f"k={part}").mkdir(parents=True)
        pq.write_table(ROWS, root / f"k={part}" / "f.parquet", row_group_size=2)
    return root


def ran(program, *arguments):
    """Run a Python program to its end."""
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,  # only a guard
    )


@pytest.mark.parametrize(("kind", "part"), CASES)
def test_a_program_that_reads_a_part_ends(many_files, kind, part):
    """Arrow's threads, which read ahead, must not call Python while the interpreter finalizes."""
    done = ran(READS_A_PART, many_files, kind, part)
    assert done.returncode == CODES.get(part, 0), done.stderr
    assert "Fatal" not in done.stderr
    assert ("an error of the program" in done.stderr) == (part == "raise")


# A program whose function of atexit, registered before splitlib's, reads all rows, and then a part.
# Its arguments are the table and how to read it.
READS_AT_EXIT = """
import atexit
import sys

def rows():
    return splitlib.load_table(sys.argv[1], "files").to_arrow_dataset(*keys)

@atexit.register
def before():
    print(made.to_table().num_rows, rows().to_table().num_rows)
    next(rows().to_batches())

import splitlib

keys = [{"v": [0.5, float("nan")]}] if sys.argv[2] == "converted" else []
made = rows()
if sys.argv[2] == "read":
    next(made.to_batches())
"""


@pytest.mark.parametrize("kind", ["read", "plain", "converted"])
def test_functions_at_exit_can_read(many_files, kind):
    """``atexit`` runs functions that were registered earlier after later ones."""
    done = ran(READS_AT_EXIT, many_files, kind)
    assert done.returncode == 0, done.stderr
    count = 120 if kind == "converted" else 600
    assert done.stdout.split() == [str(count), str(count)], done.stderr
    assert not done.stderr


class Called:
    """An object that Arrow calls."""


def test_no_call_begins_after_the_end():
    calls = Calls()
    with calls.counted(Called()):
        pass
    calls.end()
    with pytest.raises(SourceError, match="because the program ends"), calls.counted(Called()):
        pass


@pytest.fixture
def waits(monkeypatch):
    """The waits at the end of a program, each of which is skipped but counts as time."""
    waits: list[float] = []
    clock = SimpleNamespace(
        sleep=waits.append,
        monotonic=lambda: sum(waits),
        process_time=time.process_time,
        thread_time=time.thread_time,
    )
    monkeypatch.setattr(calls_module, "time", clock)
    return waits


def test_the_thread_that_ends_a_program_is_not_one_of_arrow(monkeypatch, waits):
    """In a forked process, Python may list the main thread with another number."""
    own = str(threading.get_native_id())
    tasks = [SimpleNamespace(name=own, path=f"/proc/self/task/{own}")]
    monkeypatch.setattr(threading, "enumerate", list)
    monkeypatch.setattr(os, "scandir", lambda _: nullcontext(tasks))
    calls, called = Calls(), Called()
    with calls.counted(called):
        pass
    calls.end()
    assert len(waits) < 10


@pytest.mark.parametrize(("state", "seconds"), [("freed", 0), ("kept", 2), ("inside", 10)], ids=str)
def test_threads_of_other_libraries_do_not_delay_the_end_for_long(
    tmp_path, monkeypatch, waits, state, seconds
):
    """Threads of other libraries look like Arrow's. Here, one of them always runs."""
    (tmp_path / "stat").write_text("0 (other library) R 1")
    tasks = [SimpleNamespace(name="0", path=str(tmp_path))]
    monkeypatch.setattr(os, "scandir", lambda _: nullcontext(tasks))
    calls, called = Calls(), Called()
    with calls.counted(called):
        if state == "inside":
            calls.end()
    if state == "freed":
        del called
    if state != "inside":
        calls.end()
    assert sum(waits) == pytest.approx(seconds, abs=0.02)
