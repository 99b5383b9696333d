"""Measure the peak memory of a process that lists and matches a very large table.

A fake metastore in another process sends the partition names. Each sample runs in a new process,
because the peak memory of a process cannot be reset.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.compute as pc

import splitlib
from benchmarks.measure import Contender, Sample, in_turns
from benchmarks.metastore_tables import DATABASE, raw_client
from benchmarks.names_server import STORES, names_server
from benchmarks.processes import in_fresh_process
from benchmarks.results import Comparison, Result, Target
from benchmarks.sizes import Sizes
from splitlib.filtering.predicate import Predicate

_IMPORTS = "imports alone"
_NAMES = "thrift's list of names alone"
_OURS = "splitlib, names listed and matched"
_TABLE = "made_up"


def run(sizes: Sizes, directory: Path) -> Result:
    del directory
    with names_server(sizes.listed) as uri:
        contenders = [
            Contender(_IMPORTS, lambda: in_fresh_process(_peak_of_imports)),
            Contender(_NAMES, lambda: in_fresh_process(_peak_of_names, uri)),
            Contender(_OURS, lambda: in_fresh_process(_peak_of_matching, uri, sizes.matching)),
        ]
        measured = in_turns("memory", contenders, sizes.repeat)
    title = f"{sizes.listed:,} partition names, {sizes.matching} needed"
    comparison = Comparison(title, "MB at the peak of the process", _IMPORTS, measured)
    target = Target(f"{_OURS}, MB", comparison[_OURS].median, 600)
    return Result("memory", [comparison], [target])


def _peak_of_imports() -> Sample:
    return Sample(peak_megabytes())


def _peak_of_names(uri: str) -> Sample:
    with raw_client(uri) as client:
        names = client.get_partition_names(DATABASE, _TABLE, -1)
    return Sample(peak_megabytes(), {"names": len(names)})


def _peak_of_matching(uri: str, matching: int) -> Sample:
    stores = [f"store_{i:06}" for i in range(min(matching, STORES))]
    data = splitlib.DynamicFilteringData.from_values(
        {"day": [2_450_000] * len(stores), "store": stores}
    )
    total = matched = 0
    with splitlib.load_table(f"{DATABASE}.{_TABLE}", "hive", uri=uri) as table:
        predicate = Predicate(table.metadata.partition_schema, [data])
        for batch in table.list_partitions(predicate):
            total += len(batch)
            matched += pc.sum(predicate.match(batch.values)).as_py()
    return Sample(peak_megabytes(), {"names": total, "matched": matched})


def peak_megabytes() -> float:
    """Return the peak memory of this process since its start, in megabytes.

    The value is ``VmHWM`` of Linux. ``ru_maxrss`` is not used, because it starts with the peak of
    the parent process.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError("the kernel keeps no VmHWM of this process")
    return int(found[1]) / 1000
