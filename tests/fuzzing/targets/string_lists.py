"""Fuzz target: lists of strings in thrift responses, compared with thrift's own decoder."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from typing import Any

from hmsclient.genthrift.hive_metastore.ThriftHiveMetastore import get_partition_names_result
from hmsclient.genthrift.hive_metastore.ttypes import MetaException
from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolAccelerated
from thrift.transport.TTransport import TBufferedTransport, TMemoryBuffer, TTransportBase

from splitlib_hive.string_lists import read_strings

TOKENS = (b"\0\0\0\0", b"\0\0\0\1", b"\0\0\1\0", b"\0\1\0\0", b"\xff\xff\xff\xff", b"\x0b\0\1")


def seeds() -> list[bytes]:
    written = TMemoryBuffer()
    get_partition_names_result(o2=MetaException("no")).write(TBinaryProtocol(written))
    lists = [["k=1", "k=é", ""], [], ["k=" + "x" * 300, "\0\0\0\1", "a\0"]]
    return [
        written.getvalue(),
        *(listed(text.encode() for text in texts) + end for texts in lists for end in (b"\0", b"")),
    ]


def listed(strings: Iterable[bytes]) -> bytes:
    """Return the beginning of a response, that is the header and the list."""
    each = [struct.pack(">i", len(string)) + string for string in strings]
    return struct.pack(">bhbi", 15, 0, 11, len(each)) + b"".join(each)


class Line(TTransportBase):  # type: ignore[misc]  # thrift has no types
    """A transport that returns bytes in pieces of random sizes."""

    def __init__(self, data: bytes, seed: int) -> None:
        self.left = data
        self._sizes = random.Random(seed)

    def read(self, size: int) -> bytes:
        most = min(size, self._sizes.choice([1, 3, 7, 40, 1000, 1 << 20]))
        piece, self.left = self.left[:most], self.left[most:]
        if not piece:
            raise EOFError
        return piece


def read(data: bytes, seed: int, buffer: int, *, by_thrift: bool) -> tuple[Any, ...] | None:
    """Return the strings and the error of a response, and the bytes after it.

    Return None if decoding fails.
    """
    line = Line(data, seed)
    transport = TBufferedTransport(line, buffer)
    protocol = TBinaryProtocolAccelerated(
        transport, string_length_limit=2**31 - 1, container_length_limit=10**6
    )
    result = get_partition_names_result()
    try:
        strings = None if by_thrift else read_strings(transport)
        result.read(protocol)
    except Exception:
        return None
    if result.success is None and strings is not None:
        result.success = [string.decode(errors="replace") for string in strings.to_pylist()]
    return result.success, result.o2, transport.cstringio_buf.read() + line.left


def run(data: bytes) -> bool:
    found = None
    for seed, buffer in ((1, 16), (2, 64), (3, 1 << 18)):
        found = read(data, seed, buffer, by_thrift=False)
        assert found == read(data, seed, buffer, by_thrift=True), data
    return found is not None
