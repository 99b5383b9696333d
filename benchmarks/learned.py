"""Measure learned statistics of very many files: their size, and the time to learn and to use them.

The files are hard links to a thousand different Parquet files of one row group, in directories of a
thousand. Each step runs in a new process. The footers are read on the driver. Both columns, a
number and a text, are sorted, and the keys are in the files of one directory.
"""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq

import splitlib
from benchmarks.measure import Contender, Sample, in_turns
from benchmarks.memory import peak_megabytes
from benchmarks.processes import in_fresh_process
from benchmarks.results import Comparison, Result, Target
from benchmarks.sizes import Sizes
from splitlib.config import SplitConfig
from splitlib.enumeration.analyze import analyze_table
from splitlib.filtering.predicate import Predicate
from splitlib.statistics.known import KnownStatistics
from splitlib.statistics.store import LEARNED

_FILES: Final = 1_000
"""Number of different files, and of files in a directory."""
_ROWS: Final = 10
_COLUMNS: Final = pa.schema([("item", pa.int64()), ("customer", pa.string())])
_KEYS: Final = 30
_LEARN: Final = "learn: list the files, read all footers, save the statistics"
_DECIDE: Final = "decide: match the statistics in memory with 30 keys"


def run(sizes: Sizes, directory: Path) -> Result:
    root, number = directory / f"learned_{sizes.learned}", sizes.learned
    if not root.exists():
        _build(root, number)
    saved = directory / "learned_statistics"
    learn = partial(in_fresh_process, _learn, root, saved)
    found = in_turns(f"{number:,} files", [Contender(_LEARN, learn)], sizes.repeat)
    decide = partial(in_fresh_process, _decide, root, saved)
    found += in_turns(f"{number:,} files", [Contender(_DECIDE, decide)], sizes.repeat)
    comparison = Comparison(f"{number:,} files of two columns", "seconds", _LEARN, found)
    counts = comparison[_DECIDE].counts
    size = counts["bytes_in_memory"] / number / len(_COLUMNS)
    targets = [
        Target("bytes in memory, per file and column", size, 100),
        Target("seconds to decide", comparison[_DECIDE].median, 0.05),
    ]
    return Result("learned", [comparison], targets, counts)


def _learn(root: Path, saved: Path) -> Sample:
    shutil.rmtree(saved, ignore_errors=True)
    config = SplitConfig(statistics_location=str(saved))
    before = peak_megabytes()
    started = time.perf_counter()
    with splitlib.load_table(str(root), "files") as table:
        found = analyze_table(table, _COLUMNS.names, config=config)
    seconds = time.perf_counter() - started
    print(f"memory grew by {peak_megabytes() - before:.0f} MB")
    size = sum(file.stat().st_size for file in saved.rglob("*") if file.is_file())
    return Sample(seconds, {"footers_read": found.footers_read, "bytes_on_disk_at_most": _up(size)})


def _decide(root: Path, saved: Path) -> Sample:
    config = SplitConfig(statistics_location=str(saved))
    start = _FILES // 2 * _ROWS
    data = splitlib.DynamicFilteringData.from_values({"item": list(range(start, start + _KEYS))})
    with splitlib.load_table(str(root), "files") as table:
        enumerator = splitlib.DynamicFileEnumerator(table, config)
        files = pa.concat_batches([one.files.files for one in enumerator.select_files()])
        known = KnownStatistics(table, config)
        known.get(_COLUMNS, files)  # loads the saved statistics
        predicate = Predicate(_COLUMNS, [data])
        started = time.perf_counter()
        matched = known.get(pa.schema([_COLUMNS.field("item")]), files).match(predicate)
        seconds = time.perf_counter() - started
    counts = {"files": files.num_rows, "files_matched": int(matched.keeps.sum())}
    return Sample(seconds, {**counts, "bytes_in_memory": LEARNED.nbytes})


def _up(size: int) -> int:
    # The order in which threads read footers changes compressed files by some bytes.
    return -(-size // 1_000_000) * 1_000_000


def _build(root: Path, number: int) -> None:
    building = root.with_suffix(".building")
    shutil.rmtree(building, ignore_errors=True)
    different = building / ".different"
    different.mkdir(parents=True)
    for file in range(_FILES):
        items = np.arange(file * _ROWS, (file + 1) * _ROWS)
        customers = [f"customer {item:010}" for item in items]
        pq.write_table(pa.table([items, customers], schema=_COLUMNS), different / f"{file}.parquet")
    for start in range(0, number, _FILES):
        partition = building / f"day={start // _FILES}"
        partition.mkdir()
        for file in range(min(_FILES, number - start)):
            os.link(different / f"{file}.parquet", partition / f"{file:04}.parquet")
    building.rename(root)
