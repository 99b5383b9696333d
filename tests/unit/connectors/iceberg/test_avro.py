"""Avro files are decoded correctly, or refused if one part contradicts another."""

from __future__ import annotations

import bz2
import json
import re
import zlib
from contextlib import suppress
from io import BytesIO
from types import SimpleNamespace

import pytest
import zstandard
from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.avro.resolver import construct_reader

from splitlib_iceberg.avro import AvroContainer
from splitlib_iceberg.unpacking import received, unpacked
from tests.fuzzing import iceberg_files

MANIFEST = iceberg_files.kept()["null-0.avro"]
SYNC_BYTES = 16
SYNC = MANIFEST[-SYNC_BYTES:]


def records_of(data: bytes) -> int:
    container = AvroContainer(data)
    return len(list(container.records(construct_reader(container.schema))))


def in_blocks(codec: bytes, count: int, block: bytes) -> bytes:
    """Return an Avro file with another codec and one block, which declares ``count`` records."""
    header = replaced(b"avro.codec\x08null", b"avro.codec" + number(len(codec)) + codec)
    header = header[: header.index(SYNC) + SYNC_BYTES]
    return header + number(count) + number(len(block)) + block + SYNC


def deflated(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


ZEROS = bytes(16 << 20)
SNAPPY_HEADER = b"\x80\x80\x80\x80\x04"  # declares a length of one gigabyte


@pytest.mark.parametrize(
    ("codec", "block"),
    [
        (b"deflate", deflated(ZEROS)),
        (b"bzip2", bz2.compress(ZEROS)),
        (b"bzip2", bz2.compress(bytes(3 << 20)) * 3),
        (b"zstandard", zstandard.compress(ZEROS)),
        (b"snappy", SNAPPY_HEADER + b"crc!"),
    ],
)
def test_blocks_that_decompress_to_too_much(codec, block):
    with pytest.raises(ValueError, match="decompresses to more"):
        records_of(in_blocks(codec, 1, block))


def test_records_that_take_no_compressed_bytes():
    zeros = bytes(3 << 20)
    with pytest.raises(ValueError, match="claimed number of records"):
        records_of(in_blocks(b"deflate", len(zeros), deflated(zeros)))


DATA = bytes(range(256)) * (5 << 10)


@pytest.mark.parametrize(
    ("codec", "block"),
    [
        ("deflate", deflated(DATA)),
        ("bzip2", bz2.compress(DATA)),
        ("bzip2", bz2.compress(DATA[:999]) + bz2.compress(DATA[999:])),
        ("zstandard", zstandard.compress(DATA)),
    ],
)
def test_a_block_may_be_as_large_as_its_limit(codec, block):
    assert unpacked(codec, block, len(DATA)) == DATA
    with pytest.raises(ValueError, match="decompresses to more"):
        unpacked(codec, block, len(DATA) - 1)


def test_a_block_of_snappy_declares_its_size(monkeypatch):
    """The declared size is compared with the limit before the package decompresses the block."""
    monkeypatch.setitem(KNOWN_CODECS, "snappy", SimpleNamespace(decompress=lambda data: DATA))
    for size in (126, 300, 2**21):
        declared, rest = bytearray(), size
        while rest > 0x7F:
            declared.append(rest & 0x7F | 0x80)
            rest >>= 7
        block = bytes([*declared, rest]) + b"data"
        assert unpacked("snappy", block, size) == DATA
        with pytest.raises(ValueError, match="decompresses to more"):
            unpacked("snappy", block, size - 1)
    with pytest.raises(ValueError, match="does not contain its size"):
        unpacked("snappy", b"\x80" * 5 + b"\1", 2**40)


@pytest.mark.parametrize("cut", [1, 10])
@pytest.mark.parametrize(
    ("codec", "block"), [(b"deflate", deflated(b"text" * 9)), (b"bzip2", bz2.compress(b"text" * 9))]
)
def test_blocks_that_are_cut_short(codec, block, cut):
    with pytest.raises(EOFError, match="A block is truncated"):
        records_of(in_blocks(codec, 1, block[:-cut]))


@pytest.mark.parametrize("codec", [b"deflate", b"bzip2", b"zstandard"])
def test_blocks_that_are_not_compressed(codec):
    with pytest.raises(ValueError, match="A block cannot be decompressed"):
        records_of(in_blocks(codec, 1, b"\xff" * 40))


@pytest.mark.parametrize(
    "items",
    [
        {"type": "fixed", "name": "f", "size": 0},
        {"type": "record", "name": "r", "fields": []},
    ],
)
def test_elements_that_take_no_bytes(items):
    """Arrays of elements without bytes are bounded, as two bytes could declare billions of them."""
    field = {"name": "l", "type": {"type": "array", "element-id": 2, "items": items}}
    schema = {"type": "record", "name": "t", "fields": [{**field, "field-id": 1}]}
    stored = json.dumps(schema).encode()
    entry = number(11) + b"avro.schema" + number(len(stored)) + stored
    with pytest.raises(ValueError, match="take no bytes"):
        AvroContainer(b"Obj\x01" + number(1) + entry + b"\0" + SYNC)


NOTHING = {"type": "fixed", "name": "f", "size": 0}
BYTE = {"type": "fixed", "name": "g", "size": 1}


@pytest.mark.parametrize(
    ("key", "value", "is_refused"),
    [
        (NOTHING, {"type": "record", "name": "r", "fields": []}, True),
        (BYTE, NOTHING, False),
        (NOTHING, BYTE, False),
        (NOTHING, ["null", BYTE], False),
        (NOTHING, ["null", NOTHING | {"name": "h"}], False),
    ],
)
def test_entries_of_maps_that_take_no_bytes(key, value, is_refused):
    fields = [
        {"name": "key", "type": key, "field-id": 2},
        {"name": "value", "type": value, "field-id": 3},
    ]
    items = {"type": "record", "name": "k2_v3", "fields": fields}
    data = file_of({"type": "array", "logicalType": "map", "items": items})
    if is_refused:
        with pytest.raises(ValueError, match="Entries of a map take no bytes"):
            AvroContainer(data)
    else:
        AvroContainer(data)


def test_every_record_is_read():
    for codec in iceberg_files.CODECS:
        assert records_of(iceberg_files.kept()[f"{codec}-0.avro"]) == iceberg_files.FILES


def replaced(old: bytes, new: bytes) -> bytes:
    assert MANIFEST.count(old) == 1
    return MANIFEST.replace(old, new)


HEADER_BYTES = MANIFEST.index(SYNC) + SYNC_BYTES


def with_count(count: bytes) -> bytes:
    return MANIFEST[:HEADER_BYTES] + count + MANIFEST[HEADER_BYTES + 1 :]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"Obj\x02" + MANIFEST[4:], "not an Avro file"),
        (MANIFEST[:-1] + bytes([MANIFEST[-1] ^ 1]), "sync marker"),
        (replaced(b"avro.codec\x08null", b"avro.codec\x08nil!"), "codec nil!"),
        # The first block has one record, but declares 2, 0, -1 and other numbers.
        (with_count(b"\x04"), "too short"),
        (with_count(b"\x00"), "claimed number"),
        (with_count(b"\x01"), "cannot hold -1"),
        (with_count(b"\xfe\xff\x0f"), "cannot hold 131071"),
        (MANIFEST + b"\x00", "too short"),
    ],
)
def test_what_is_refused(data, says):
    with pytest.raises((ValueError, EOFError), match=says):
        records_of(data)


