"""Fuzz target: table names in the text of a query."""

from __future__ import annotations

from splitlib.spark.named_tables import pieces_of

TOKENS = tuple(rb"'|\'|`|``|/*|*/|--|.|lake.d.t|r'|R|INSERT INTO |DROP TABLE ".split(b"|"))


def seeds() -> list[bytes]:
    return [
        b"SELECT * FROM lake.d.t JOIN `lake`.d . `t``2` ON a = 'it''s' -- lake.d.t",
        rb"INSERT /* x /* y */ */ OVERWRITE lake.d.t SELECT r'\' || 'lake.d.t', R\"\\\" FROM s",
        b"DROP TABLE IF EXISTS lake\n.\nd.t; MERGE INTO lake.d.t USING s ON true",
        "SELECT `é`.`ü` FROM lake.d.\u00fc, \u0130x.y".encode(),
    ]


def run(data: bytes) -> bool:
    query = data.decode("utf-8", "replace")
    pieces = list(pieces_of(query))
    assert "".join(piece.text for piece in pieces) == query
    for piece in pieces:
        assert piece.text
        assert all(piece.parts)
        assert piece.parts or not piece.is_changed
    return any(piece.parts for piece in pieces)
