"""Send a table of files to the JVM as Hadoop's ``FileStatus[]``, in one call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from splitlib.spark.jvm.gateway import Jvm

FILE_STATUS: Final = "org.apache.hadoop.fs.FileStatus"


def file_statuses(jvm: Jvm, files: pa.Table) -> Any:
    """Return a ``FileStatus[]`` of the files.

    Args:
        jvm: The session's JVM.
        files: The files; see :func:`encode_statuses` for the columns.
    """
    stream = jvm.class_("java.io.ByteArrayInputStream")(encode_statuses(files))
    writable = jvm.class_("org.apache.hadoop.io.ArrayWritable")(jvm.reflected(FILE_STATUS))
    writable.readFields(jvm.class_("java.io.DataInputStream")(stream))
    statuses = jvm.array(FILE_STATUS, files.num_rows)
    jvm.class_("java.lang.System").arraycopy(writable.get(), 0, statuses, 0, files.num_rows)
    return statuses


def encode_statuses(files: pa.Table) -> bytes:
    """Serialize files as Hadoop serializes an ``ArrayWritable`` of ``FileStatus``.

    Each status is a length, followed by the message ``FileStatusProto`` of Hadoop's FSProtos.proto.
    The field ``owner``, which Spark ignores, holds the number of the partition.

    Args:
        files: Columns ``path``, ``size``, ``modified`` and ``partition``.
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
    """Encode a number as protobuf's varint. Negative numbers become their two's complement."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
