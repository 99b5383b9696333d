"""Read the footers of Parquet files with the session's own filesystems and credentials."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from splitlib.arrow.parquet_footer import footer
from splitlib.spark.jvm.gateway import Jvm


def read_footer(jvm: Jvm, conf: Any, path: str, size: int) -> pq.FileMetaData:
    """Return the metadata of a Parquet file.

    Args:
        jvm: The session's JVM.
        conf: The session's Hadoop configuration.
        path: Path of the file, in Hadoop's spelling.
        size: Size of the file, in bytes.

    Raises:
        Py4JJavaError: if the file cannot be read.
        pyarrow.ArrowException: if it is not a Parquet file.
    """
    return pq.read_metadata(pa.BufferReader(footer(size, partial(read_end, jvm, conf, path, size))))


def read_end(jvm: Jvm, conf: Any, path: str, size: int, length: int) -> bytes:
    """Return the last ``length`` bytes of a file; for the arguments see :func:`read_footer`.

    Raises:
        Py4JJavaError: if the file cannot be read.
    """
    place = jvm.class_("org.apache.hadoop.fs.Path")(path)
    stream = place.getFileSystem(conf).open(place)
    try:
        stream.seek(size - length)
        return bytes(stream.readNBytes(length))
    finally:
        stream.close()