def test_a_file_cut_within_a_block_is_refused():
    found = {}
    for size in range(len(MANIFEST)):
        with suppress(ValueError, EOFError):
            found[size] = records_of(MANIFEST[:size])
    # Each block ends with the sync marker. A file that is cut there is valid Avro, and only the
    # counts in the manifest list show that blocks are missing.
    ends = [found.end() for found in re.finditer(re.escape(SYNC), MANIFEST)]
    assert found == {end: count for count, end in enumerate(ends[:-1])}


def test_a_file_of_which_positions_cannot_be_told():
    class Large(bytes):
        size = 2**31 - 1

        def __len__(self) -> int:
            return self.size

    assert AvroContainer(Large(MANIFEST)).schema == AvroContainer(MANIFEST).schema
    Large.size += 1
    with pytest.raises(ValueError, match="too large to be decoded"):
        AvroContainer(Large(MANIFEST))


def number(n: int) -> bytes:
    """Encode an integer as Avro does."""
    n = (n << 1) ^ (n >> 63)
    found = bytearray()
    while n > 0x7F:
        found.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*found, n])


INTEGERS = {"type": "array", "items": "long", "element-id": 2}
BOUNDS = {
    "type": "array",
    "logicalType": "map",
    "items": {
        "type": "record",
        "name": "k2_v3",
        "fields": [
            {"name": "key", "type": "int", "field-id": 2},
            {"name": "value", "type": "bytes", "field-id": 3},
        ],
    },
}


