"""Decode untrusted 64-bit roaring bitmaps in their portable format.

A bitmap consists of containers, each with numbers that share their upper 48 bits. A few bytes may
claim to contain billions of numbers. So the claimed sizes are added up before any number is
decoded, and each container must have exactly its claimed size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

_COUNT: Final = struct.Struct("<Q")
_KEY = _COOKIE = _SIZE = struct.Struct("<I")
_RUNS: Final = struct.Struct("<H")
_WITH_RUNS, _WITHOUT_RUNS = 12347, 12346
# Bitmaps with runs have a table of offsets only if they have at least this many containers.
_OFFSETS_FROM: Final = 4
_MAX_CONTAINERS: Final = 1 << 16
# A container with more numbers is stored as a bitmap of 65,536 bits.
_MAX_ARRAY: Final = 4096
_BITMAP_BYTES: Final = 8192
# Maximum number of values in a bitmap, and the lower maximum if the expected number is unknown. Few
# bytes can encode a run of 65,536 numbers, and each number takes eight bytes in memory.
_MOST: Final = 1 << 27
_MOST_UNKNOWN: Final = 1 << 23


class _Container(NamedTuple):
    """Numbers that share their upper 48 bits."""

    high: int
    """The upper 48 bits."""
    size: int
    """Number of values."""
    kind: str
    """Encoding of the lower 16 bits: ``array``, ``bitmap`` or ``runs``."""
    data: bytes


def numbers_of(data: bytes, expected: int | None) -> Integers:
    """Return the numbers in a bitmap, ascending.

    Args:
        data: Exactly the bytes of the bitmap.
        expected: Expected number of values; None if unknown.

    Raises:
        ValueError: if the bytes are not a valid bitmap, or do not have the expected number of
            values.
    """
    containers = list(_containers(_Bytes(data)))
    total = sum(container.size for container in containers)
    if expected is not None and total != expected:
        raise ValueError(f"The bitmap holds {total} numbers, not {expected}.")
    most = _MOST_UNKNOWN if expected is None else _MOST
    if total > most:
        raise ValueError(f"The bitmap holds {total} numbers, more than the limit of {most}.")
    _check_ascending(np.array([container.high for container in containers], np.int64))
    found = np.empty(total, np.int64)
    start = 0
    for container in containers:
        found[start : start + container.size] = _unpack(container)
        found[start : start + container.size] += container.high << 16
        start += container.size
    return found


class _Bytes:
    """Reads bytes from start to end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        start, end = self._position, self._position + size
        if end > len(self._data):
            raise ValueError("The bitmap is truncated.")
        self._position = end
        return self._data[start:end]

    def number(self, form: struct.Struct) -> int:
        (found,) = form.unpack(self.take(form.size))
        return int(found)

    def check_end(self) -> None:
        if self._position != len(self._data):
            raise ValueError("Extra bytes follow the bitmap.")


def _containers(data: _Bytes) -> Iterator[_Container]:
    for _ in range(data.number(_COUNT)):
        key = data.number(_KEY)
        if key >= 1 << 31:
            raise ValueError("A number in the bitmap has more than 63 bits.")
        yield from _of_one_key(data, key)
    data.check_end()


def _of_one_key(data: _Bytes, key: int) -> Iterator[_Container]:
    cookie = data.number(_COOKIE)
    runs: Any = ()
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.frombuffer(data.take((count + 7) // 8), np.uint8)
        runs = np.unpackbits(flags, bitorder="little")[:count]
    elif cookie == _WITHOUT_RUNS:
        count = data.number(_SIZE)
    else:
        raise ValueError("It is not a roaring bitmap.")
    if count > _MAX_CONTAINERS:
        raise ValueError(f"The bitmap cannot have {count} containers.")
    header = np.frombuffer(data.take(4 * count), "<u2").astype(np.int64).reshape(-1, 2)
    if not len(runs) or count >= _OFFSETS_FROM:
        data.take(4 * count)  # skipped: containers follow one another
    for i, (high, less_one) in enumerate(header.tolist()):
        size, kind = less_one + 1, "array"
        if len(runs) and runs[i]:
            kind, length = "runs", 4 * data.number(_RUNS)
        elif size > _MAX_ARRAY:
            kind, length = "bitmap", _BITMAP_BYTES
        else:
            length = 2 * size
        yield _Container(key << 16 | high, size, kind, data.take(length))


def _unpack(container: _Container) -> Integers:
    """Return the lower 16 bits of the container's numbers."""
    if container.kind == "bitmap":
        bits = np.unpackbits(np.frombuffer(container.data, np.uint8), bitorder="little")
        found = np.flatnonzero(bits).astype(np.int64)
    else:
        found = np.frombuffer(container.data, "<u2").astype(np.int64)
    if container.kind == "runs":
        start, length = found[::2], found[1::2] + 1
        if length.sum() != container.size:
            raise ValueError("A container does not have its claimed size.")
        before = np.cumsum(length) - length
        found = np.repeat(start - before, length) + np.arange(container.size)
    if len(found) != container.size or found[-1] > 0xFFFF:
        raise ValueError("A container does not have its claimed size.")
    _check_ascending(found)
    return found


def _check_ascending(numbers: Integers) -> None:
    if np.any(np.diff(numbers) <= 0):
        raise ValueError("The bitmap's numbers are not in order.")
