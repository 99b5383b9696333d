"""The tables on an S3 server, as one object for each of their files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore

from benchmarks.object_store.servers import BUCKET, obstore_of
from benchmarks.tpcds.data import Data

ROOT = f"s3a://{BUCKET}/tpcds"
"""Below it each table has a directory of its name."""
_AT_ONCE = 16


def upload(data: Data, endpoint: str) -> int:
    """Put all files there, keyed as their paths are.

    Args:
        data: The tables on the local disk.
        endpoint: URL of the server, whose bucket exists.

    Returns:
        How many files there are.
    """
    store = obstore_of(endpoint, "tpcds")
    files = [path for table in data.tables for path in (data.directory / table).rglob("*.parquet")]

    def put(path: Path) -> None:
        obstore.put(store, str(path.relative_to(data.directory)), path)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(put, files):
            pass  # which raises what went wrong
    return len(files)
