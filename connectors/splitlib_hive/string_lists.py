"""Read a list of strings in a Thrift response into Arrow, without a Python object per string.

In the binary protocol, the length of a string precedes its text. So the strings would have to be
read one after the other, because each start depends on the previous length. But nearly all lengths
begin with two zero bytes, which text does not contain. So this module guesses the starts of many
strings at once. Then it verifies the guess: each length must lead to the next start.
"""

from __future__ import annotations

import io
import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TType

# Header of a list field: field type, field number, element type, number of elements.
_LIST: Final = struct.Struct(">bhbi")
_LENGTH: Final = 4
# Maximum length of one string in bytes. Arrow's 32-bit offsets allow at most twice this length.
_MOST_BYTES: Final = 2**30


def read_strings(transport: Any) -> pa.BinaryArray | None:
    """Read the list of strings at the start of a response, as undecoded bytes.

    Args:
        transport: Thrift transport that Thrift's C decoders can read (``CReadableTransport``).
            After the call, its position is at the next field.

    Returns:
        The strings. If the response starts with anything else, such as an error, the result is
        None, and no bytes are consumed.

    Raises:
        TProtocolException: for an invalid length.
    """
    if _ahead(transport, 1)[0] != TType.LIST:
        return None
    kind, number, of, count = _LIST.unpack_from(_ahead(transport, _LIST.size))
    if (kind, number, of) != (TType.LIST, 0, TType.STRING) or count < 0:
        return None
    _skip(transport, _LIST.size)
    pieces = [pa.array([], pa.binary())]
    while count:
        length = _checked(_length(_ahead(transport, _LENGTH), 0))
        data = _ahead(transport, _LENGTH + length)
        offsets = _offsets(data, count)
        pieces.append(_without_lengths(data, offsets))
        count -= len(offsets) - 1
        _skip(transport, int(offsets[-1]))
    return pa.concat_arrays(pieces)


def _ahead(transport: Any, size: int) -> bytes:
    """Wait for ``size`` bytes, and return all buffered bytes without consuming them."""
    buffer = transport.cstringio_buf
    data: bytes = buffer.getvalue()[buffer.tell() :]
    if len(data) >= size:
        return data
    return bytes(transport.cstringio_refill(data, size).getvalue())


def _skip(transport: Any, size: int) -> None:
    transport.cstringio_buf.seek(size, io.SEEK_CUR)


def _length(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + _LENGTH], "big", signed=True)


def _checked(length: int) -> int:
    if length < 0:
        raise TProtocolException(TProtocolException.NEGATIVE_SIZE, f"a string of {length} bytes")
    if length > _MOST_BYTES:
        raise TProtocolException(TProtocolException.SIZE_LIMIT, f"a string of {length:,} bytes")
    return length


def _offsets(data: bytes, count: int) -> npt.NDArray[np.int64]:
    """Return the offset of each complete string's length field, and the last string's end.

    Args:
        data: Bytes that start with a string's length. They contain at least this whole string.
        count: Maximum number of strings.
    """
    guessed = _guess(data)
    found = guessed if guessed is not None else _one_by_one(data, count)
    if found[-1] > len(data):  # leave out the last string, which has not arrived completely
        found = found[:-1]
    return found[: count + 1]


def _guess(data: bytes) -> npt.NDArray[np.int64] | None:
    """Guess the offsets of all strings and the end of the last one, which may lie beyond ``data``.

    Return None if the guess is wrong.
    """
    raw = np.frombuffer(data, np.uint8)
    zero = raw == 0
    begins = np.flatnonzero(zero[1:-1] & zero[2:] & ~zero[:-2]) + 1
    begins = np.concatenate([[0], begins[begins <= len(raw) - _LENGTH]])
    # Verify the guess: each length must lead to the next one.
    lengths = (raw[begins + 2].astype(np.int64) << 8) | raw[begins + 3]
    ends = begins + _LENGTH + lengths
    if not (zero[0] and zero[1] and np.array_equal(ends[:-1], begins[1:])):
        return None
    return np.append(begins, ends[-1])


def _one_by_one(data: bytes, count: int) -> npt.NDArray[np.int64]:
    """Find the offsets of strings by reading each length, up to the first invalid length."""
    found = [0]
    while len(found) <= count and found[-1] + _LENGTH <= len(data):
        length = _length(data, found[-1])
        if not 0 <= length <= len(data):
            break
        found.append(found[-1] + _LENGTH + length)
    return np.array(found)


def _without_lengths(data: bytes, offsets: npt.NDArray[np.int64]) -> pa.BinaryArray:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    whole = pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    return pc.binary_replace_slice(whole, 0, _LENGTH, b"")
