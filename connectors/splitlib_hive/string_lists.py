"""A list of strings in an answer of thrift, read into Arrow without a Python object for each.

In the binary protocol each string comes after its length, so that where one begins is known only
from the one before. But nearly all lengths begin with two zero bytes, and text has none: so where
strings begin is guessed of many at once, and then checked from the first to the last.
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

# A field that is a list: its type and number, the type of the elements, and how many there are.
_LIST: Final = struct.Struct(">bhbi")
_LENGTH: Final = 4
# Of one string: more than the offsets of Arrow's arrays reach would be too much anyway.
_MOST_BYTES: Final = 2**30


def read_strings(transport: Any) -> pa.BinaryArray | None:
    """The list of strings with which an answer begins, as the bytes that they are encoded in.

    Args:
        transport: Thrift's, with a buffer that its decoders in C can read
            (``CReadableTransport``). It stands behind the list then, at the answer's next field.

    Returns:
        None if the answer begins with something else, such as an error; then nothing is read.

    Raises:
        TProtocolException: for a length that no string has.
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
    """All that has come and is not read yet, at least so many bytes; still to be read."""
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
    """Where the strings begin, with their lengths, that are there as a whole; then their end.

    Args:
        data: From the beginning of a string on, with its length, at least to its end.
        count: How many are looked for at most.
    """
    guessed = _guess(data)
    found = guessed if guessed is not None else _one_by_one(data, count)
    if found[-1] > len(data):  # the last string is still to come, or a part of it
        found = found[:-1]
    return found[: count + 1]


def _guess(data: bytes) -> npt.NDArray[np.int64] | None:
    """Where strings begin, and the last of them ends, perhaps behind the data; None = not known."""
    raw = np.frombuffer(data, np.uint8)
    zero = raw == 0
    begins = np.flatnonzero(zero[1:-1] & zero[2:] & ~zero[:-2]) + 1
    begins = np.concatenate([[0], begins[begins <= len(raw) - _LENGTH]])
    # what is taken for a length has to be one, and to lead to the next
    lengths = (raw[begins + 2].astype(np.int64) << 8) | raw[begins + 3]
    ends = begins + _LENGTH + lengths
    if not (zero[0] and zero[1] and np.array_equal(ends[:-1], begins[1:])):
        return None
    return np.append(begins, ends[-1])


def _one_by_one(data: bytes, count: int) -> npt.NDArray[np.int64]:
    """What :func:`_guess` finds, for whatever bytes; up to a length that is none."""
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
