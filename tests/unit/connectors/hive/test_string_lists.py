"""Lists of strings straight into Arrow, compared with what thrift's own decoder makes of them."""

from __future__ import annotations

import random
import struct

import pytest
from hmsclient.genthrift.hive_metastore.ThriftHiveMetastore import get_partition_names_result
from hmsclient.genthrift.hive_metastore.ttypes import MetaException
from hypothesis import given
from hypothesis import strategies as st
from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.transport.TTransport import TBufferedTransport, TMemoryBuffer, TTransportBase

from splitlib_hive.string_lists import read_strings
from tests.fuzzing.mutations import mutated


class Line(TTransportBase):
    """Bytes that come in pieces."""

    def __init__(self, data, sizes):
        self.data, self.at = data, 0
        self.pieces = random.Random(sizes)

    def read(self, size):
        most = self.pieces.choice([1, 3, 7, 40, 1000, 1 << 20])
        piece = self.data[self.at :][: min(size, most)]
        self.at += len(piece)
        if not piece:
            raise EOFError
        return piece


def listed(strings):
    body = b"".join(struct.pack(">i", len(one)) + one for one in strings)
    return struct.pack(">bhbi", 15, 0, 11, len(strings)) + body


def answered(data, sizes, buffer, *, ours):
    """The strings or the error in an answer, and what is left of it; what fails is None."""
    line = Line(data, sizes)
    transport = TBufferedTransport(line, buffer)
    protocol = TBinaryProtocolAccelerated(
        transport, string_length_limit=2**31 - 1, container_length_limit=10**6
    )
    result = get_partition_names_result()
    try:
        strings = read_strings(transport) if ours else None
        result.read(protocol)
    except Exception:
        return None
    if result.success is None and strings is not None:
        result.success = [one.decode(errors="replace") for one in strings.to_pylist()]
    left = transport.cstringio_buf.read() + line.data[line.at :]
    return result.success, result.o2, left


names = st.text(min_size=1, max_size=40).map(str.encode)
odd = st.binary(max_size=8) | st.sampled_from(
    [b"", b"\0", b"\0\0", b"a" * 255, b"b" * 256, b"c" * 257, b"\0\0\0\1", b"d" * 65536, b"e\0"]
)


@given(
    st.lists(names | odd, max_size=30),
    st.sampled_from([b"\0", b"\0left", b"\0\0\0\0\5", b"\x0f\0\0\x0b\0\0\0\1\0\0\0\1x\0"]),
    st.integers(0, 99),
    st.sampled_from([4, 64, 1 << 18]),
)
def test_what_is_read_is_what_thrift_reads(strings, end, sizes, buffer):
    data = listed(strings) + end
    found = answered(data, sizes, buffer, ours=True)
    assert found == answered(data, sizes, buffer, ours=False)
    assert found is not None


@given(st.lists(names | odd, max_size=10), st.integers(0, 10**6))
def test_damaged_answers_are_as_thrift_reads_them(strings, seed):
    source = random.Random(seed)
    data = mutated(listed(strings) + b"\0more", [listed([b"x"])], [b"\xff" * 4], source)
    assert answered(data, seed, 64, ours=True) == answered(data, seed, 64, ours=False)


def test_many_strings_of_many_lengths():
    strings = [f"k={number}".encode() for number in sorted(map(str, range(100_000)))]
    transport = TBufferedTransport(Line(listed(strings) + b"\0", 1), 1 << 18)
    assert read_strings(transport).to_pylist() == strings
    assert transport.read(9) == b"\0"


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        struct.pack(">bhbi", 15, 1, 11, 0),
        struct.pack(">bhbi", 15, 0, 12, 0),
        struct.pack(">bhbi", 15, 0, 11, -1),
    ],
    ids=["nothing", "another field", "no strings", "fewer than none"],
)
def test_what_is_no_list_of_strings_is_left_as_it_is(data):
    transport = TBufferedTransport(Line(data, 0), 64)
    assert read_strings(transport) is None
    assert transport.readAll(len(data)) == data


def test_an_error_is_left_as_it_is():
    written = TMemoryBuffer()
    get_partition_names_result(o2=MetaException("no")).write(TBinaryProtocol(written))
    _, error, left = answered(written.getvalue(), 0, 64, ours=True)
    assert error.message == "no"
    assert not left


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 2**30 + 1])
def test_a_length_that_no_string_has(length):
    data = struct.pack(">bhbii", 15, 0, 11, 2, 1) + b"a" + struct.pack(">i", length)
    with pytest.raises(
        TProtocolException, match=f"a string of {length:,} bytes".replace(",", ",?")
    ):
        read_strings(TBufferedTransport(Line(data, 0), 64))


def test_a_count_that_is_not_true_takes_no_memory():
    data = struct.pack(">bhbii", 15, 0, 11, 2**31 - 1, 1) + b"a"
    with pytest.raises(EOFError):
        read_strings(TBufferedTransport(Line(data, 0), 64))
