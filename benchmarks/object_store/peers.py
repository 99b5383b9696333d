"""Other libraries that find the files of the same partitions.

Each library runs the documented call that comes closest to listing files. pyarrow returns one
fragment per file. Polars and DuckDB count rows, so they also open the files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import S3FileSystem

from benchmarks.object_store.servers import BUCKET, KEY, SECRET
from benchmarks.object_store.tables import FILES

_REGION = "us-east-1"
_ROOT = f"s3://{BUCKET}/t"


class Peer(NamedTuple):
    """Another library or engine that finds the same files."""

    name: str
    what: str
    """Call or query that is measured."""
    prepare: Callable[[str, Sequence[int]], Callable[[], int]]
    """Function that returns the call to measure.

    Its arguments are the store's host and port, and the partition numbers. The call returns the
    number of files, or the number of rows. Both are equal, because each file has one row.
    """
    opens_files: bool = False
    """Whether the peer opens every file. If most partitions match, this takes minutes."""
    cpu_seconds: Callable[[], float] = time.process_time
    """Function that returns the CPU seconds used so far, summed over the peer's processes."""

    def ready(self, address: str, matching: Sequence[int]) -> Callable[[], None]:
        """Return the call to measure, which also checks its result.

        Raises:
            ImportError: The peer is not installed.
        """
        run = self.prepare(address, matching)

        def checked() -> None:
            if (found := run()) != FILES * len(matching):
                raise RuntimeError(f"{self.name} found {found} files")

        return checked


def _pyarrow(address: str, matching: Sequence[int]) -> Callable[[], int]:
    store = S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        region=_REGION,
        scheme="http",
        endpoint_override=address,
    )
    keys = ds.partitioning(pa.schema([("k", pa.int32())]), flavor="hive")
    wanted = pc.field("k").isin(pa.array(matching, pa.int32()))

    def run() -> int:
        table = ds.dataset(f"{BUCKET}/t", filesystem=store, format="parquet", partitioning=keys)
        return sum(1 for _ in table.get_fragments(wanted))

    return run


def _polars(address: str, matching: Sequence[int]) -> Callable[[], int]:
    pl: Any = import_module("polars")
    options = {
        "aws_endpoint_url": f"http://{address}",
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_region": _REGION,
        "aws_allow_http": "true",
    }
    wanted = pl.Series(matching, dtype=pl.Int64).implode()

    def run() -> int:
        table = pl.scan_parquet(
            f"{_ROOT}/", hive_partitioning=True, storage_options=options, glob=True
        )
        rows: int = table.filter(pl.col("k").is_in(wanted)).select(pl.len()).collect().item()
        return rows

    return run


def _duckdb(address: str, matching: Sequence[int]) -> Callable[[], int]:
    duckdb: Any = import_module("duckdb")
    [package, *_] = import_module("duckdb_extension_httpfs").__path__
    [extension] = Path(package).rglob(f"v{duckdb.__version__}/httpfs.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', REGION '{_REGION}', "
        f"ENDPOINT '{address}', URL_STYLE 'path', USE_SSL false)"
    )
    values = ", ".join(map(str, matching))

    def run() -> int:
        # Use a new cursor each time, because DuckDB caches listings.
        found = connection.cursor().execute(
            f"SELECT count(*) FROM read_parquet('{_ROOT}/*/*.parquet', hive_partitioning = true) "
            f"WHERE k IN ({values})"
        )
        rows: int = found.fetchone()[0]
        return rows

    return run


PEERS = (
    Peer("pyarrow.dataset", "get_fragments(filter)", _pyarrow),
    Peer("Polars", "scan_parquet(…).filter(…).select(len())", _polars, opens_files=True),
    Peer("DuckDB", "SELECT count(*) … WHERE k IN (…)", _duckdb, opens_files=True),
)
