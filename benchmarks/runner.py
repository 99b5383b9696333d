"""Names of the benchmarks, and a function that runs one of them."""

from __future__ import annotations

import importlib
from pathlib import Path

from benchmarks.results import Result
from benchmarks.sizes import Sizes

NAMES = (
    "first_row",
    "many_keys",
    "slow_listing",
    "enumeration",
    "coordinator",
    "matching",
    "memory",
    "many_partitions",
    "pinning",
    "runtime_filter",
    "data_keys",
    "learned",
    "iceberg",
    "datasource",
)


def run_benchmark(name: str, sizes: Sizes, directory: Path) -> Result:
    """Run one benchmark in this process."""
    result: Result = importlib.import_module(f"benchmarks.{name}").run(sizes, directory)
    return result
