"""CPU time of processes, which other load on the machine hardly changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path


def cpu_time_of(call: Callable[[], object]) -> float:
    """Return the CPU seconds that a call uses in this process and its descendants."""
    started = _cpu_seconds()
    call()
    return _cpu_seconds() - started


def cpu_seconds_of(process: int) -> float:
    """Return the CPU seconds used by a process and by its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _cpu_seconds() -> float:
    ticks = _ticks_below(os.getpid(), _processes())
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _ticks_below(process: int, children: Mapping[int, Mapping[int, int]]) -> int:
    started = children.get(process, {})
    return sum(ticks + _ticks_below(child, children) for child, ticks in started.items())


def _processes() -> dict[int, dict[int, int]]:
    """Return the CPU ticks of each process, grouped by parent process.

    The ticks include children that have ended.
    """
    found: dict[int, dict[int, int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The process name in parentheses may contain spaces and parentheses.
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.setdefault(int(fields[1]), {})[int(stat.parent.name)] = sum(map(int, fields[11:15]))
    return found
