"""Random changes to bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

_LIES = (-1, 0, 1, 5, 1000, 2**31, 2**40, 2**62, -(2**63))
_MOST_BYTES = 9


def mutated(
    data: bytes, others: Sequence[bytes], tokens: Sequence[bytes], source: random.Random
) -> bytes:
    """Return ``data`` with random changes, such as other bits, cuts or pieces of other inputs."""
    changed = bytearray(data)
    for _ in range(source.choice([1, 1, 1, 2, 4, 8])):
        _change(changed, others, tokens, source)
    return bytes(changed)


def _change(
    changed: bytearray, others: Sequence[bytes], tokens: Sequence[bytes], source: random.Random
) -> None:
    at = source.randrange(len(changed) + 1)
    size = source.randrange(1, _MOST_BYTES)
    match source.randrange(10):
        case 0 | 1 if at < len(changed):
            changed[at] = source.choice([0, 10, 127, 128, 255, source.randrange(256)])
        case 2 if at < len(changed):
            changed[at] ^= 1 << source.randrange(8)
        case 3:
            del changed[at : at + source.choice([size, size, len(changed)])]
        case 4:
            changed[at:at] = source.randbytes(size)
        case 5:
            changed[at : at + size] = source.choice([b"\xff", b"\x00", b"\x80"]) * size
        case 6:  # write an extreme integer, aligned to 8 bytes as in most formats
            start = at // 8 * 8
            changed[start : start + 8] = struct.pack("<q", source.choice(_LIES))
        case 7:
            changed[at:at] = _piece_of(bytes(changed), source)
        case 8 if others:
            changed[at : at + source.choice([0, size])] = _piece_of(source.choice(others), source)
        case 9 if tokens:
            changed[at : at + source.choice([0, size])] = source.choice(tokens)


def _piece_of(data: bytes, source: random.Random) -> bytes:
    start = source.randrange(len(data) + 1)
    return data[start : start + source.choice([1, 4, 16, 64, len(data)])]
