"""Measure how long splitlib needs to find matching partitions among a million in a metastore.

splitlib is compared with the same metastore call through Thrift's generated client. Each sample
runs in a new process, so that its peak memory can be measured too.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import splitlib
from benchmarks.measure import Contender, Sample, in_turns
from benchmarks.memory import peak_megabytes
from benchmarks.metastore_tables import DATABASE, create_table, open_metastore, raw_client
from benchmarks.processes import in_fresh_process
from benchmarks.results import Comparison, Result, Target, within
from benchmarks.sizes import Sizes

_RAW = "the metastore's call alone"
_OURS = "splitlib, partitions matched"
_STEP = 7
_PER_DAY = 1_000


class _Case(NamedTuple):
    title: str
    table: str
    call: str
    arguments: tuple[Any, ...]
    keys: dict[str, list[Any]]
    most: float
    """Maximum ratio of splitlib's time to the raw call's. 0: fixed maxima for time and memory."""


def run(sizes: Sizes, directory: Path) -> Result:
    comparisons, targets = [], []
    with open_metastore(directory) as metastore:
        for case in _cases(sizes):
            kind = "int" if case.table.startswith("numbers") else "string"
            names = ["dt", "hour", "country"] if case.table.startswith("days") else ["k"]
            create_table(
                metastore,
                case.table,
                directory / case.table,
                [("x", "int")],
                [(name, kind) for name in names],
                _values(case.table, sizes.named),
            )
            for unit in ("seconds", "MB above the imports"):
                of_time = unit == "seconds"
                asked = metastore.uri, case, of_time
                contenders = [
                    Contender(_RAW, partial(in_fresh_process, _raw, *asked)),
                    Contender(_OURS, partial(in_fresh_process, _ours, *asked)),
                ]
                measured = in_turns(f"{case.title}, {unit}", contenders, sizes.repeat)
                found = Comparison(case.title, unit, _RAW, measured)
                comparisons.append(found)
                if of_time and case.most:
                    name = f"{_OURS} / {_RAW}, {case.title}"
                    targets.append(within(name, found[_OURS], found[_RAW], case.most))
                elif not case.most:
                    most = 0.3 if of_time else 120
                    targets.append(Target(f"{case.title}, {unit}", found[_OURS].median, most))
    return Result("many_partitions", comparisons, targets)


def _cases(sizes: Sizes) -> list[_Case]:
    size, some = sizes.named, [number * _STEP for number in range(sizes.matching)]
    texts = [f"key_{number:07}" for number in some]
    by_name = ([f"k={text}" for text in texts],)
    return [
        _Case(
            f"{size:,} partitions, {len(some)} of them by a string",
            f"texts_{size}",
            "get_partitions_by_names",
            by_name,
            {"k": texts},
            0,
        ),
        _Case(
            f"{size:,} partitions, {len(some)} of them by a number",
            f"numbers_{size}",
            "get_partition_names",
            (-1,),
            {"k": some},
            1.2,
        ),
        _Case(
            f"{size:,} partitions, those of a day",
            f"days_{size}",
            "get_partition_names_ps",
            (["day_00000", "", ""], -1),
            {"dt": ["day_00000"]},
            1.5,
        ),
    ]


def _values(table: str, size: int) -> list[tuple[str, ...]]:
    if table.startswith("numbers"):
        return [(str(number),) for number in range(size)]
    if table.startswith("texts"):
        return [(f"key_{number:07}",) for number in range(size)]
    return [
        (f"day_{number // _PER_DAY:05}", f"{number % 24:02}", f"c{number % _PER_DAY // 24:02}")
        for number in range(size)
    ]


def _raw(uri: str, case: _Case, of_time: bool) -> Sample:
    before = peak_megabytes()
    with raw_client(uri) as client:
        client.get_all_databases()
        started = time.perf_counter()
        getattr(client, case.call)(DATABASE, case.table, *case.arguments)
        seconds = time.perf_counter() - started
    return Sample(seconds if of_time else peak_megabytes() - before)


def _ours(uri: str, case: _Case, of_time: bool) -> Sample:
    before = peak_megabytes()
    data = splitlib.DynamicFilteringData.from_values(case.keys)
    with splitlib.load_table(f"{DATABASE}.{case.table}", "hive", uri=uri) as table:
        started = time.perf_counter()
        enumerator = splitlib.DynamicFileEnumerator(table)
        enumerator.set_dynamic_filtering_data(data)
        # Measure only the first step of an enumeration, because later steps depend on the storage.
        matched = sum(mask.true_count for _, mask in enumerator.match_partitions())
        seconds = time.perf_counter() - started
    return Sample(seconds if of_time else peak_megabytes() - before, {"matched": matched})
