"""Valid UTF-8 texts around bytes that may be invalid. Spark's strings can be any bytes.

Texts are compared by their bytes. For valid texts, this is the order of their characters.
"""

from __future__ import annotations

import pyarrow as pa


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
