"""Upload the TPC-DS tables to an S3 server, one object for each file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore

from benchmarks.object_store.servers import BUCKET, obstore_of
from benchmarks.tpcds.data import Data

ROOT = f"s3a://{BUCKET}/tpcds"
"""URL of the directory that contains a directory for each table."""
_AT_ONCE = 16


def upload(data: Data, endpoint: str) -> int:
    """Upload all files. Their object keys are their relative paths.

    Args:
        data: The tables on the local disk.
        endpoint: URL of the server. Its bucket must exist.

    Returns:
        The number of files.
    """
    store = obstore_of(endpoint, "tpcds")
    files = [path for table in data.tables for path in (data.directory / table).rglob("*.parquet")]

    def put(path: Path) -> None:
        obstore.put(store, str(path.relative_to(data.directory)), path)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(put, files):
            pass  # Iterating raises the errors of the uploads.
    return len(files)
