"""CPU time, which is the same on a machine that is busy with something else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path


def cpu_time_of(call: Callable[[], object]) -> float:
    """The seconds that ``call`` takes on the cores of this process and of all below it."""
    started = _cpu_seconds()
    call()
    return _cpu_seconds() - started


def cpu_seconds_of(process: int) -> float:
    """What one process has used so far, and those that it has waited for."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _cpu_seconds() -> float:
    ticks = _ticks_below(os.getpid(), _processes())
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _ticks_below(process: int, children: Mapping[int, Mapping[int, int]]) -> int:
    started = children.get(process, {})
    return sum(ticks + _ticks_below(child, children) for child, ticks in started.items())


def _processes() -> dict[int, dict[int, int]]:
    """By parent and process the ticks that it, and those below it that have ended, have used."""
    found: dict[int, dict[int, int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # the name, in parentheses, may hold anything
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.setdefault(int(fields[1]), {})[int(stat.parent.name)] = sum(map(int, fields[11:15]))
    return found
