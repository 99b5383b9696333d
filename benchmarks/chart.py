"""A chart with one panel for each comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.results import Comparison, Result

_OURS, _PEER = "#2a7f62", "#b8b8b8"
_COLUMNS = 2
# Above this ratio, the shortest bar would be invisible on a linear scale.
_LOG_FROM = 20


def draw(results: Sequence[Result], path: Path) -> None:
    """Draw each comparison as a panel: bars for medians, whiskers from minimum to maximum."""
    comparisons = [(result.name, one) for result in results for one in result.comparisons]
    rows = -(-len(comparisons) // _COLUMNS)
    most = max(len(comparison.contenders) for _, comparison in comparisons)
    figure = Figure(figsize=(9 * _COLUMNS, rows * (1.4 + 0.42 * most)), layout="constrained")
    panels = list(figure.subplots(rows, _COLUMNS, squeeze=False).flat)
    with mpl.rc_context({"font.size": 10}):
        for panel, (name, comparison) in zip(panels, comparisons, strict=False):
            _draw_panel(panel, name, comparison)
        for panel in panels[len(comparisons) :]:
            panel.set_axis_off()
    figure.savefig(path, dpi=110)


def _draw_panel(panel: Axes, name: str, comparison: Comparison) -> None:
    shown = [measured for measured in comparison.contenders if measured.samples]
    medians = [measured.median for measured in shown]
    below = [measured.median - min(measured.samples) for measured in shown]
    above = [max(measured.samples) - measured.median for measured in shown]
    bars = panel.barh(
        [measured.name for measured in shown],
        medians,
        xerr=[below, above],
        color=[_OURS if measured.name.startswith("splitlib") else _PEER for measured in shown],
        ecolor="#555555",
        capsize=3,
    )
    unit = comparison.unit
    if max(medians) > _LOG_FROM * min(medians):
        panel.set_xscale("log")
        unit += ", log scale"
    ends = [max(measured.samples) for measured in shown]
    for bar, end, median in zip(bars, ends, medians, strict=True):
        panel.annotate(
            f"{median:.3g}",
            (end, bar.get_y() + bar.get_height() / 2),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
        )
    for measured in comparison.contenders:
        if not measured.samples:
            panel.barh([f"{measured.name} (failed)"], [0])
    panel.invert_yaxis()  # the first contender on top
    panel.margins(x=0.12)
    panel.set_xlabel(unit)
    panel.set_title(f"{name}: {comparison.title}", loc="left")
    panel.spines[["top", "right"]].set_visible(False)
