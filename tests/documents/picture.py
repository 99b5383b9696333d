"""Pictures of the documentation, as SVG that is legible on light and dark pages."""

from __future__ import annotations

from html import escape
from typing import Final

_STYLE: Final = (
    "text{font:14px sans-serif;fill:#7a8290}.b{font-weight:bold}.on{fill:#fff}"
    ".box{fill:#3f51b5;rx:6}.spark{fill:#b3541e;rx:6}.kept{fill:#2a9d6f}.cut{fill:#9aa0a6;opacity:.35}"
    "path{stroke:#7a8290;stroke-width:2;fill:none}"
)
_STEPS: Final = (
    ("spark", "Filter the dimension", "Spark computes the join keys:", "30 days"),
    ("box", "Request partition names", "the catalog returns names only:", "10,000 names"),
    ("box", "Compare", "names and keys, in memory:", "30 partitions match"),
    ("box", "Fetch and list these", "details and files of the matches:", "60 files"),
    (
        "spark",
        "Scan exactly these files",
        "Spark's own reader, without",
        "a catalog call or listing",
    ),
)


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    css = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle"{css}>{escape(text)}</text>'


def _svg(width: int, height: int, title: str, parts: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title><style>{_STYLE}</style>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def flow_picture() -> str:
    """Return the flow of a pruned query: from the dimension's keys to Spark's scan."""
    step, wide = 220, 196
    parts = []
    for number, (kind, title, first, second) in enumerate(_STEPS):
        left = 12 + number * step
        middle = left + wide / 2
        parts.append(f'<rect class="{kind}" x="{left}" y="20" width="{wide}" height="44" rx="6"/>')
        parts.append(_text(middle, 47, title, "b on"))
        parts.append(_text(middle, 90, first))
        parts.append(_text(middle, 110, second, "b"))
        if number:
            arrow = left - (step - wide)
            parts.append(f'<path d="M{arrow} 42h{step - wide - 4}m-7 -6l7 6l-7 6"/>')
    width = 12 + len(_STEPS) * step
    return _svg(width, 130, "Flow of a pruned query: keys, names, match, list, scan", parts)


def scan_picture() -> str:
    """Return the parts of a table that a pruned scan reads: partitions, files, row groups."""
    rows = (
        ("partitions of the table, by the keys of partition columns", 40, {11, 12, 31}),
        ("files of these partitions, by bounds in the catalog or in footers", 18, {2, 3, 9, 14}),
        ("row groups of these files, by keys of data columns", 24, {3, 4, 9, 15, 16}),
    )
    parts = []
    for number, (label, cells, kept) in enumerate(rows):
        top = 26 + number * 66
        parts.append(_text(400, top, label))
        wide = 776 / cells
        for cell in range(cells):
            kind = "kept" if cell in kept else "cut"
            place = f'x="{12 + cell * wide:.1f}" y="{top + 10}" width="{wide - 2:.1f}" height="22"'
            parts.append(f'<rect class="{kind}" {place}/>')
    return _svg(800, 220, "Parts of a table that a pruned scan reads (green)", parts)
