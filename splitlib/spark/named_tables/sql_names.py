"""The names in the text of a query, told from strings and comments. In time linear in the text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_PART: Final = r"(?:`(?:[^`]|``)+`|\w+)"
# Strings without an end reach to that of the text: to try from each quote again would take long.
_TOKEN: Final = re.compile(
    r"""[rR]'[^']*'?|[rR]"[^"]*"?"""
    r"""|'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?"""
    r"""|--[^\n]*"""
    r"""|(?P<comment>/\*)"""
    rf"""|(?P<name>{_PART}(?:\s*\.\s*{_PART})*)""",
    re.DOTALL,
)
_COMMENT: Final = re.compile(r"/\*|\*/")
# What comes before the name of a table that a statement changes.
_CHANGES: Final = re.compile(
    r"\b(?:INTO|OVERWRITE|UPDATE|DELETE FROM|TRUNCATE|DROP|ALTER|(?<!SHOW )CREATE|REPLACE|REPAIR)"
    r"(?: EXTERNAL)?(?: TABLE| VIEW)?(?: IF)?(?: NOT)?(?: EXISTS)?$"
)
_WORDS_BEFORE: Final = 6
_LONGEST_WORD: Final = 10


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the text of a query."""

    text: str
    parts: tuple[str, ...] = ()
    """Of the name that it is; none of what is no name."""
    is_changed: bool = False
    """Whether it stands where the name of a table does that the statement changes."""


def pieces_of(query: str) -> Iterator[Piece]:
    """All of the text, in order."""
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
    """Where a comment ends; there may be comments in it."""
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
