"""Checksums, batches and schemas as bytes. Valid bytes are decoded, and others are refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from splitlib.arrow import ipc

NAME = b"TEST"
BATCH = pa.record_batch({"n": [1, None], "s": ["a", "é"]})
DICTIONARY = pa.schema([("d", pa.dictionary(pa.int8(), pa.string()))])


def test_there_and_back():
    assert ipc.unseal(ipc.seal(b"body", NAME), NAME) == b"body"
    assert ipc.unseal(ipc.seal(b"", NAME), NAME) == b""
    assert ipc.read_batch(ipc.write_batch(BATCH)) == BATCH
    assert ipc.read_schema(BATCH.schema.serialize().to_pybytes()) == BATCH.schema


def test_every_changed_bit_is_noticed():
    sealed = ipc.seal(b"body", NAME)
    for bit in range(8 * len(sealed)):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ipc.Unreadable, match="checksum"):
            ipc.unseal(bytes(changed), NAME)
    for size in range(len(sealed)):
        with pytest.raises(ipc.Unreadable, match="checksum"):
            ipc.unseal(sealed[:size], NAME)
    with pytest.raises(ipc.Unreadable, match="checksum"):
        ipc.unseal(sealed, b"ELSE")


def test_what_is_no_schema():
    for data in (b"", b"text", BATCH.schema.serialize().to_pybytes()[:40]):
        with pytest.raises(ipc.Unreadable, match="not an Arrow schema"):
            ipc.read_schema(data)


def test_what_is_no_batch():
    empty = pa.BufferOutputStream()
    pa.ipc.new_stream(empty, BATCH.schema).close()
    for data in (b"", b"text", ipc.write_batch(BATCH)[:-100], empty.getvalue().to_pybytes()):
        with pytest.raises(ipc.Unreadable, match="not an Arrow stream"):
            ipc.read_batch(data)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("version", ["V4", "V5"])
def test_compressed_bodies_are_not_unpacked(codec, version):
    """Compressed data is refused, because a few bytes could decompress to gigabytes."""
    zeros = pa.record_batch({"n": [0] * 9})
    options = pa.ipc.IpcWriteOptions(
        compression=codec, metadata_version=getattr(pa.ipc.MetadataVersion, version)
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, zeros.schema, options=options) as writer:
        writer.write_batch(zeros)
    with pytest.raises(ipc.Unreadable, match=r"compressed|custom metadata"):
        ipc.read_batch(sink.getvalue().to_pybytes())


def test_custom_metadata_of_a_message_is_refused():
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, BATCH.schema) as writer:
        writer.write_batch(BATCH, custom_metadata={"a": "b"})
    with pytest.raises(ipc.Unreadable, match="a message has custom metadata"):
        ipc.read_batch(sink.getvalue().to_pybytes())


def test_messages_that_are_never_written_are_refused():
    """A tensor after the batch would not be read, and nothing else checks it."""
    batch = ipc.write_batch(BATCH)[:-8]  # without the end of the stream
    sink = pa.BufferOutputStream()
    pa.ipc.write_tensor(pa.Tensor.from_numpy(np.zeros(2)), sink)
    assert ipc.read_batch(batch) == BATCH
    with pytest.raises(ipc.Unreadable, match="unexpected message of type tensor"):
        ipc.read_batch(batch + sink.getvalue().to_pybytes())


def test_names_that_are_not_utf8_are_refused():
    inner = pa.field("l", pa.struct([("a name", pa.int8())]))
    for schema in (pa.schema([("a name", pa.int8())]), pa.schema([inner])):
        data = schema.serialize().to_pybytes().replace(b"a name", b"a n\xffme")
        with pytest.raises(ipc.Unreadable, match="a name is not valid UTF-8"):
            ipc.read_schema(data)


def test_types_that_are_never_written_are_refused():
    nested = pa.schema([pa.field("l", pa.list_(DICTIONARY.field("d")))])
    for schema in (DICTIONARY, nested, pa.schema([("v", pa.string_view())])):
        with pytest.raises(ipc.Unreadable, match=r"column '.*' has unsupported type"):
            ipc.read_schema(schema.serialize().to_pybytes())
        with pytest.raises(ipc.Unreadable, match=r"column '.*' has unsupported type"):
            ipc.read_batch(ipc.write_batch(pa.RecordBatch.from_pylist([], schema=schema)))
