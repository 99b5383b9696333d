"""A chart of the time and of the bytes read by each query, in every mode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.tpcds.modes import MODES
from benchmarks.tpcds.pruning import QueryRuns
from benchmarks.tpcds.summary import Quantity, bytes_read, seconds, spread

_COLOURS = ("#d9d9d9", "#a6a6a6", "#6f6f6f", "#2a7f62", "#7cc4a8")
_WIDTH = 0.8 / len(MODES)


def draw(queries: Sequence[QueryRuns], path: Path) -> None:
    """Draw medians as bars and the range of runs as whiskers, on a logarithmic scale."""
    figure = Figure(figsize=(max(8, 0.55 * len(queries)), 10), layout="constrained")
    with mpl.rc_context({"font.size": 9}):
        cold, warm, read = figure.subplots(3, 1, sharex=True)
        _bars(cold, queries, "seconds, cold", seconds, warm=False)
        _bars(warm, queries, "seconds, warm", seconds, warm=True)
        _bars(read, queries, "bytes read", bytes_read, warm=False)
        cold.set_xlim(-0.6, len(queries) - 0.4)
        # Above the panel, since bars can be anywhere in it.
        cold.legend(ncols=len(MODES), loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
        read.set_xticks(range(len(queries)), [query.name for query in queries])
        figure.savefig(path)


def _bars(
    panel: Axes, queries: Sequence[QueryRuns], label: str, quantity: Quantity, *, warm: bool
) -> None:
    for i, (mode, colour) in enumerate(zip(MODES, _COLOURS, strict=True)):
        if warm and mode.once:
            continue
        spreads = [spread(query, mode, quantity, warm=warm) for query in queries]
        panel.bar(
            [at + (i - (len(MODES) - 1) / 2) * _WIDTH for at in range(len(queries))],
            [s.median for s in spreads],
            _WIDTH,
            yerr=[[s.median - s.low for s in spreads], [s.high - s.median for s in spreads]],
            color=colour,
            ecolor="#555555",
            label=mode.name,
        )
    panel.set_yscale("log")
    panel.set_ylabel(label)
    panel.spines[["top", "right"]].set_visible(False)
