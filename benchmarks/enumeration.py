"""Compare splitlib's enumeration of a large table with the calls that it cannot do without.

These calls load all partition names, load the matching partitions by name, and list each matching
directory. They use the same protocol and filesystem as splitlib.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec

import splitlib
from benchmarks.measure import Contender, Measured, Sample, in_turns, timed
from benchmarks.metastore_tables import DATABASE, create_table, open_metastore, raw_client
from benchmarks.results import Comparison, Result, Target
from benchmarks.sizes import Sizes
from benchmarks.star import spread

_OURS = "splitlib, enumerate_splits()"
_PARTS = ("all partition names", "matching partitions by name", "their listings")
_SUM = "sum of these"


def run(sizes: Sizes, directory: Path) -> Result:
    name = f"wide_{sizes.enumerated}"
    days = list(range(sizes.enumerated))
    matching = spread(days, sizes.matching)
    location = directory / name
    for day in matching:
        partition = location / f"day={day}"
        partition.mkdir(parents=True, exist_ok=True)
        (partition / "part-00000.parquet").write_bytes(b"never opened here")
    with open_metastore(directory) as metastore:
        keys = [("day", "int")]
        create_table(metastore, name, location, [("x", "int")], keys, [str(day) for day in days])
        with (
            splitlib.load_table(f"{DATABASE}.{name}", "hive", uri=metastore.uri) as table,
            raw_client(metastore.uri) as client,
        ):
            contenders = _contenders(table, client, name, location, matching)
            in_turns("warming up", contenders, sizes.warm_up)
            measured = in_turns("enumeration", contenders, sizes.repeat)
    measured.append(_sum_of(measured[1:]))
    comparison = Comparison(
        f"{sizes.enumerated:,} partitions, {len(matching)} needed", "seconds", _SUM, measured
    )
    ratio = comparison[_OURS].median / comparison[_SUM].median
    return Result("enumeration", [comparison], [Target(f"{_OURS} / {_SUM}", ratio, 1.5)])


def _contenders(
    table: splitlib.Table, client: Any, name: str, location: Path, matching: list[int]
) -> list[Contender]:
    data = splitlib.DynamicFilteringData.from_values({"day": matching})
    names = [f"day={day}" for day in matching]
    fs = fsspec.filesystem("file", use_listings_cache=False)

    def enumerate_splits() -> None:
        enumerator = splitlib.DynamicFileEnumerator(table)
        enumerator.set_dynamic_filtering_data(data)
        splits = list(enumerator.enumerate_splits())
        if len(splits) != len(matching):
            raise RuntimeError(f"{len(splits)} splits, {len(matching)} expected")

    calls: list[Callable[[], object]] = [
        enumerate_splits,
        lambda: client.get_partition_names(DATABASE, name, -1),
        lambda: client.get_partitions_by_names(DATABASE, name, names),
        lambda: [fs.ls(f"{location}/{partition}", detail=True) for partition in names],
    ]
    return [
        Contender(what, _timing(call)) for what, call in zip((_OURS, *_PARTS), calls, strict=True)
    ]


def _timing(call: Callable[[], object]) -> Callable[[], Sample]:
    return lambda: timed(call)


def _sum_of(parts: list[Measured]) -> Measured:
    """Add up the values of several contenders in each round."""
    rounds = zip(*(part.samples for part in parts), strict=True)
    return Measured(_SUM, {}, tuple(sum(values) for values in rounds), {}, None)