def file_of(kind, *blocks, codec=b"null"):
    """Return a file with a column of this type. Each block has one record."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind, "field-id": 1}]}
    texts = [b"avro.schema", json.dumps(schema).encode(), b"avro.codec", codec]
    head = number(2) + b"".join(number(len(text)) + text for text in texts) + number(0)
    each = (number(1) + number(len(block)) + block + SYNC for block in blocks)
    return b"Obj\x01" + head + SYNC + b"".join(each)


@pytest.mark.parametrize("is_sized", [False, True])
@pytest.mark.parametrize("is_split", [False, True])
def test_the_forms_of_a_header(is_sized, is_split):
    """A header is a map. Blocks of a map with a negative count also have their size in bytes."""

    def block(*pairs):
        body = b"".join(number(len(text)) + text for pair in pairs for text in pair)
        return (
            number(-len(pairs)) + number(len(body)) + body
            if is_sized
            else (number(len(pairs)) + body)
        )

    schema = {"type": "record", "name": "r", "fields": []}
    pairs = [(b"avro.schema", json.dumps(schema).encode()), (b"a", b"1"), (b"b", b"")]
    blocks = [block(*pairs[:1]), block(*pairs[1:])] if is_split else [block(*pairs)]
    container = AvroContainer(b"Obj\x01" + b"".join(blocks) + number(0) + SYNC)
    assert container.metadata == dict(pairs)
    assert list(container.records(construct_reader(container.schema))) == []


def value_of(kind, block):
    """Decode a file with one block, which has one record with a column of this type."""
    container = AvroContainer(file_of(kind, block))
    (record,) = container.records(construct_reader(container.schema))
    return record[0]


def test_blocks_that_decompress_to_too_much_together():
    block = deflated(number(3 << 20) + bytes(3 << 20))
    assert records_of(file_of("bytes", block, codec=b"deflate")) == 1
    with pytest.raises(ValueError, match="decompresses to more"):
        records_of(file_of("bytes", block, block, codec=b"deflate"))


@pytest.mark.parametrize("count", [10, 5000])
def test_a_list_of_many_integers(count):
    """A list may have more integers than the compiled decoder reads at once."""
    values = [n * (-1) ** n for n in range(count)]
    integers = b"".join(map(number, values))
    assert list(value_of(INTEGERS, number(count) + integers + number(0))) == values
    more = len(integers) + 2  # each integer takes a byte, and one byte follows them
    with pytest.raises(EOFError, match=f"too short for {more} more integers"):
        value_of(INTEGERS, number(more) + integers + number(0))


def test_a_map_of_integers_and_bytes():
    first = number(5) + number(2) + b"ab"
    assert value_of(BOUNDS, number(1) + first + number(0)) == {5: b"ab"}
    for length in (-1, 99):
        with pytest.raises(EOFError, match=f"ends within the next {length} bytes"):
            value_of(BOUNDS, number(2) + first + number(6) + number(length) + b"ab" + number(0))


class Short(BytesIO):
    """A stream that returns fewer bytes than requested, and notes the requests."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.asked: list[int] = []

    def read(self, size=-1):
        self.asked.append(size)
        return super().read(min(size, 5))


@pytest.mark.parametrize(
    ("size", "found", "asked"),
    [(7, 7, [7, 2]), (12, 12, [12, 7, 2]), (50, 20, [32, 32, 32, 32, 30])],
)
def test_bytes_are_received_in_pieces(monkeypatch, size, found, asked):
    """The size may be wrong, so no more memory is taken than bytes arrive."""
    monkeypatch.setattr("splitlib_iceberg.unpacking.PIECE", 2)
    stream = Short(bytes(range(20)))
    assert received(stream, size) == bytes(range(found))
    assert stream.asked == asked


@pytest.mark.parametrize("size", [-1, 0, 9, 10, 11])
def test_a_read_has_a_limit(monkeypatch, size):
    class Sized(BytesIO):
        pass

    monkeypatch.setattr("splitlib_iceberg.unpacking.MOST_RECEIVED", 10)
    is_right = 0 <= size <= 10
    stream, of_method, of_property = (Sized(bytes(30)) for _ in range(3))
    # Streams of PyArrow have a method, and others a property.
    of_method.size, of_property.size = (lambda: size), size  # type: ignore[attr-defined]
    if is_right:
        assert received(stream, size) == bytes(size)
        assert len(received(of_method)) == len(received(of_property)) == 30
        return
    says = f"{size} bytes exceed the limit of one read"
    for each in (
        lambda: received(stream, size),
        *((lambda: received(of_method), lambda: received(of_property)) if size > 0 else ()),
    ):
        with pytest.raises(ValueError, match=says):
            each()
