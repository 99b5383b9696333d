"""Files as Hadoop's ``FileStatus[]``, sent to the JVM in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from splitlib.spark.jvm.gateway import Jvm

FILE_STATUS: Final = "org.apache.hadoop.fs.FileStatus"


def file_statuses(jvm: Jvm, files: pa.Table) -> Any:
    """A ``FileStatus[]`` of files; see :func:`encode_statuses`."""
    stream = jvm.class_("java.io.ByteArrayInputStream")(encode_statuses(files))
    writable = jvm.class_("org.apache.hadoop.io.ArrayWritable")(jvm.reflected(FILE_STATUS))
    writable.readFields(jvm.class_("java.io.DataInputStream")(stream))
    statuses = jvm.array(FILE_STATUS, files.num_rows)
    jvm.class_("java.lang.System").arraycopy(writable.get(), 0, statuses, 0, files.num_rows)
    return statuses


def encode_statuses(files: pa.Table) -> bytes:
    """Files as Hadoop writes an ``ArrayWritable`` of ``FileStatus``.

    Each status is the message ``FileStatusProto`` of Hadoop's FSProtos.proto behind its length. The
    field ``owner``, which Spark does not look at, carries the number of the partition.

    Args:
        files: Columns path, size, modified and partition.
    """
    columns = (files[name].to_pylist() for name in ("path", "size", "modified", "partition"))

    def messages() -> Iterator[bytes]:
        yield files.num_rows.to_bytes(4, "big")
        for path, size, modified, partition in zip(*columns, strict=True):
            name, owner = path.encode(), b"%d" % partition
            message = b"".join(
                (
                    b"\x08\x02",  # fileType = FT_FILE
                    b"\x12" + _varint(len(name)) + name,
                    b"\x18" + _varint(size),
                    b"\x2a" + _varint(len(owner)) + owner,
                    b"\x38" + _varint(modified),
                )
            )
            yield len(message).to_bytes(4, "big")
            yield message

    return b"".join(messages())


def _varint(value: int) -> bytes:
    """A number as protobuf's uint64; a negative one is its two's complement."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
