"""A table of files for the commands."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.cli.command_line import NULL


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with the keys ``day`` (int) and ``kind`` (string).

    Partitions: 1/a, 1/b (two files), 2/a%2Fc (the value is ``a/c``), null/a.
    """
    root = tmp_path / "table"
    for name, files in [
        ("day=1/kind=a", 1),
        ("day=1/kind=b", 2),
        ("day=2/kind=a%2Fc", 1),
        (f"day={NULL}/kind=a", 1),
    ]:
        directory = root / name
        directory.mkdir(parents=True)
        for i in range(files):
            pq.write_table(pa.table({"x": [i]}), directory / f"{i}.parquet")
    return root
