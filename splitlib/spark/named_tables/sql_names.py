"""Find the names in the text of a query, outside of strings and comments, in linear time."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_PART: Final = r"(?:`(?:[^`]|``)+`|\w+)"
# A string without an end extends to the end of the text, so that the search stays linear.
_TOKEN: Final = re.compile(
    r"""[rR]'[^']*'?|[rR]"[^"]*"?"""
    r"""|'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?"""
    r"""|--[^\n]*"""
    r"""|(?P<comment>/\*)"""
    rf"""|(?P<name>{_PART}(?:\s*\.\s*{_PART})*)""",
    re.DOTALL,
)
_COMMENT: Final = re.compile(r"/\*|\*/")
# Keywords before the name of a table that a statement changes.
_CHANGES: Final = re.compile(
    r"\b(?:INTO|OVERWRITE|UPDATE|DELETE FROM|TRUNCATE|DROP|ALTER|(?<!SHOW )CREATE|REPLACE|REPAIR)"
    r"(?: EXTERNAL)?(?: TABLE| VIEW)?(?: IF)?(?: NOT)?(?: EXISTS)?$"
)
_WORDS_BEFORE: Final = 6
_LONGEST_WORD: Final = 10


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text of a query: a name, or text without names."""

    text: str
    """The text of this part."""
    parts: tuple[str, ...] = ()
    """Parts of the name; empty if the text is not a name."""
    is_changed: bool = False
    """Whether the name is at the position of the table that a statement changes."""


def pieces_of(query: str) -> Iterator[Piece]:
    """Yield all parts of the text, in order."""
    words: deque[str] = deque(maxlen=_WORDS_BEFORE)
    start = 0
    while token := _TOKEN.search(query, start):
        if start < token.start():
            yield Piece(query[start : token.start()])
        start = _end_of_comment(query, token.end()) if token["comment"] else token.end()
        text = query[token.start() : start]
        if not token["name"]:
            yield Piece(text)
            continue
        yield Piece(text, _parts(text), _CHANGES.search(" ".join(words)) is not None)
        words.append(text[:_LONGEST_WORD].upper())
    if start < len(query):
        yield Piece(query[start:])


def _end_of_comment(query: str, start: int) -> int:
    """Return the position after a comment, which may contain nested comments."""
    depth = 1
    for edge in _COMMENT.finditer(query, start):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    return len(query)


def _parts(name: str) -> tuple[str, ...]:
    return tuple(
        part[1:-1].replace("``", "`") if part.startswith("`") else part
        for part in re.findall(_PART, name)
    )
