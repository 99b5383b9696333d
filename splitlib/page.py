"""Format reports, tables and audits as HTML, for notebooks and as standalone pages.

The HTML loads no external resources, and all text in it is escaped. Text inherits the color of the
surrounding page, so it is legible in light and dark notebooks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_MOST_ROWS: Final = 500
_LONGEST: Final = 2000
_STYLE: Final = (
    ".splitlib{font:13px/1.5 system-ui,sans-serif;overflow-wrap:anywhere;text-align:left}"
    ".splitlib section{margin:.8em 0}"
    ".splitlib section section{border-left:3px solid #8888;padding-left:.8em}"
    ".splitlib b{font-size:1.1em}"
    ".splitlib .two{display:flex;flex-wrap:wrap;gap:0 2em}"
    ".splitlib .two>*{flex:1 1 22em;min-width:0}"
    ".splitlib p,.splitlib ul{margin:.3em 0}.splitlib ul{padding-left:1.2em}"
    ".splitlib .bar{display:flex;height:14px;border:1px solid #8888;border-radius:3px;"
    "overflow:hidden}"
    ".splitlib i{display:inline-block;background:#8883;min-width:0}"
    ".splitlib i.read{background:#1f8a5f}"
    ".splitlib .bar i.read{min-width:2px}.splitlib .key i{width:.8em;height:.8em;margin:0 .4em 0 0;"
    "border:1px solid #8888}"
    ".splitlib .key span{margin-right:1em}"
    ".splitlib .ends{display:flex;justify-content:space-between;gap:1em;font-size:.9em;opacity:.8}"
    ".splitlib .names span{display:inline-block;max-width:100%;margin-right:.8em}"
    ".splitlib table{border-collapse:collapse}"
    ".splitlib td,.splitlib th{border-bottom:1px solid #8886;padding:.2em .6em;text-align:left;"
    "vertical-align:top;white-space:normal}"
    ".splitlib th{overflow-wrap:normal}"
    # In a small window, four columns would be too narrow, so a row has one cell per line.
    "@media(max-width:40em){.splitlib tr:has(:nth-child(4)){display:block;padding:.3em 0;"
    "border-bottom:1px solid #8886}.splitlib tr:has(:nth-child(4)) td{display:block;border:0}"
    ".splitlib tr:has(:nth-child(4)) td:empty{display:none}"
    ".splitlib tr:has(:nth-child(4)) th{display:inline-block;border:0}}"
)
_KEY: Final = '<p class="key"><span><i class="read"></i>read</span><span><i></i>not read</span></p>'
_BAR: Final = '<div class="bar" role="img"'
_PAGE: Final = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width">'
    '<meta name="color-scheme" content="light dark"><title>{title}</title>'
    "<style>body{{margin:1em auto;max-width:64em;padding:0 1em}}</style></head>"
    "<body>{body}</body></html>"
)


def text(value: str) -> str:
    """Escape ``value`` for HTML. Very long text is truncated."""
    from html import escape  # Imported here because most programs do not need it.

    return escape(value if len(value) <= _LONGEST else f"{value[:_LONGEST]} …")


def widget(*parts: str) -> str:
    """Wrap HTML parts in one element with a stylesheet. Add a legend if a part contains a bar."""
    body = "".join(parts)
    key = _KEY if _BAR in body else ""
    return f'<div class="splitlib"><style>{_STYLE}</style>{body}{key}</div>'


def document(title: str, body: str) -> str:
    """Return a standalone HTML page. It is light or dark, following the browser's setting."""
    return _PAGE.format(title=text(title), body=body)


def section(title: str, *parts: str) -> str:
    """Return an HTML section that contains the parts below a title."""
    return f"<section><b>{text(title)}</b>{''.join(parts)}</section>"


def items(lines: Iterable[str]) -> str:
    """Return lines of text as an HTML list, or an empty string if there are no lines."""
    found = "".join(f"<li>{text(line)}</li>" for line in lines)
    return f"<ul>{found}</ul>" if found else ""


def paragraphs(lines: Iterable[str]) -> str:
    """Return lines of text as HTML paragraphs."""
    return "".join(f"<p>{text(line)}</p>" for line in lines)


def bar(label: str, parts: Iterable[tuple[int, bool, str]]) -> str:
    """Return a bar as HTML. Each part is a tuple of width, flag (is read) and tooltip text."""
    cells = "".join(
        f'<i{" class=read" if is_read else ""} style="flex:{width}" title="{text(shown)}"></i>'
        for width, is_read, shown in parts
        if width
    )
    return f'{_BAR} aria-label="{text(label)}">{cells}</div>'


def ends(first: str, last: str) -> str:
    """Return the labels for the two ends of a bar, as HTML."""
    return f'<div class="ends"><span>{text(first)}</span><span>{text(last)}</span></div>'


def names(some: Iterable[str]) -> str:
    """Return names as HTML. Lines break between names, or inside a name longer than a line."""
    return f'<p class="names">{" ".join(f"<span>{text(name)}</span>" for name in some)}</p>'


def beside(left: str, right: str) -> str:
    """Return two HTML parts side by side, or one below the other on narrow screens."""
    halves = "".join(f"<div>{half}</div>" for half in (left, right) if half)
    return f'<div class="two">{halves}</div>' if halves else ""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table of the first 500 rows, and the number of omitted rows below it."""
    names = "".join(f"<th>{text(name)}</th>" for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows[:_MOST_ROWS]
    ).replace("\n", "<br>")
    more = len(rows) - _MOST_ROWS
    others = f"<p>and {more:,} more</p>" if more > 0 else ""
    return f"<table><tr>{names}</tr>{body}</table>{others}"
