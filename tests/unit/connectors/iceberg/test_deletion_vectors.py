from __future__ import annotations

import zlib

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap64

import splitlib
from splitlib.model import DeleteFile
from splitlib_iceberg.unpacking import read_vector


def vector_bytes(positions):
    """Return a deletion vector with length, magic number and checksum, as in a Puffin file."""
    body = b"\xd1\xd3\x39\x64" + BitMap64(positions).serialize()
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


@given(st.sets(st.integers(0, 2**40) | st.integers(0, 100), max_size=50))
@settings(max_examples=50, deadline=None)
def test_vectors(tmp_path_factory, positions):
    path = tmp_path_factory.mktemp("v") / "a b%20.puffin"
    vector = vector_bytes(positions)
    path.write_bytes(b"PFA1" + vector + b"what follows")
    delete = DeleteFile("vector", str(path), 1, "puffin", 4, len(vector))
    found = read_vector(PyArrowFileIO(), delete)
    assert found.type == pa.int64()
    assert found.to_pylist() == sorted(positions)


def test_a_vector_reads_as_pyiceberg_reads_the_whole_file(tmp_path):
    # PyIceberg 0.11 does not contain this module.
    reading = pytest.importorskip("pyiceberg.table.deletion_vector")
    vector = vector_bytes([1, 5, 2**33])
    properties = '{"referenced-data-file": "/a"}'
    footer = (
        '{"blobs": [{"type": "deletion-vector-v1", "fields": [], "snapshot-id": 1, '
        f'"sequence-number": 1, "offset": 4, "length": {len(vector)}, '
        f'"properties": {properties}}}]}}'
    ).encode()
    data = (
        b"PFA1"
        + vector
        + b"PFA1"
        + footer
        + len(footer).to_bytes(4, "little")
        + b"\0" * 4
        + b"PFA1"
    )
    path = tmp_path / "v.puffin"
    path.write_bytes(data)
    (theirs,) = reading.deletion_vectors_from_puffin_file(PuffinFile(data))
    delete = DeleteFile("vector", str(path), len(data), "puffin", 4, len(vector))
    assert read_vector(PyArrowFileIO(), delete).to_pylist() == theirs.to_vector().to_pylist()


@pytest.mark.parametrize("at", ["length", "magic", "bitmap", "checksum", "offset", "end"])
def test_a_damaged_vector(tmp_path, at):
    vector = bytearray(vector_bytes(range(100)))
    where = {"length": 3, "magic": 5, "bitmap": 20, "checksum": -1}
    if at in where:
        vector[where[at]] ^= 1
    path = tmp_path / "v.puffin"
    path.write_bytes(b"PFA1" + vector)
    offset = 5 if at == "offset" else 4
    length = len(vector) + (10 if at == "end" else 0)
    delete = DeleteFile("vector", str(path), 1, "puffin", offset, length)
    with pytest.raises(splitlib.CorruptMetadata, match="no deletion vector at byte"):
        read_vector(PyArrowFileIO(), delete)
    path.unlink()
    with pytest.raises(splitlib.MissingFile, match=f"The deletion vector {path} no longer exists"):
        read_vector(PyArrowFileIO(), delete)
