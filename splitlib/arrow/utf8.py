"""Texts as bytes: valid UTF-8 around bytes that may be invalid, and fast search in Arrow arrays.

Spark's strings can be any bytes. Texts are compared by their bytes. For valid texts, this is the
order of their characters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Number of bytes compared at a time, small enough for the processor's cache.
_BLOCK: Final = 1 << 18


def at_most(text: bytes) -> str:
    """Return the longest valid text that ``text`` starts with. It is not greater than ``text``."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        return text[: error.start].decode()


def at_least(text: bytes) -> str | None:
    """Return ``text`` if it is valid, otherwise a greater valid text, or None if there is none."""
    valid = at_most(text)
    return valid if len(valid.encode()) == len(text) else after(valid)


def after(text: str) -> str | None:
    """Return a text greater than all bytes that start with ``text``, or None."""
    for end in range(len(text), 0, -1):
        code = ord(text[end - 1])
        if code < 0x10FFFF:
            following = 0xE000 if code == 0xD7FF else code + 1  # skip surrogates
            return text[: end - 1] + chr(following)
    return None


def valid_ends(low: pa.Scalar, high: pa.Scalar) -> tuple[pa.Scalar, pa.Scalar]:
    """Widen a range of texts, if necessary, to ends that are valid UTF-8.

    A null end means that the range has no limit there.
    """
    lower = at_most(low.as_buffer().to_pybytes()) if low.is_valid else None
    upper = at_least(high.as_buffer().to_pybytes()) if high.is_valid else None
    return pa.scalar(lower, low.type), pa.scalar(upper, high.type)


def are_valid(texts: pa.Array) -> pa.BooleanArray:
    """Return a mask of the texts that are valid UTF-8. Null is valid."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([text.equals(valid_ends(text, text)[1]) for text in texts], pa.bool_())
    return pa.repeat(True, len(texts))


def contains_any(texts: pa.StringArray, characters: bytes) -> bool:
    """Return whether any text contains one of the ASCII characters in ``characters``."""
    return any(
        (block == character).any() for _, block in _blocks(texts) for character in characters
    )


def find_all(texts: pa.StringArray, character: bytes) -> npt.NDArray[np.int64]:
    """Return the byte positions of an ASCII character in the array's data buffer."""
    [code] = character
    found = [np.flatnonzero(block == code) + start for start, block in _blocks(texts)]
    return np.concatenate([np.empty(0, np.int64), *found])


def bounds(texts: pa.StringArray) -> npt.NDArray[np.int32]:
    """Return each text's byte offset in the array's data buffer, and the end of the last text."""
    offsets = texts.buffers()[1]
    if not len(texts) or offsets is None:
        return np.zeros(1, np.int32)
    return np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1]


def between(
    texts: pa.StringArray, begins: npt.NDArray[np.integer], ends: npt.NDArray[np.integer]
) -> pa.StringArray:
    """Return an array of substrings of the data buffer of ``texts``.

    Args:
        texts: Texts without nulls.
        begins: Byte offset of each substring in the buffer, as in :func:`bounds`; ascending.
        ends: Byte offset of each substring's end, at or before the start of the next substring.
    """
    if not len(begins):
        return pa.array([], pa.string())
    # An Arrow text array has no gaps in its buffer. So build an array that also contains the text
    # between the substrings, and then take every second element.
    offsets = np.empty(2 * len(begins), np.int32)
    offsets[::2] = begins
    offsets[1::2] = ends
    buffers = pa.py_buffer(offsets), texts.buffers()[2] or pa.py_buffer(b"")
    alternating = pa.StringArray.from_buffers(len(offsets) - 1, *buffers)
    return alternating.take(pa.array(np.arange(0, len(offsets), 2, dtype=np.int32)))


def _blocks(texts: pa.StringArray) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
    places, characters = bounds(texts), texts.buffers()[2]
    if characters is None:
        return
    raw = np.frombuffer(characters, np.uint8)
    for start in range(int(places[0]), int(places[-1]), _BLOCK):
        yield start, raw[start : min(start + _BLOCK, int(places[-1]))]
