"""Lists of strings are decoded directly into Arrow, with the same result as thrift's decoder."""

from __future__ import annotations

import random
import struct

import pytest
from hmsclient.genthrift.hive_metastore.ThriftHiveMetastore import get_partition_names_result
from hmsclient.genthrift.hive_metastore.ttypes import MetaException
from hypothesis import given
from hypothesis import strategies as st
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TProtocol import TProtocolException
from thrift.transport.TTransport import TBufferedTransport, TMemoryBuffer

from splitlib_hive.string_lists import read_strings
from tests.fuzzing.mutations import mutated
from tests.fuzzing.targets.string_lists import Line, listed, read

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
    found = read(data, sizes, buffer, by_thrift=False)
    assert found == read(data, sizes, buffer, by_thrift=True)
    assert found is not None


@given(st.lists(names | odd, max_size=10), st.integers(0, 10**6))
def test_damaged_answers_are_as_thrift_reads_them(strings, seed):
    source = random.Random(seed)
    data = mutated(listed(strings) + b"\0more", [listed([b"x"])], [b"\xff" * 4], source)
    assert read(data, seed, 64, by_thrift=False) == read(data, seed, 64, by_thrift=True)


def test_many_strings_of_many_lengths():
    strings = [f"k={number}".encode() for number in sorted(map(str, range(100_000)))]
    transport = TBufferedTransport(Line(listed(strings) + b"\0", 1), 1 << 18)
    found = read_strings(transport)
    assert found is not None
    assert found.to_pylist() == strings
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
    found = read(written.getvalue(), 0, 64, by_thrift=False)
    assert found is not None
    _, error, left = found
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
