"""Small inputs that would decompress to gigabytes are refused with little memory."""

from __future__ import annotations

import subprocess
import sys

from tests.fuzzing import iceberg_files

# This script runs in a new process, because a memory limit applies to a whole process.
_CHILD = """
import json
import resource
import zlib

import numpy as np
import pyarrow as pa
import zstandard
from pyroaring import BitMap64

from splitlib import CorruptMetadata, DynamicFilteringData, InvalidFilter
from splitlib.arrow import ipc
from splitlib.model import DeleteFile
from splitlib_iceberg.unpacking import read_vector
from splitlib_iceberg.manifests import read_list
from tests.fuzzing.iceberg_files import InMemory, kept

MIB = 1 << 20
UNPACKED = 384 * MIB


def compressed_filter():
    stream = ipc.unseal(DynamicFilteringData.from_values({"k": [1]}).to_bytes(), b"SLF1")
    schema = pa.ipc.open_stream(stream).schema
    zeros = pa.array(np.zeros(UNPACKED // 8, np.int64))
    keys = pa.LargeListArray.from_arrays(pa.array([0, len(zeros)], pa.int64()), zeros)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([keys], schema=schema))
    return ipc.seal(sink.getvalue().to_pybytes(), b"SLF1")


def zeros_by(compressor):
    pieces = [compressor.compress(bytes(MIB)) for _ in range(UNPACKED // MIB)]
    return b"".join([*pieces, compressor.flush()])


def varint(number):
    number, found = number << 1, bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def manifest_list(codec, block):
    plain = kept()["deflate-list.avro"]
    sync = plain[-16:]
    name = varint(len(codec)) + codec
    header = plain[: plain.index(sync) + 16].replace(b"\\x0edeflate", name)
    return header + varint(UNPACKED // 16) + varint(len(block)) + block + sync


def vector(runs):
    body = b"\\xd1\\xd3\\x39\\x64" + runs.serialize()
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def refuses(error, says, call):
    try:
        call()
    except error as caught:
        assert says in str(caught), caught
    else:
        raise AssertionError(says)


keys = compressed_filter()
deflated = manifest_list(b"deflate", zeros_by(zlib.compressobj(wbits=-15)))
of_zstd = manifest_list(b"zstandard", zeros_by(zstandard.ZstdCompressor().compressobj()))
deleted = BitMap64()
for start in range(0, UNPACKED, 1 << 16):
    deleted.add_range(start, start + (1 << 16))
deleted.run_optimize()
deleted = vector(deleted)
assert max(map(len, (keys, deflated, of_zstd, deleted))) < MIB

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 200 * MIB, used + 200 * MIB))

refuses(InvalidFilter, "compressed", lambda: DynamicFilteringData.from_bytes(keys))
for data in (deflated, of_zstd):
    refuses(CorruptMetadata, "decompresses to more", lambda: read_list(InMemory({"f": data}), "f"))
for records in (None, UNPACKED):
    file = DeleteFile("vector", "f", 1, "puffin", 0, len(deleted), records=records)
    refuses(CorruptMetadata, "limit of", lambda: read_vector(InMemory({"f": deleted}), file))
print("refused")
"""


def test_they_are_refused_before_they_are_unpacked() -> None:
    assert iceberg_files.DIRECTORY.is_dir()
    done = subprocess.run(
        [sys.executable, "-c", _CHILD], capture_output=True, text=True, check=False
    )
    assert done.stdout == "refused\n", done.stderr
